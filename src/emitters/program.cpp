#include "emitters/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "emitters/fusion/factor_sums.h"
#include "emitters/fusion/instruction_roles.h"
#include "emitters/fusion/nest_reductions.h"
#include "emitters/fusion/recompute.h"
#include "emitters/fusion/share_long_products.h"
#include "emitters/fusion/share_long_reductions.h"
#include "emitters/fusion/sink_transposes.h"
#include "emitters/fusion/split_reductions.h"
#include "emitters/fusion/widen_sums.h"
#include "emitters/lax/associative.h"
#include "emitters/library/complex_products.h"
#include "hlo/associative_scans.h"
#include "hlo/batch_loop_products.h"
#include "hlo/carry_conditions.h"
#include "hlo/drop_identities.h"
#include "hlo/evaluate.h"
#include "hlo/expand_batch_norms.h"
#include "hlo/expand_bitcast_converts.h"
#include "hlo/expand_conditionals.h"
#include "hlo/expand_ragged_dots.h"
#include "hlo/expand_row_scatters.h"
#include "hlo/expand_scans.h"
#include "hlo/expand_select_and_scatter.h"
#include "hlo/expand_window_scatters.h"
#include "hlo/fold_constants.h"
#include "hlo/fold_interior_pads.h"
#include "hlo/inline_calls.h"
#include "hlo/linear_recurrences.h"
#include "hlo/source_of.h"
#include "hlo/structure_key.h"
#include "hlo/unroll_loops.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using hlo::Literal;
using hlo::Opcode;

/// Iterations of a loop that are put on the stream one by one. Of more the condition is asked.
constexpr int64_t kMostCounted = 100'000;

/// Before layouts are assigned, those of a module's text mean nothing: only bitcasts, fusions, copies between layouts,
/// and texts that are one fusion or have parameters in other layouts, rest on them.
hlo::Module with_free_layouts(hlo::Module flat, const hlo::Module& original, bool one_kernel) {
  if (flat.fusion || one_kernel) return flat;
  for (const hlo::Computation& computation : original.computations) {
    for (const hlo::Instruction& it : computation.instructions) {
      if (it.opcode == Opcode::Bitcast || it.opcode == Opcode::Fusion) return flat;
      // A copy to another layout is there because layouts were assigned.
      if (it.opcode == Opcode::Copy && computation.operand_shape(it, 0) != it.shape) return flat;
    }
  }
  for (const InstructionId id : flat.entry_computation().parameters) {
    const hlo::Shape& shape = flat.entry_computation()[id].shape;
    if (shape.is_array() && !shape.has_default_layout()) return flat;  // somebody chose layouts
  }
  const std::function<void(hlo::Shape&)> reset = [&](hlo::Shape& shape) {
    shape.minor_to_major = hlo::default_layout(shape.dims.size());
    if (!shape.is_tuple()) return;
    std::vector<hlo::Shape> elements(shape.elements.begin(), shape.elements.end());
    for (hlo::Shape& element : elements) reset(element);
    shape.elements = std::move(elements);
  };
  for (hlo::Instruction& it : flat.computations[static_cast<size_t>(flat.entry)].instructions) {
    if (it.opcode != Opcode::Parameter && it.opcode != Opcode::Constant) reset(it.shape);
  }
  return flat;
}

/// A text that is one fusion is taken as it is.
hlo::Module flattened(const hlo::Module& module, bool one_kernel) {
  if (module.fusion) return hlo::inline_calls(module);
  const auto flat = hlo::fold_interior_pads(hlo::drop_identities(hlo::fold_constants(hlo::inline_calls(module))));
  return one_kernel ? flat : hlo::batch_loop_products(flat);
}

/// `parameters`: what becomes of the arrays that a program is given, of a loop's body or of a module.
Result<EmittedProgram> emit(const hlo::Module& module, const EmitOptions& options, LibraryUse libraries,
                            const LaxOptions& lax, Parameters parameters, const std::string& prefix);

class ProgramBuilder {
 public:
  ProgramBuilder(const hlo::Module& module, const EmitOptions& options, LibraryUse libraries, const LaxOptions& lax,
                 Parameters parameters, std::string prefix)
      : parameters_(parameters),
        prefix_(std::move(prefix)),
        flat_(with_free_layouts(flattened(module, !options.only.empty()), module, !options.only.empty())),
        options_(options),
        libraries_(libraries),
        lax_(lax) {}

