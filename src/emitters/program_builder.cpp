#include "emitters/program_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "emitters/buffers.h"
#include "emitters/element_loops.h"
#include "emitters/fusion/array_uses.h"
#include "emitters/fusion/instruction_roles.h"
#include "emitters/kept_operand.h"
#include "emitters/loop_body.h"
#include "emitters/program_image.h"
#include "hlo/evaluate.h"
#include "hlo/inline_calls.h"
#include "hlo/source_of.h"
#include "hlo/structure_key.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using hlo::Literal;
using hlo::Opcode;

/// Iterations of a loop that are put on the stream one by one. Of more the condition is asked.
constexpr int64_t kMostCounted = 100'000;

class ProgramBuilder {
 public:
  ProgramBuilder(const hlo::Module& module, const EmitOptions& options, const ProgramSetting& setting)
      : setting_(setting), flat_(module), options_(options) {
    add_parameters();
  }

  /// A step for each part, in their order.
  Result<EmittedProgram> build(const CutEntry& entry, LibraryUse libraries) {
    entry_ = &entry;
    libraries_ = libraries;
    const std::vector<ProgramPart> parts = with_readers(flat_, entry.parts, options_.target, same_values());
    const std::map<ArrayValue, size_t> last = last_reads(flat_, parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto stays = [&](size_t input) { return is_kept(parts[i].inputs[input], last, i); };
      STRATA_CHECK(add(parts[i], updated_arrays(parts[i], stays)));
    }
    STRATA_CHECK(add_results(flat_.entry_computation().root));
    return std::move(program_);
  }

  /// The whole entry as one fusion, where an emitter takes it.
  std::optional<EmittedProgram> build_whole() {
    if (!add_whole()) return std::nullopt;
    return std::move(program_);
  }

 private:
  /// Whether an array that a part updates stays as it is.
  bool is_kept(const ArrayValue& value, const std::map<ArrayValue, size_t>& last_reads, size_t part) const {
    if (last_reads.at(value) > part) return true;
    const auto known = buffer_of_.find(value);
    if (known == buffer_of_.end()) return false;
    const ProgramBuffer& buffer = program_.buffers[static_cast<size_t>(known->second)];
    if (buffer.parameter < 0) return buffer.constant.has_value();
    if (setting_.given == nullptr) return setting_.parameters == Parameters::Kept;
    return !is_given(buffer);
  }

  /// Of a parameter's array, whether the caller gives it away.
  bool is_given(const ProgramBuffer& buffer) const {
    return setting_.given != nullptr && std::ranges::any_of(*setting_.given, [&](const hlo::InputOutputAlias& one) {
             const hlo::Computation& entry = flat_.entry_computation();
             const hlo::Shape& shape = entry[entry.parameters[static_cast<size_t>(one.parameter)]].shape;
             return one.parameter == buffer.parameter &&
                    hlo::leaf_at(shape, one.parameter_index) == std::max(buffer.element, 0);
           });
  }

  /// Which inputs of a part are parameters that the caller gives away, in a text: kernels that may be written over them
  /// are not those of a part that has others there (write_over_operands).
  std::string given_inputs(const ProgramPart& part) const {
    std::string text;
    for (const ArrayValue& value : part.inputs) {
      const ProgramBuffer& buffer = program_.buffers[static_cast<size_t>(buffer_of_.at(value))];
      text += buffer.parameter >= 0 && is_given(buffer) ? '1' : '0';
    }
    return text;
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
    find_invariant_leaves();
  }

  /// The arrays of the state that stay as they are, of a body that is repeated.
  void find_invariant_leaves() {
    invariant_.clear();
    invariant_bytes_ = 0;
    if (setting_.repeated == nullptr) return;
    const hlo::Computation& entry = flat_.entry_computation();
    for (const auto& [value, buffer] : buffer_of_) {
      const bool counts = setting_.repeated->counted && setting_.repeated->counted->counter(value.element) != nullptr;
      if (!counts && resolve(entry, entry.root, value.element) == value) invariant_.insert(buffer);
    }
  }

  /// The same as values, before there are steps; nothing where no loop is around.
  std::optional<std::set<ArrayValue>> same_values() const {
    if (setting_.repeated == nullptr) return std::nullopt;
    std::set<ArrayValue> values;
    for (const auto& [value, buffer] : buffer_of_) {
      if (invariant_.contains(buffer)) values.insert(value);
    }
    return values;
  }

