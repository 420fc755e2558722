#include "compiler/fusion_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "compiler/glue.h"
#include "compiler/ptx_in_cuda.h"
#include "emitters/emit.h"
#include "emitters/fusion/array_uses.h"
#include "emitters/fusion/cut_entry.h"
#include "emitters/library/calls.h"
#include "hlo/structure_key.h"
#include "hlo/text.h"
#include "ir/views.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/glue_operators.h"
#include "superopt/codegen/libraries.h"
#include "superopt/optimize/cost.h"

namespace strata::compiler {
namespace {

/// What one fusion became. Fusions that are equal but for names, as layers of a model have them, are compiled once.
struct FusionText {
  emitters::Decision decision;
  std::vector<hlo::Shape> inputs, outputs;
  std::vector<AccessRegion> regions;  ///< of inputs, then outputs; empty where no text was wanted
  std::string text;                   ///< of the block function, which is called kAnyName; empty where none was wanted
};

/// By structure (hlo/structure_key.h), target, and whether with text.
using FusionTexts = std::map<std::string, Result<FusionText>>;

/// Stands for the block function's name, which is in no other word of its text.
constexpr std::string_view kAnyName = "strata_any_fusion_of_this_structure";

}  // namespace

struct FusionKernels::Made {
  std::mutex lock;
  std::map<std::string, Result<EmittedGroup>> groups;  ///< by module, names, target and whether with text
  FusionTexts fusions;
};

namespace {

constexpr int64_t kWarp = 32;

/// By operation, how many operations that are neither `ours` nor views come after it on a path, at most. Ours of equal
/// number can run together, as late as they can: no path leaves them and comes back.
std::vector<int> heights(const Graph& graph, const std::vector<bool>& ours, const std::vector<bool>& views) {
  std::vector<int> height(graph.operations().size(), 0);
  for (size_t i = height.size(); i-- > 0;) {
    for (const TensorId id : graph.operations()[i].operands) {
      const int producer = graph.tensor(id).producer;
      if (producer < 0) continue;
      int& of = height[static_cast<size_t>(producer)];
      of = std::max(of, height[i] + (ours[i] || views[i] ? 0 : 1));
    }
  }
  return height;
}

std::optional<DType> element_type(hlo::ElementType type) {
  const auto found = parse_dtype(hlo::name(type));
  return found ? std::optional(*found) : std::nullopt;
}

/// Whether a fusion is one kernel that needs nothing but its arguments and shared memory, once outputs are filled.
bool is_alone(const emitters::EmittedFusion& fusion) {
  const emitters::Decision& decision = fusion.decision();
  const bool fills = std::all_of(decision.preparations.begin(), decision.preparations.end(), [](const auto& one) {
    return one.kind == emitters::Preparation::Kind::Fill && !one.temporary;
  });
  return decision.launches.size() == 1 && decision.launch().blocks > 0 && fills && decision.temporaries.empty();
}

/// By the emitter of its kind, or else by that of loops, which makes one kernel.
Result<emitters::EmittedFusion> emit_alone(const hlo::Module& module, const std::string& name,
                                           emitters::EmitOptions options) {
  STRATA_TRY(emitters::EmittedFusion fusion, emitters::emit_fusion(module, module.entry, name, options));
  if (is_alone(fusion)) return fusion;
  const auto& instructions = module.entry_computation().instructions;
  if (std::any_of(instructions.begin(), instructions.end(),
                  [](const auto& it) { return it.opcode == hlo::Opcode::Dot; }))
    return unsupported("the product {} needs more than one kernel and its arguments", name);
  options.only = "loop";
  STRATA_TRY(fusion, emitters::emit_fusion(module, module.entry, name, options));
  if (!is_alone(fusion)) return unsupported("{} needs more than one kernel and its arguments", name);
  return fusion;
}

std::string with_name(std::string text, std::string_view name) {
  for (size_t at = 0; (at = text.find(kAnyName, at)) != std::string::npos; at += name.size())
    text.replace(at, kAnyName.size(), name);
  return text;
}

/// Kernels of a module, and the names of its values in the graph.
class GroupBuilder {
 public:
  GroupBuilder(const Graph& graph, const Glue& glue, const Target& target, KernelText text, const Deadline& deadline,
               FusionTexts& fusions)
      : graph_(graph), glue_(glue), target_(target), text_(text), deadline_(deadline), fusions_(fusions) {
    options_.target = target;
  }