  Result<EmittedProgram> build() {
    add_parameters();
    const hlo::Instruction& root = flat_.entry_computation().root_instruction();
    program_.result_shape = root.shape;
    program_.result_name = root.name;
    program_.name = flat_.name;
    if ((flat_.fusion || !options_.only.empty()) && add_whole()) return std::move(program_);
    if (options_.only.empty()) {
      flat_ = split_complex_products(flat_, options_.target);
      restart();
    }
    if (lax_.seconds > 0 && options_.only.empty()) {
      LaxSearch found = search_lax_parts(flat_, options_.target, lax_, libraries_);
      flat_ = std::move(found.module);
      lax_steps_ = std::move(found.steps);
      program_.notes = std::move(found.notes);
      restart();
    }
    if (libraries_ != LibraryUse::Never && options_.only.empty()) {
      const hlo::Module prepared = prepare_for_libraries(flat_, options_.target, libraries_);
      LibraryCalls found = find_library_calls(prepared, options_.target, libraries_);
      flat_ = std::move(found.module);
      calls_ = std::move(found.calls);
      kept_ = std::move(found.kept);
      restart();
    }
    FusedModule fused = options_.only.empty() ? cut() : fuse_recomputing(flat_, options_.target, parameters_);
    flat_ = std::move(fused.module);
    restart();
    for (const ProgramPart& part : fused.parts) STRATA_CHECK(add(part));
    STRATA_CHECK(add_results(flat_.entry_computation().root));
    return std::move(program_);
  }

 private:
  /// The kernels of the entry. Where sums differ by factors or wait for these, and where reductions of all elements can
  /// be of rows' results beside other reductions of rows, both ways are tried; large modules have one.
  FusedModule cut() const {
    Ratings ratings(options_.target);
    const auto fused_of = [&](const hlo::Module& module) { return fuse_recomputing(module, ratings, parameters_); };
    const auto kernels_of = [&](const hlo::Module& module) {
      return fused_of(share_long_reductions(split_reductions(module, options_.target), options_.target));
    };
    hlo::Module flat = widen_sums(share_long_products(flat_, options_.target));
    if (std::optional<hlo::Module> sunk = sink_transposes(flat)) flat = *std::move(sunk);
    std::optional<hlo::Module> factored = factor_sums(flat);
    if (flat.entry_computation().instructions.size() > kFewInstructions)
      return kernels_of(nest_reductions(factored ? *factored : flat));
    const std::optional<hlo::Module> early = factor_waiting_sums(flat);
    flat = nest_reductions(flat);
    FusedModule fused = kernels_of(flat);
    const auto consider = [&](hlo::Module other) {
      FusedModule instead = kernels_of(other);
      if (microseconds(instead.parts) >= microseconds(fused.parts)) return;
      fused = std::move(instead);
      flat = std::move(other);
    };
    if (factored) consider(nest_reductions(*factored));
    if (early) consider(nest_reductions(*early));
    if (std::optional<hlo::Module> nested = nest_beside_reductions(flat)) consider(*std::move(nested));
    if (const auto shared = share_atomic_reductions(split_reductions(flat, options_.target), options_.target)) {
      FusedModule instead = fused_of(*shared);
      if (microseconds(instead.parts) < microseconds(fused.parts)) fused = std::move(instead);
    }
    return fused;
  }

  /// Where instructions have got other numbers.
  void restart() {
    program_.buffers.clear();
    buffer_of_.clear();
    add_parameters();
  }

  void add_parameters() {
    const hlo::Computation& entry = flat_.entry_computation();
    for (size_t i = 0; i < entry.parameters.size(); ++i) {
      const InstructionId id = entry.parameters[i];
      const hlo::Shape& shape = entry[id].shape;
      const int64_t leaves = hlo::leaf_count(shape);
      for (int k = 0; k < leaves; ++k) {
        if (!hlo::leaf_of(shape, k).is_array()) continue;
        buffer_of_[{id, k}] = static_cast<int>(program_.buffers.size());
        ProgramBuffer& buffer = program_.buffers.emplace_back();
        buffer = {hlo::leaf_of(shape, k), static_cast<int>(i), shape.is_tuple() ? k : -1};
        buffer.name = shape.is_tuple() ? fmt::format("{}.{}", entry[id].name, k) : entry[id].name;
      }
    }
  }