  /// Whether a step gives the same in each iteration of the loop around, and its results are kept for all of them: that
  /// may take as much memory as the state does.
  bool is_invariant(const std::vector<int>& inputs, const std::vector<int>& outputs) {
    constexpr int64_t kFewBytes = int64_t{1} << 28;
    if (setting_.repeated == nullptr) return false;
    const auto stays = [&](int input) {
      return program_.buffers[static_cast<size_t>(input)].constant || invariant_.contains(input);
    };
    if (!std::ranges::all_of(inputs, stays)) return false;
    const auto bytes_of = [](const ProgramBuffer& buffer) { return static_cast<int64_t>(byte_count(buffer.shape)); };
    int64_t state = 0, bytes = invariant_bytes_;
    for (const ProgramBuffer& buffer : program_.buffers) {
      if (buffer.parameter >= 0) state += bytes_of(buffer);
    }
    for (const int output : outputs) bytes += bytes_of(program_.buffers[static_cast<size_t>(output)]);
    if (bytes > std::max(state, kFewBytes)) return false;
    invariant_bytes_ = bytes;
    return true;
  }

  std::string next_name(const std::string& base) {
    std::string name = setting_.prefix + base;
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
  /// Steps that leave a loop share none with those that stay.
  Result<EmittedFusion> emit_once(const ProgramPart& part, const std::string& name, bool invariant, Updated updated) {
    const hlo::Module& module = part.module;
    auto& emitted = invariant ? invariant_fusions_ : fusions_;
    const auto [known, is_new] = emitted.try_emplace(
        fmt::format("{} {} {}", hlo::structure_key(module), static_cast<int>(updated), given_inputs(part)));
    if (!is_new) return emit_like(known->second, module, module.entry, name);
    Result<EmittedFusion> fusion = emit_updating(module, name, options_, updated);
    if (fusion) known->second = *fusion;
    if (!fusion) emitted.erase(known);
    return fusion;
  }

  /// Where a part only gives an array another shape, and nothing else reads it, both are one array.
  Result<EmittedFusion> emit_part(const ProgramPart& part, const std::string& name, bool invariant, Updated updated) {
    if (options_.only.empty() && part.module.entry_computation().root_instruction().opcode == Opcode::Reshape &&
        part.inputs.size() == 1 &&
        is_read_once(flat_.entry_computation(), part.inputs[0].instruction, part.inputs[0].element)) {
      auto reshape = emit_fusion(part.module, part.module.entry, name, {.target = options_.target, .only = "reshape"});
      if (reshape || reshape.error().code != ErrorCode::Unsupported) return reshape;
    }
    return emit_once(part, name, invariant, updated);
  }

  Result<void> add(const ProgramPart& part, Updated updated) {
    std::string why_not_elements;
    STRATA_TRY(const bool is_element_loop, add_element_loop(part, why_not_elements));
    if (is_element_loop) return {};
    STRATA_TRY(const bool is_loop, add_loop(part, std::move(why_not_elements)));
    if (is_loop) return {};
    ProgramStep step;
    const hlo::Computation& from = part.module.entry_computation();
    const hlo::Instruction* call = call_of(from);
    const bool calls = call != nullptr;
    add_notes(from, step);
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
    const bool invariant = !loop_of(part) && is_invariant(step.inputs, step.outputs);
    if (!part.interpreted && !calls) {
      Result<EmittedFusion> fusion = emit_part(part, next_name(from.name), invariant, updated);
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
      if (!calls) STRATA_CHECK(hlo::check_evaluable(part.module, part.module.entry_computation()));
    }
    if (calls) STRATA_CHECK(add_launch(part, *call, step));
    find_copied(part, step);
    push(std::move(step), invariant);
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

  /// A loop of elements, as a kernel, where that takes less time.
  Result<bool> add_element_loop(const ProgramPart& part, std::string& why_not) {
    if (!part.interpreted || !options_.only.empty()) return false;
    const Result<ElementLoopPart> loop = element_loop_part(part, options_.target);
    if (!loop) {
      why_not = loop.error().message;
      return false;
    }
    for (const auto& [output, leaf] : loop->same) {
      STRATA_TRY(buffer_of_[output], initial_value(part, loop->state, leaf));
    }
    if (loop->part.outputs.empty()) return true;
    ProgramStep step;
    for (const ArrayValue& value : part.inputs) {
      const auto known = buffer_of_.find(value);
      if (known == buffer_of_.end()) return unsupported("{} reads what no kernel writes", loop->part.module.name);
      step.inputs.push_back(known->second);
    }
    Result<EmittedFusion> fusion =
        emit_once(loop->part, next_name(part.module.entry_computation().name), false, Updated::Unknown);
    if (!fusion) {
      why_not = fusion.error().message;
      return fusion.error().code == ErrorCode::Unsupported ? Result<bool>(false) : tl::unexpected(fusion.error());
    }
    step.fusion = *std::move(fusion);
    step.microseconds = loop->part.microseconds;
    for (const ArrayValue& value : loop->part.outputs) {
      step.outputs.push_back(buffer_of_[value] = static_cast<int>(program_.buffers.size()));
      program_.buffers.push_back({hlo::leaf_of(flat_.entry_computation()[value.instruction].shape, value.element)});
    }
    const bool invariant = loop->counted && is_invariant(step.inputs, step.outputs);
    push(std::move(step), invariant);
    return true;
  }

  /// A loop, where its body has kernels. Its leaves that stay as they are need no results.
  Result<bool> add_loop(const ProgramPart& part, std::string why_not_elements) {
    const std::optional<InstructionId> id = loop_of(part);
    if (!part.interpreted || !id || !options_.only.empty()) return false;
    const hlo::Computation& from = part.module.entry_computation();
    const hlo::Instruction& loop = from[*id];
    for (int64_t leaf = 0; leaf < hlo::leaf_count(loop.shape); ++leaf) {
      if (!hlo::leaf_of(loop.shape, leaf).is_array()) return false;
    }
    LoopStep made;
    made.state = loop.shape;
    made.why_not_elements = std::move(why_not_elements);
    made.counted = hlo::counted_loop(part.module, from, *id);
    if (made.counted && made.counted->count > kMostCounted) made.counted.reset();
    const hlo::Module body = body_of(part, loop, made);
    const std::string prefix = next_name(from.name) + "_";
    std::vector<bool> invariant_steps;
    const LoopStep* repeated = repeats(made) ? &made : nullptr;
    auto emitted = compile_program(body, options_, libraries_, {},
                                   {Parameters::MayBeOverwritten, nullptr, prefix, repeated, &invariant_steps});
    if (!emitted) return false;
    if (!made.counted) {
      auto condition = compile_program(hlo::extract_module(part.module, part.module[loop.called[0]]), options_,
                                       libraries_, {}, {Parameters::Kept, nullptr, prefix + "condition_"});
      if (!condition) return false;
      made.condition = std::make_shared<const EmittedProgram>(*std::move(condition));
    }
    const std::vector<bool> overwritten = overwritten_leaves(part, *id, made);
    for (int leaf = 0; leaf < hlo::leaf_count(loop.shape); ++leaf) {
      made.leaves.push_back({-1});
      if (overwritten[static_cast<size_t>(leaf)]) continue;  // which may need no first value
      STRATA_TRY(made.leaves.back().initial, initial_value(part, loop.operands[0], leaf));
    }
    for (ProgramStep& before : take_invariant_steps(made, *emitted, invariant_steps, program_)) {
      const bool invariant = is_invariant(before.inputs, before.outputs);
      push(std::move(before), invariant);
    }
    for (int leaf = 0; leaf < hlo::leaf_count(loop.shape); ++leaf) {
      const ProgramBuffer& last = emitted->buffers[static_cast<size_t>(emitted->results[static_cast<size_t>(leaf)])];
      const bool counter = made.counted && made.counted->counter(leaf) != nullptr;
      made.leaves[static_cast<size_t>(leaf)].changes =
          counter || last.parameter < 0 || std::max(last.element, 0) != leaf;
    }
    made.body = std::make_shared<const EmittedProgram>(*std::move(emitted));
    ProgramStep step;
    step.interpreted = std::make_shared<const hlo::Module>(part.module);
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
    const std::vector<int> over = written_over(*made.body);
    for (size_t leaf = 0; leaf < made.leaves.size(); ++leaf) {
      LoopStep::Leaf& it = made.leaves[leaf];
      if (it.initial >= 0) continue;
      if (it.result >= 0 && leaf_written_over(made, over, leaf) == static_cast<int>(leaf)) {
        it.initial = it.result;
      } else {
        STRATA_TRY(it.initial, initial_value(part, loop.operands[0], static_cast<int64_t>(leaf)));
      }
    }
    std::set<int> inputs;
    for (const LoopStep::Leaf& leaf : made.leaves) {
      if (leaf.initial != leaf.result) inputs.insert(leaf.initial);
    }
    step.inputs.assign(inputs.begin(), inputs.end());
    // Of a loop that ends by itself nobody knows that it does, where the one around has no iteration.
    const bool invariant = made.counted && is_invariant(step.inputs, step.outputs);
    step.loop = std::make_shared<const LoopStep>(std::move(made));
    push(std::move(step), invariant);
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
      const auto why = entry_->kept.find(it.name);
      if (why != entry_->kept.end()) step.notes.push_back(fmt::format("{}: {}", why->first, why->second));
    }
  }

  /// A part that calls does nothing else: the call is the root, or the root has elements of it.
  static const hlo::Instruction* call_of(const hlo::Computation& part) {
    const auto found = std::ranges::find(part.instructions, Opcode::Call, &hlo::Instruction::opcode);
    return found == part.instructions.end() ? nullptr : &*found;
  }

  Result<void> add_launch(const ProgramPart& part, const hlo::Instruction& call, ProgramStep& step) {
    const auto lax = entry_->lax.find(call.name);
    if (lax != entry_->lax.end()) {
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
    const LibraryCall& known = entry_->calls.at(call.name);
    step.library = LibraryLaunch{known.work, {}, known.reason};
    step.microseconds = known.microseconds;
    for (const int number : known.arguments) {
      STRATA_TRY(const int buffer, argument(part, step, call.operands[static_cast<size_t>(number)]));
      step.library->arguments.push_back(buffer);
    }
    // The library writes all results, those too that nothing reads.
    for (int64_t leaf = 0; leaf < hlo::leaf_count(call.shape); ++leaf) {
      const auto read = std::ranges::find(part.outputs, static_cast<int>(leaf), &ArrayValue::element);
      if (read != part.outputs.end()) {
        step.library->arguments.push_back(step.outputs[static_cast<size_t>(read - part.outputs.begin())]);
        continue;
      }
      step.temporaries.push_back(static_cast<int>(program_.buffers.size()));
      step.library->arguments.push_back(step.temporaries.back());
      program_.buffers.push_back({hlo::leaf_of(call.shape, leaf)});
    }
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
  void push(ProgramStep step, bool invariant = false) {
    const std::vector<hlo::Shape> between = step.fusion ? step.fusion->decision().temporaries
                                            : step.lax  ? intermediates(step.lax->manifest)
                                                        : std::vector<hlo::Shape>();
    for (const hlo::Shape& shape : between) {
      step.temporaries.push_back(static_cast<int>(program_.buffers.size()));
      program_.buffers.push_back({shape});
    }
    if (invariant) invariant_.insert(step.outputs.begin(), step.outputs.end());
    if (setting_.invariant_steps != nullptr) setting_.invariant_steps->push_back(invariant);
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

  const ProgramSetting setting_;
  const hlo::Module& flat_;
  const EmitOptions& options_;
  const CutEntry* entry_ = nullptr;
  LibraryUse libraries_ = LibraryUse::Never;
  EmittedProgram program_;
  std::map<ArrayValue, int> buffer_of_;
  std::set<std::string> names_;
  std::unordered_map<std::string, EmittedFusion> fusions_, invariant_fusions_;  ///< by hlo::structure_key
  std::set<int> invariant_;      ///< buffers that hold the same in each iteration of the loop around
  int64_t invariant_bytes_ = 0;  ///< of what steps give that leave it
};

}  // namespace

Result<EmittedProgram> build_program(const CutEntry& entry, const EmitOptions& options, LibraryUse libraries,
                                     const ProgramSetting& setting) {
  return ProgramBuilder(entry.module, options, setting).build(entry, libraries);
}

std::optional<EmittedProgram> build_whole(const hlo::Module& module, const EmitOptions& options,
                                          const ProgramSetting& setting) {
  return ProgramBuilder(module, options, setting).build_whole();
}

}  // namespace strata::emitters