  /// Nothing where the deadline passed before all was made.
  Result<std::optional<EmittedGroup>> run(const hlo::Module& module) {
    constexpr auto kUse = emitters::LibraryUse::WhereFaster;
    emitters::LibraryCalls found =
        emitters::find_library_calls(emitters::prepare_for_libraries(module, target_, kUse), target_, kUse);
    const emitters::FusedModule fused = emitters::cut_entry(found.module, target_, emitters::Parameters::Kept);
    STRATA_CHECK(name_tensors(fused.module.entry_computation()));
    for (const emitters::ProgramPart& part : fused.parts) {
      if (deadline_.passed()) return std::optional<EmittedGroup>();
      Body body;
      for (const auto* values : {&part.inputs, &part.outputs}) {
        for (const emitters::ArrayValue& value : *values) {
          STRATA_TRY(const std::string type, add_buffer(fused.module.entry_computation(), value, body));
          body.types.push_back(values == &part.inputs ? "const " + type : type);
        }
      }
      body.inputs = part.inputs.size();
      body.name = fmt::format("{}_{}", graph_.name(), body.arguments.back());
      const hlo::Computation& entry = part.module.entry_computation();
      if (entry.root_instruction().opcode == hlo::Opcode::Call) {
        STRATA_CHECK(add_call(found.calls.at(entry.root_instruction().name), entry, std::move(body)));
        continue;
      }
      if (part.interpreted) return unsupported("{} has no kernel", entry.name);
      STRATA_TRY(const FusionText fusion, fusion_text(part.module, body.types));
      body.seconds = part.microseconds * 1e-6;
      for (const emitters::Preparation& fill : fusion.decision.preparations) STRATA_CHECK(add_fill(fill, fusion, body));
      add(fusion, std::move(body));
    }
    for (size_t first = 0; first < bodies_.size();) {
      size_t end = first + 1;
      while (end < bodies_.size() && runs_beside(first, end)) ++end;
      group_.kernels.push_back(kernel_of({bodies_.data() + first, end - first}));
      first = end;
    }
    return std::optional(std::move(group_));
  }

 private:
  /// The blocks of one fusion.
  struct Body {
    std::string name, text;
    std::vector<std::string> arguments, types;  ///< buffers, inputs before outputs
    size_t inputs = 0;
    std::vector<AccessRegion> regions;  ///< empty where they are not known
    std::vector<ArrayType> arrays;      ///< of the arguments
    int64_t blocks = 0;
    int64_t threads = 0;
    int64_t shared_bytes = 0;
    double seconds = 0;
    std::optional<LibraryWork> library;  ///< in place of blocks
  };

  /// What the parameters and results of an entry are called.
  Result<void> name_tensors(const hlo::Computation& entry) {
    for (size_t i = 0; i < glue_.inputs.size(); ++i)
      names_[{entry.parameters[i], 0}] = graph_.tensor(glue_.inputs[i]).name;
    for (size_t i = 0; i < glue_.outputs.size(); ++i) {
      const std::string& name = graph_.tensor(glue_.outputs[i]).name;
      const auto value = emitters::resolve(entry, entry.root, static_cast<int>(i));
      if (!value || !names_.try_emplace(*value, name).second) return unsupported("{} is no array of its own", name);
    }
    return {};
  }

  Result<void> add_call(const emitters::LibraryCall& call, const hlo::Computation& from, Body body) {
    std::vector<std::string> arguments;
    for (const int number : call.arguments) {
      const hlo::Instruction& operand = from[from.root_instruction().operands[static_cast<size_t>(number)]];
      if (operand.opcode != hlo::Opcode::Parameter) return unsupported("a library reads a constant");
      arguments.push_back(body.arguments[static_cast<size_t>(operand.as<hlo::ParameterAttributes>().number)]);
    }
    arguments.push_back(body.arguments.back());
    body.arguments = std::move(arguments);
    body.inputs = body.arguments.size() - 1;
    body.library = call.work;
    body.seconds = library_seconds(call.work, target_);
    bodies_.push_back(std::move(body));
    return {};
  }