  std::string next_name(const std::string& base) {
    std::string name = prefix_ + base;
    for (char& c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
    }
    if (std::isdigit(static_cast<unsigned char>(name[0]))) name = "f" + name;
    std::string unique = name;
    for (int i = 1; !names_.insert(unique).second; ++i) unique = name + "_" + std::to_string(i);
    return unique;
  }

  /// Whether one kernel would take much longer than several: what is read along many paths is computed on each of them,
  /// which may be 2^n.
  bool is_slow_whole() const {
    constexpr double kSlow = 4;
    const double whole = estimated_microseconds(flat_, options_.target);
    double parts = 0;
    for (const ProgramPart& part : fuse(flat_, options_.target)) {
      if (part.interpreted) return false;
      parts += part.microseconds;
    }
    return whole > kSlow * parts;
  }

  /// The whole entry as one fusion, where an emitter takes it.
  bool add_whole() {
    const hlo::Computation& entry = flat_.entry_computation();
    Result<EmittedFusion> fusion = emit_fusion(flat_, flat_.entry, next_name(entry.name), options_);
    if (!fusion || (options_.only.empty() && is_slow_whole())) return false;
    ProgramStep step;
    step.fusion = *std::move(fusion);
    const std::optional<double> own = step.fusion->decision().microseconds;
    step.microseconds = own ? *own : estimated_microseconds(flat_, options_.target);
    for (const InstructionId id : entry.parameters) {
      if (entry[id].shape.is_array()) step.inputs.push_back(buffer_of_.at({id, 0}));
    }
    for (const hlo::Shape& shape : step.fusion->outputs()) {
      step.outputs.push_back(static_cast<int>(program_.buffers.size()));
      program_.results.push_back(step.outputs.back());
      program_.buffers.push_back({shape});
    }
    push(std::move(step));
    return true;
  }

  /// Layers of a model, and updates of parameters of one shape, are equal but for names: one has the code of all.
  Result<EmittedFusion> emit_once(const hlo::Module& module, const std::string& name) {
    const auto [known, is_new] = emitted_.try_emplace(hlo::structure_key(module));
    if (!is_new) return emit_like(known->second, module, module.entry, name);
    Result<EmittedFusion> fusion = emit_fusion(module, module.entry, name, options_);
    if (fusion) known->second = *fusion;
    if (!fusion) emitted_.erase(known);
    return fusion;
  }

  /// Where a part only gives an array another shape, and nothing else reads it, both are one array.
  Result<EmittedFusion> emit_part(const ProgramPart& part, const std::string& name) {
    if (options_.only.empty() && part.module.entry_computation().root_instruction().opcode == Opcode::Reshape &&
        part.inputs.size() == 1 &&
        is_read_once(flat_.entry_computation(), part.inputs[0].instruction, part.inputs[0].element)) {
      auto reshape = emit_fusion(part.module, part.module.entry, name, {.target = options_.target, .only = "reshape"});
      if (reshape || reshape.error().code != ErrorCode::Unsupported) return reshape;
    }
    return emit_once(part.module, name);
  }