  /// Of a fusion whose buffers have these types, in order.
  Result<FusionText> fusion_text(const hlo::Module& module, const std::vector<std::string>& types) {
    const std::string key =
        fmt::format("{} {}\n{}", text_ == KernelText::Wanted, target_.name, hlo::structure_key(module));
    const auto known = fusions_.find(key);
    if (known != fusions_.end()) return known->second;
    const auto make = [&]() -> Result<FusionText> {
      STRATA_TRY(const emitters::EmittedFusion fusion, emit_alone(module, std::string(kAnyName), options_));
      FusionText made{fusion.decision(), fusion.inputs(), fusion.outputs(), {}, {}};
      if (text_ == KernelText::Wanted) {
        STRATA_TRY(made.text, block_function(fusion, types));
        STRATA_TRY(std::vector<std::vector<AccessRegion>> regions, fusion.regions());
        made.regions = std::move(regions.front());
      }
      return made;
    };
    return fusions_.emplace(key, make()).first->second;
  }

  void add(const FusionText& fusion, Body body) {
    const emitters::Launch& launch = fusion.decision.launch();
    body.text = with_name(fusion.text, body.name);
    body.shared_bytes = launch.shared_bytes;
    body.blocks = launch.blocks;
    body.threads = launch.threads;
    body.regions = fusion.regions;
    for (const auto* shapes : {&fusion.inputs, &fusion.outputs}) {
      for (const hlo::Shape& shape : *shapes)
        body.arrays.emplace_back(std::string(hlo::name(shape.type)), hlo::byte_width(shape.type), shape.dims);
    }
    bodies_.push_back(std::move(body));
  }

  /// What an output of `of` holds before its blocks add to it; the model counts a launch of it as a part of `of`.
  Result<void> add_fill(const emitters::Preparation& fill, const FusionText& fusion, Body& of) {
    const auto output = static_cast<size_t>(fill.output);
    const hlo::Shape& shape = fusion.outputs[output];
    const std::string_view type = hlo::name(shape.type);
    STRATA_TRY(const hlo::ModulePtr module,
               hlo::parse_module(fmt::format("HloModule fill\nENTRY fill {{\n  value = {0}[] constant({1})\n"
                                             "  ROOT all = {0}[{2}] broadcast(value), dimensions={{}}\n}}\n",
                                             type, hlo::print(fill.value), fmt::join(shape.dims, ","))));
    Body body;
    body.name = fmt::format("{}_before{}", of.name, output);
    body.arguments = {of.arguments[of.inputs + output]};
    body.types = {of.types[of.inputs + output]};
    body.seconds = target_.rates.launch;
    of.seconds -= body.seconds;
    STRATA_TRY(const FusionText made, fusion_text(*module, body.types));
    add(made, std::move(body));
    return {};
  }

  /// The blocks' function for a GPU and for the host.
  static Result<std::string> block_function(const emitters::EmittedFusion& fusion,
                                            const std::vector<std::string>& types) {
    STRATA_TRY(const std::string ptx, fusion.block_ptx());
    STRATA_TRY(const std::string on_gpu, ptx_in_cuda(ptx, fusion.name(), types));
    STRATA_TRY(const std::string assembly, fusion.block_assembly());
    std::vector<std::string> declared, buffers;
    for (size_t i = 0; i < types.size(); ++i) {
      declared.push_back(fmt::format("{} p{}", types[i], i));
      buffers.push_back(fmt::format("const_cast<void*>(static_cast<const void*>(p{}))", i));
    }
    return fmt::format(
        "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n{0}#else\nasm(R\"strata({1})strata\");\n"
        "extern \"C\" void {2}_thread(void* const*, int, int, void*);\n"
        "template <class Team>\nstatic STRATA_DEVICE void {2}({3}, unsigned block, unsigned char* shared) {{\n"
        "  void* const buffers[] = {{{4}}};\n  strata_host::team.fiber().meet = [] {{ Team::meet(); }};\n"
        "  {2}_thread(buffers, static_cast<int>(block), static_cast<int>(Team::rank()), shared);\n}}\n#endif\n\n",
        on_gpu, assembly, fusion.name(), fmt::join(declared, ", "), fmt::join(buffers, ", "));
  }

  /// Whether a body can be in one launch with those from `first` to the one before it: nobody reads what another
  /// writes.
  bool runs_beside(size_t first, size_t body) const {
    const Body& b = bodies_[body];
    for (size_t i = first; i < body; ++i) {
      const Body& a = bodies_[i];
      if (a.library || b.library) return false;
      if (a.threads != b.threads && (a.threads % kWarp != 0 || b.threads % kWarp != 0)) return false;
      for (size_t output = a.inputs; output < a.arguments.size(); ++output) {
        if (std::count(b.arguments.begin(), b.arguments.end(), a.arguments[output]) > 0) return false;
      }
    }
    return true;
  }