  Result<void> add(const ProgramPart& part) {
    STRATA_TRY(const bool is_loop, add_loop(part));
    if (is_loop) return {};
    ProgramStep step;
    const hlo::Computation& from = part.module.entry_computation();
    const bool calls = from.root_instruction().opcode == Opcode::Call;
    add_notes(from, step);
    if (!part.interpreted && !calls) {
      Result<EmittedFusion> fusion = emit_part(part, next_name(from.name));
      if (fusion) {
        step.fusion = *std::move(fusion);
        step.microseconds = step.fusion->decision().microseconds.value_or(part.microseconds);
      } else if (fusion.error().code != ErrorCode::Unsupported || !options_.only.empty()) {
        return tl::unexpected(fusion.error());
      } else {
        step.why_interpreted = fusion.error().message;
      }
    }
    if (!step.fusion) {
      step.interpreted = std::make_shared<const hlo::Module>(part.module);
      if (step.why_interpreted.empty() && !calls) step.why_interpreted = "no emitter has code for it";
    }
    for (const ArrayValue& value : part.inputs) {
      const auto known = buffer_of_.find(value);
      if (known == buffer_of_.end()) return unsupported("{} reads what no kernel writes", from.name);
      step.inputs.push_back(known->second);
    }
    for (const ArrayValue& value : part.outputs) {
      const hlo::Shape& shape = flat_.entry_computation()[value.instruction].shape;
      step.outputs.push_back(buffer_of_[value] = static_cast<int>(program_.buffers.size()));
      program_.buffers.push_back({hlo::leaf_of(shape, value.element)});
    }
    if (calls) STRATA_CHECK(add_launch(part, step));
    find_copied(part, step);
    push(std::move(step));
    return {};
  }

  static void find_copied(const ProgramPart& part, ProgramStep& step) {
    if (!step.fusion) return;
    step.only_copied.assign(step.inputs.size(), false);
    const hlo::Computation& from = part.module.entry_computation();
    for (const Preparation& one : step.fusion->decision().preparations) {
      if (one.kind != Preparation::Kind::Copy) continue;
      const InstructionId parameter = from.parameters[static_cast<size_t>(one.input)];
      int64_t uses = 0;
      for (const hlo::Instruction& it : from.instructions)
        uses += std::count(it.operands.begin(), it.operands.end(), parameter);
      step.only_copied[static_cast<size_t>(one.input)] = uses == 1;
    }
  }

  /// The loop that a part is: a while, of whose leaves the part's root takes some.
  static std::optional<InstructionId> loop_of(const ProgramPart& part) {
    const hlo::Computation& from = part.module.entry_computation();
    std::optional<InstructionId> loop;
    for (InstructionId id = 0; id <= from.root; ++id) {
      if (from[id].opcode == Opcode::While) loop = id;
    }
    return loop;
  }

  /// The leaf of the state that a condition returns, if it computes nothing.
  static std::optional<int64_t> leaf_asked_for(const hlo::Computation& condition) {
    const auto [source, leaf] = hlo::source_of(condition, condition.root, 0);
    return condition[source].opcode == Opcode::Parameter ? std::optional<int64_t>(leaf) : std::nullopt;
  }

  /// Whether a body says that the loop does not go on.
  static bool ends_after(const hlo::Computation& body, int64_t asked_for) {
    const auto [source, leaf] = hlo::source_of(body, body.root, asked_for);
    const hlo::Instruction& it = body[source];
    return it.opcode == Opcode::Constant && it.shape.is_array() &&
           it.as<hlo::ConstantAttributes>().value.get_integer(leaf) == 0;
  }

  /// The body, which leaves what is known as it is: counters, and of a loop that runs once at most what it is asked.
  static hlo::Module body_of(const ProgramPart& part, const hlo::Instruction& loop, LoopStep& step) {
    const hlo::Module& module = part.module;
    hlo::Computation body = module[loop.called[1]];
    const auto leave = [&](int64_t left) {
      if (!loop.shape.is_tuple() || body.root_instruction().opcode != Opcode::Tuple) return false;
      const size_t element = hlo::element_with_leaf(loop.shape, left);
      if (!loop.shape.elements[element].is_array()) return false;
      hlo::Instruction root = body.root_instruction();
      root.operands[element] = static_cast<InstructionId>(body.instructions.size());
      body.instructions.push_back({"left." + std::to_string(left),
                                   Opcode::GetTupleElement,
                                   loop.shape.elements[element],
                                   {body.parameters[0]},
                                   {},
                                   hlo::TupleIndexAttributes{static_cast<int64_t>(element)},
                                   {}});
      body.root = static_cast<InstructionId>(body.instructions.size());
      body.instructions.push_back(std::move(root));
      return true;
    };
    if (step.counted) {
      std::erase_if(step.counted->counters,
                    [&](const hlo::CountedLoop::Counter& counter) { return !leave(counter.leaf); });
    } else if (const auto asked_for = leaf_asked_for(module[loop.called[0]])) {
      const bool is_read = std::any_of(part.outputs.begin(), part.outputs.end(),
                                       [&](const ArrayValue& value) { return value.element == *asked_for; });
      step.once = !is_read && ends_after(body, *asked_for) && leave(*asked_for);
    }
    return hlo::extract_module(module, body);
  }

  /// A loop, where its body has kernels. Its leaves that stay as they are need no results.
  Result<bool> add_loop(const ProgramPart& part) {
    const std::optional<InstructionId> id = loop_of(part);
    if (!part.interpreted || !id || !options_.only.empty()) return false;
    const hlo::Computation& from = part.module.entry_computation();
    const hlo::Instruction& loop = from[*id];
    for (int64_t leaf = 0; leaf < hlo::leaf_count(loop.shape); ++leaf) {
      if (!hlo::leaf_of(loop.shape, leaf).is_array()) return false;
    }
    LoopStep made;
    made.state = loop.shape;
    made.counted = hlo::counted_loop(part.module, from, *id);
    if (made.counted && made.counted->count > kMostCounted) made.counted.reset();
    const hlo::Module body = body_of(part, loop, made);
    const std::string prefix = next_name(from.name) + "_";
    auto emitted = emit(body, options_, libraries_, {}, Parameters::MayBeOverwritten, prefix);
    if (!emitted) return false;
    made.body = std::make_shared<const EmittedProgram>(*std::move(emitted));
    if (!made.counted) {
      auto condition = emit(hlo::extract_module(part.module, part.module[loop.called[0]]), options_, libraries_, {},
                            Parameters::Kept, prefix + "condition_");
      if (!condition) return false;
      made.condition = std::make_shared<const EmittedProgram>(*std::move(condition));
    }
    ProgramStep step;
    step.interpreted = std::make_shared<const hlo::Module>(part.module);
    for (int leaf = 0; leaf < hlo::leaf_count(loop.shape); ++leaf) {
      STRATA_TRY(const int initial, initial_value(part, loop.operands[0], leaf));
      const ProgramBuffer& last =
          made.body->buffers[static_cast<size_t>(made.body->results[static_cast<size_t>(leaf)])];
      const bool counter = made.counted && made.counted->counter(leaf) != nullptr;
      const bool changes = counter || last.parameter < 0 || std::max(last.element, 0) != leaf;
      made.leaves.push_back({initial, -1, changes});
    }
    for (const ArrayValue& value : part.outputs) {
      LoopStep::Leaf& leaf = made.leaves[static_cast<size_t>(value.element)];
      if (!leaf.changes) {
        buffer_of_[value] = leaf.initial;
        continue;
      }
      leaf.result = static_cast<int>(program_.buffers.size());
      program_.buffers.push_back({hlo::leaf_of(loop.shape, value.element)});
      step.outputs.push_back(leaf.result);
      buffer_of_[value] = leaf.result;
    }
    std::set<int> inputs;
    for (const LoopStep::Leaf& leaf : made.leaves) inputs.insert(leaf.initial);
    step.inputs.assign(inputs.begin(), inputs.end());
    step.loop = std::make_shared<const LoopStep>(std::move(made));
    push(std::move(step));
    return true;
  }

  /// The buffer of a leaf of a loop's first state: an array, a constant, or what a kernel fills.
  Result<int> initial_value(const ProgramPart& part, InstructionId state, int64_t leaf) {
    constexpr int64_t kMostConstantElements = 1024;
    const hlo::Computation& from = part.module.entry_computation();
    const auto [id, number] = hlo::source_of(from, state, leaf);
    const hlo::Instruction& it = from[id];
    if (it.opcode == Opcode::Parameter) {
      const auto known = buffer_of_.find(part.inputs[static_cast<size_t>(it.as<hlo::ParameterAttributes>().number)]);
      if (known == buffer_of_.end()) return unsupported("{} reads what no kernel writes", from.name);
      return known->second;
    }
    hlo::Computation value = from;
    value.name = from.name + "_initial";
    value.root = id;
    value.parameters.clear();
    const hlo::Module alone = hlo::extract_module(part.module, value);
    if (it.shape.element_count() <= kMostConstantElements) {
      STRATA_TRY(Literal constant, hlo::evaluate(alone, {}));
      program_.buffers.push_back({it.shape, -1, -1, std::move(constant)});
      return static_cast<int>(program_.buffers.size()) - 1;
    }
    ProgramStep step;
    STRATA_TRY(step.fusion, emit_fusion(alone, alone.entry, next_name(value.name), options_));
    const auto buffer = static_cast<int>(program_.buffers.size());
    program_.buffers.push_back({it.shape});
    step.outputs.push_back(buffer);
    push(std::move(step));
    return buffer;
  }