  /// One launch whose blocks are those of all bodies, one after the other.
  static EmittedKernel kernel_of(std::span<const Body> bodies) {
    EmittedKernel kernel;
    if (const Body& call = bodies.front(); call.library) {
      kernel.name = call.name + "_product";
      kernel.arguments = call.arguments;
      kernel.seconds = call.seconds;
      kernel.library = call.library;
      return kernel;
    }
    kernel.name = bodies.front().name + "_emitted";
    kernel.blocks = 0;
    for (const Body& body : bodies) kernel.threads = std::max(kernel.threads, body.threads);
    const bool known = std::ranges::none_of(bodies, [](const Body& body) { return body.regions.empty(); });
    std::string calls;
    for (const Body& body : bodies) {
      kernel.text += body.text;
      std::vector<std::string> names;
      for (size_t i = 0; i < body.arguments.size(); ++i) {
        names.push_back(fmt::format("p{}", kernel.parameters.size()));
        kernel.parameters.push_back(fmt::format("{} {}", body.types[i], names.back()));
        kernel.arguments.push_back(body.arguments[i]);
      }
      if (known) add_regions(body, kernel);
      kernel.types.insert(kernel.types.end(), body.arrays.begin(), body.arrays.end());
      names.push_back(kernel.blocks == 0 ? "block" : fmt::format("block - {}", kernel.blocks));
      names.emplace_back("shared");
      kernel.blocks += body.blocks;
      const bool all = body.threads == kernel.threads;
      const std::string team = all ? "Team" : fmt::format("typename Team::template First<{}>", body.threads);
      const std::string some = all ? "" : fmt::format("if (Team::rank() < {}) ", body.threads);
      const std::string call = fmt::format("{}{}<{}>({});\n", some, body.name, team, fmt::join(names, ", "));
      calls += bodies.size() == 1 ? "  " + call
                                  : fmt::format("  if (block < {}) {{\n    {}    return;\n  }}\n", kernel.blocks, call);
      kernel.seconds = std::max(kernel.seconds, body.seconds);
      kernel.shared_bytes = std::max(kernel.shared_bytes, body.shared_bytes);
    }
    kernel.text += fmt::format(
        "template <class Team, class Math>\nstatic STRATA_DEVICE void {}({}, {},\n    unsigned char* shared) {{\n"
        "  const auto block = static_cast<unsigned>(block_x);\n{}}}\n\n",
        kernel.name, fmt::join(kernel.parameters, ", "), kBlockCoordinates, calls);
    return kernel;
  }

  /// Of a body whose arguments are the last that the kernel has so far, and whose blocks are its next ones.
  static void add_regions(const Body& body, EmittedKernel& kernel) {
    indexing::IndexingMap numbers;
    numbers.dims = {{kernel.blocks, kernel.blocks + body.blocks - 1}};
    numbers.results = {indexing::Expr::dim(0) - kernel.blocks};
    const auto first = static_cast<int>(kernel.arguments.size() - body.arguments.size());
    for (AccessRegion region : body.regions) {
      region.argument += first;
      region.map = compose(numbers, region.map);
      kernel.regions.push_back(std::move(region));
    }
  }

  /// The next argument of a body; its type in CUDA.
  Result<std::string> add_buffer(const hlo::Computation& entry, const emitters::ArrayValue& value, Body& kernel) {
    const hlo::Shape& shape = hlo::leaf_of(entry[value.instruction].shape, value.element);
    const auto type = element_type(shape.type);
    if (!type || !shape.has_default_layout())
      return unsupported("{} lies between kernels, and is no tensor", entry[value.instruction].name);
    const auto [known, is_new] = names_.try_emplace(value);
    if (is_new) {
      // Other groups write other tensors.
      known->second = fmt::format("{}_between{}", graph_.tensor(glue_.outputs.front()).name, group_.buffers.size());
      while (graph_.find_tensor(known->second)) known->second += "_";
      group_.buffers.push_back({known->second, {*type, Shape(shape.dims.begin(), shape.dims.end())}});
    }
    kernel.arguments.push_back(known->second);
    return storage_type(*type) + "*";
  }