  /// Of products and convolutions that stay kernels, why.
  void add_notes(const hlo::Computation& from, ProgramStep& step) const {
    for (const hlo::Instruction& it : from.instructions) {
      const auto why = kept_.find(it.name);
      if (why != kept_.end()) step.notes.push_back(fmt::format("{}: {}", why->first, why->second));
    }
  }

  Result<void> add_launch(const ProgramPart& part, ProgramStep& step) {
    const hlo::Computation& from = part.module.entry_computation();
    const hlo::Instruction& call = from.root_instruction();
    const auto lax = lax_steps_.find(call.name);
    if (lax != lax_steps_.end()) {
      // The step reads what the call does.
      std::vector<int> operands;
      for (const InstructionId operand : call.operands) {
        STRATA_TRY(const int buffer, argument(part, step, operand));
        operands.push_back(buffer);
      }
      step.inputs = std::move(operands);
      step.interpreted =
          std::make_shared<const hlo::Module>(hlo::extract_module(part.module, part.module[call.called[0]]));
      step.lax = lax->second;
      return {};
    }
    const LibraryCall& known = calls_.at(call.name);
    step.library = LibraryLaunch{known.work, {}, known.reason};
    step.microseconds = known.microseconds;
    for (const int number : known.arguments) {
      STRATA_TRY(const int buffer, argument(part, step, call.operands[static_cast<size_t>(number)]));
      step.library->arguments.push_back(buffer);
    }
    step.library->arguments.push_back(step.outputs.front());
    return {};
  }

  /// The buffer of a call's operand.
  Result<int> argument(const ProgramPart& part, const ProgramStep& step, InstructionId operand) {
    const hlo::Computation& from = part.module.entry_computation();
    const hlo::Instruction& it = from[operand];
    if (it.opcode == Opcode::Parameter)
      return step.inputs[static_cast<size_t>(it.as<hlo::ParameterAttributes>().number)];
    // What is known beforehand.
    hlo::Computation value = from;
    value.root = operand;
    value.parameters.clear();
    STRATA_TRY(const Literal constant, hlo::evaluate(hlo::extract_module(part.module, value), {}));
    program_.buffers.push_back({it.shape, -1, -1, constant});
    return static_cast<int>(program_.buffers.size()) - 1;
  }

  /// With buffers for its temporaries.
  void push(ProgramStep step) {
    const std::vector<hlo::Shape> between = step.fusion ? step.fusion->decision().temporaries
                                            : step.lax  ? intermediates(step.lax->manifest)
                                                        : std::vector<hlo::Shape>();
    for (const hlo::Shape& shape : between) {
      step.temporaries.push_back(static_cast<int>(program_.buffers.size()));
      program_.buffers.push_back({shape});
    }
    program_.steps.push_back(std::move(step));
  }

  Result<void> add_results(InstructionId id) {
    const hlo::Computation& entry = flat_.entry_computation();
    const hlo::Instruction& it = entry[id];
    const int64_t count = hlo::leaf_count(it.shape);
    for (int i = 0; i < count; ++i) {
      if (!hlo::leaf_of(it.shape, i).is_array()) continue;  // a token has no value
      const auto value = resolve(entry, id, i);
      const auto known = value ? buffer_of_.find(*value) : buffer_of_.end();
      if (known == buffer_of_.end()) return unsupported("the result {} is no array that a kernel writes", it.name);
      program_.results.push_back(known->second);
    }
    return {};
  }

  const Parameters parameters_;
  const std::string prefix_;  ///< of kernels' names
  hlo::Module flat_;
  const EmitOptions& options_;
  const LibraryUse libraries_;
  const LaxOptions& lax_;
  EmittedProgram program_;
  std::map<ArrayValue, int> buffer_of_;
  std::set<std::string> names_;
  std::unordered_map<std::string, EmittedFusion> emitted_;  ///< by hlo::structure_key
  std::map<std::string, LibraryCall> calls_;
  std::map<std::string, std::string> kept_;
  std::map<std::string, LaxStep> lax_steps_;
};