  const Graph& graph_;
  const Glue& glue_;
  const Target& target_;
  const KernelText text_;
  const Deadline& deadline_;
  FusionTexts& fusions_;
  emitters::EmitOptions options_;
  std::map<emitters::ArrayValue, std::string> names_;  ///< of buffers
  std::vector<Body> bodies_;
  EmittedGroup group_;
};

/// Whether operators by themselves, of a thread an element, would be so slow (long sums) that their kernels are written
/// however late it is: these are few, and equal ones are written once.
bool are_slow(const Graph& graph, const std::vector<size_t>& operations, const std::vector<bool>& views,
              const Target& target) {
  constexpr double kSlow = 20;  // times what a kernel takes that moves little
  return std::ranges::any_of(operations, [&](size_t i) {
    return estimate_operation(graph, graph.operations()[i], target, views).seconds > kSlow * target.kernel_seconds();
  });
}

}  // namespace

FusionKernels::FusionKernels() : made_(std::make_shared<Made>()) {}

std::shared_ptr<const KernelEmitter> FusionKernels::until(const Deadline& deadline) const {
  auto bounded = std::make_shared<FusionKernels>();
  bounded->made_ = made_;
  bounded->deadline_ = deadline;
  return bounded;
}

std::vector<EmittedGroup> FusionKernels::emit(const Graph& graph, const std::vector<bool>& free,
                                              const std::vector<bool>& views, const std::map<TensorId, int64_t>& starts,
                                              const Target& target, KernelText text) const {
  const auto is_product = [&](size_t i) { return is_emitted_product(graph.operations()[i]); };
  std::vector<bool> ours(free.size());
  for (size_t i = 0; i < ours.size(); ++i)
    ours[i] = free[i] && !views[i] && (is_glue(graph.operations()[i]) || is_product(i));
  // Where products are better left alone, what is around them may not be: it is grouped once more without them.
  while (true) {
    const std::vector<int> height = heights(graph, ours, views);
    std::map<int, std::vector<size_t>> groups;
    for (size_t i = 0; i < ours.size(); ++i) {
      if (ours[i]) groups[height[i]].push_back(i);
    }
    std::vector<EmittedGroup> made;
    bool left = false;
    for (const auto& [at, operations] : groups) {
      Result<EmittedGroup> group = make(graph, operations, views, starts, target, text);
      if (group) {
        made.push_back(*std::move(group));
        continue;
      }
      for (const size_t i : operations) {
        left = left || is_product(i);
        if (is_product(i)) ours[i] = false;
      }
    }
    if (!left) return made;
  }
}

Result<EmittedGroup> FusionKernels::make(const Graph& graph, const std::vector<size_t>& operations,
                                         const std::vector<bool>& views, const std::map<TensorId, int64_t>& starts,
                                         const Target& target, KernelText text) const {
  STRATA_TRY(const Glue of, glue(graph, operations, views, starts));
  std::string key = fmt::format("{}\n{}\n{}\n{}\n", text == KernelText::Wanted, target.name, graph.name(), of.module);
  for (const auto* ids : {&of.inputs, &of.outputs}) {
    for (const TensorId id : *ids) key += graph.tensor(id).name + "\n";
  }
  const std::vector<bool> all_views = view_operations(graph);
  const std::lock_guard locked(made_->lock);
  auto known = made_->groups.find(key);
  if (known == made_->groups.end()) {
    const Deadline never;
    const bool needed = are_slow(graph, operations, all_views, target) && !deadline_.interrupted();
    const auto build = [&]() -> Result<std::optional<EmittedGroup>> {
      if (!needed && deadline_.passed()) return std::optional<EmittedGroup>();
      STRATA_TRY(const hlo::ModulePtr module, hlo::parse_module(of.module));
      return GroupBuilder(graph, of, target, text, needed ? never : deadline_, made_->fusions).run(*module);
    };
    Result<std::optional<EmittedGroup>> built = build();
    if (built && !*built) {
      ran_out_ = true;
      return unsupported("there was no time to write kernels");
    }
    known = made_->groups.emplace(key, built ? Result<EmittedGroup>(**std::move(built)) : tl::unexpected(built.error()))
                .first;
  }
  STRATA_TRY(EmittedGroup group, known->second);
  double together = 0, apart = 0;
  for (const EmittedKernel& kernel : group.kernels) together += kernel.seconds;
  for (const size_t i : operations)
    apart += estimate_operation(graph, graph.operations()[i], target, all_views).seconds;
  if (together > apart) return unsupported("a kernel of each operator is faster");
  group.operations = operations;
  group.results = of.outputs;
  return group;
}

}  // namespace strata::compiler