Result<EmittedProgram> emit(const hlo::Module& module, const EmitOptions& options, LibraryUse libraries,
                            const LaxOptions& lax, Parameters parameters, const std::string& prefix) {
  STRATA_CHECK(hlo::check_calls(module));
  std::optional<hlo::Module> expanded;
  for (const auto& [has, expand] : {std::pair(&hlo::has_conditionals, &hlo::expand_conditionals),
                                    std::pair(&hlo::has_short_loops, &hlo::unroll_loops),
                                    std::pair(&hlo::has_computed_conditions, &hlo::carry_conditions),
                                    std::pair(&hlo::has_uneven_bitcast_converts, &hlo::expand_bitcast_converts),
                                    std::pair(&hlo::has_ragged_dots, &hlo::expand_ragged_dots),
                                    std::pair(&hlo::has_batch_norms, &hlo::expand_batch_norms),
                                    std::pair(&hlo::has_plain_scans, &hlo::expand_scans),
                                    std::pair(&hlo::has_row_scatters, &hlo::expand_row_scatters),
                                    std::pair(&hlo::has_window_scatters, &hlo::expand_window_scatters),
                                    std::pair(&hlo::has_select_and_scatter, &hlo::expand_select_and_scatter)}) {
    const hlo::Module& whole = expanded ? *expanded : module;
    const bool taken = has == &hlo::has_window_scatters && !options.only.empty();  // the one emitter takes it as it is
    if (taken || !has(whole)) continue;
    STRATA_TRY(expanded, expand(whole));
  }
  if (const hlo::Module& whole = expanded ? *expanded : module;
      !whole.fusion && hlo::may_have_linear_recurrences(whole))
    expanded = hlo::fold_linear_recurrences(whole);
  if (const hlo::Module& whole = expanded ? *expanded : module; !whole.fusion && hlo::longest_scan_recursion(whole) > 0)
    expanded = hlo::fold_associative_scans(whole, is_associative);
  return ProgramBuilder(expanded ? *expanded : module, options, libraries, lax, parameters, prefix).build();
}

ResultAlias alias_of(const hlo::Module& module, const EmittedProgram& program, const hlo::InputOutputAlias& alias) {
  const hlo::Computation& entry = module.entry_computation();
  const auto number = static_cast<int>(alias.parameter);
  const hlo::Shape& shape = entry[entry.parameters[static_cast<size_t>(number)]].shape;
  const int element = shape.is_tuple() ? static_cast<int>(*hlo::leaf_at(shape, alias.parameter_index)) : -1;
  const auto buffer = std::find_if(program.buffers.begin(), program.buffers.end(), [&](const ProgramBuffer& one) {
    return one.parameter == number && one.element == element;
  });
  // Results are the leaves that are arrays.
  const hlo::Shape& result = entry.root_instruction().shape;
  size_t place = 0;
  for (int64_t leaf = 0; leaf < *hlo::leaf_at(result, alias.output); ++leaf)
    place += hlo::leaf_of(result, leaf).is_array() ? 1 : 0;
  return {place, static_cast<int>(buffer - program.buffers.begin()), alias.must};
}

}  // namespace

Result<EmittedProgram> emit_program(const hlo::Module& module, const EmitOptions& options, LibraryUse libraries,
                                    const LaxOptions& lax, const hlo::InputOutputAliases& aliases) {
  // Those that are not given away are priced as if they were: an update of one stays a kernel of its own all the same.
  const Parameters parameters = aliases.empty() ? Parameters::Kept : Parameters::MayBeOverwritten;
  LaxOptions searches = lax;
  if (!searches.deadline && searches.seconds > 0) searches.deadline = Deadline(searches.seconds, searches.stop);
  STRATA_TRY(EmittedProgram program, emit(module, options, libraries, searches, parameters, ""));
  for (const hlo::InputOutputAlias& alias : aliases) program.aliases.push_back(alias_of(module, program, alias));
  return program;
}

}  // namespace strata::emitters
