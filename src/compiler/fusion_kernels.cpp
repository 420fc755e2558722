#include "compiler/fusion_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "compiler/glue.h"
#include "compiler/ptx_in_cuda.h"
#include "emitters/emit.h"
#include "emitters/fusion/pass.h"
#include "hlo/text.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/glue_operators.h"
#include "superopt/optimize/cost.h"

namespace strata::compiler {
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
  options.only = "loop";
  STRATA_TRY(fusion, emitters::emit_fusion(module, module.entry, name, options));
  if (!is_alone(fusion)) return unsupported("{} needs more than one kernel and its arguments", name);
  return fusion;
}

/// Kernels of a module, and the names of its values in the graph.
class GroupBuilder {
 public:
  GroupBuilder(const Graph& graph, const Glue& glue, const Target& target, KernelText text)
      : graph_(graph), glue_(glue), target_(target), text_(text) {
    options_.target = target;
  }

  Result<EmittedGroup> run(const hlo::Module& module) {
    const hlo::Computation& entry = module.entry_computation();
    for (const emitters::ProgramPart& part : emitters::fuse(module, target_)) {
      if (part.interpreted) return unsupported("{} has no kernel", part.module.entry_computation().name);
      Body body;
      for (const auto* values : {&part.inputs, &part.outputs}) {
        for (const emitters::ArrayValue& value : *values) {
          STRATA_TRY(const std::string type, add_buffer(entry[value.instruction], body));
          body.types.push_back(values == &part.inputs ? "const " + type : type);
        }
      }
      body.inputs = part.inputs.size();
      body.name = fmt::format("{}_{}", graph_.name(), body.arguments.back());
      STRATA_TRY(const emitters::EmittedFusion fusion, emit_alone(part.module, body.name, options_));
      body.seconds = part.microseconds * 1e-6;
      for (const emitters::Preparation& fill : fusion.decision().preparations)
        STRATA_CHECK(add_fill(fill, fusion, body));
      STRATA_CHECK(add(fusion, std::move(body)));
    }
    for (size_t first = 0; first < bodies_.size();) {
      size_t end = first + 1;
      while (end < bodies_.size() && runs_beside(first, end)) ++end;
      group_.kernels.push_back(kernel_of({bodies_.data() + first, end - first}));
      first = end;
    }
    return std::move(group_);
  }

 private:
  /// The blocks of one fusion.
  struct Body {
    std::string name, text;
    std::vector<std::string> arguments, types;  ///< buffers, inputs before outputs
    size_t inputs = 0;
    int64_t blocks = 0;
    int64_t threads = 0;
    int64_t shared_bytes = 0;
    double seconds = 0;
  };

  Result<void> add(const emitters::EmittedFusion& fusion, Body body) {
    const emitters::Launch& launch = fusion.decision().launch();
    if (text_ == KernelText::Wanted) {
      STRATA_TRY(body.text, block_function(fusion, body));
    }
    body.shared_bytes = launch.shared_bytes;
    body.blocks = launch.blocks;
    body.threads = launch.threads;
    bodies_.push_back(std::move(body));
    return {};
  }

  /// What an output of `of` holds before its blocks add to it; the model counts a launch of it as a part of `of`.
  Result<void> add_fill(const emitters::Preparation& fill, const emitters::EmittedFusion& fusion, Body& of) {
    const auto output = static_cast<size_t>(fill.output);
    const hlo::Shape& shape = fusion.outputs()[output];
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
    STRATA_TRY(const emitters::EmittedFusion made, emit_alone(*module, body.name, options_));
    return add(made, std::move(body));
  }

  /// The blocks' function for a GPU and for the host.
  static Result<std::string> block_function(const emitters::EmittedFusion& fusion, const Body& body) {
    STRATA_TRY(const std::string ptx, fusion.block_ptx());
    STRATA_TRY(const std::string on_gpu, ptx_in_cuda(ptx, body.name, body.types));
    STRATA_TRY(const std::string assembly, fusion.block_assembly());
    std::vector<std::string> declared, buffers;
    for (size_t i = 0; i < body.types.size(); ++i) {
      declared.push_back(fmt::format("{} p{}", body.types[i], i));
      buffers.push_back(fmt::format("const_cast<void*>(static_cast<const void*>(p{}))", i));
    }
    return fmt::format(
        "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n{0}#else\nasm(R\"strata({1})strata\");\n"
        "extern \"C\" void {2}_thread(void* const*, int, int, void*);\n"
        "template <class Team>\nstatic STRATA_DEVICE void {2}({3}, unsigned block, unsigned char* shared) {{\n"
        "  void* const buffers[] = {{{4}}};\n  strata_host::team.fiber().meet = [] {{ Team::meet(); }};\n"
        "  {2}_thread(buffers, static_cast<int>(block), static_cast<int>(Team::rank()), shared);\n}}\n#endif\n\n",
        on_gpu, assembly, body.name, fmt::join(declared, ", "), fmt::join(buffers, ", "));
  }

  /// Whether a body can be in one launch with those from `first` to the one before it: nobody reads what another
  /// writes.
  bool runs_beside(size_t first, size_t body) const {
    const Body& b = bodies_[body];
    for (size_t i = first; i < body; ++i) {
      const Body& a = bodies_[i];
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
    kernel.name = bodies.front().name + "_emitted";
    kernel.blocks = 0;
    for (const Body& body : bodies) kernel.threads = std::max(kernel.threads, body.threads);
    std::string calls;
    for (const Body& body : bodies) {
      kernel.text += body.text;
      std::vector<std::string> names;
      for (size_t i = 0; i < body.arguments.size(); ++i) {
        names.push_back(fmt::format("p{}", kernel.parameters.size()));
        kernel.parameters.push_back(fmt::format("{} {}", body.types[i], names.back()));
        kernel.arguments.push_back(body.arguments[i]);
      }
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

  /// The next argument of a body; its type in CUDA.
  Result<std::string> add_buffer(const hlo::Instruction& value, Body& kernel) {
    const auto tensor = glue_.tensors.find(value.name);
    if (tensor != glue_.tensors.end() && is_in_memory(tensor->second)) {
      kernel.arguments.push_back(graph_.tensor(tensor->second).name);
      return storage_type(graph_.type(tensor->second).dtype) + "*";
    }
    const auto type = element_type(value.shape.type);
    if (!type || !value.shape.has_default_layout())
      return unsupported("{} lies between kernels, and is no tensor", value.name);
    // Other groups number their instructions alike, and write other tensors.
    std::string name = fmt::format("{}_{}_between", graph_.tensor(glue_.outputs.front()).name, value.name);
    while (graph_.find_tensor(name)) name += "_";
    kernel.arguments.push_back(name);
    const auto known = std::find_if(group_.buffers.begin(), group_.buffers.end(),
                                    [&](const EmittedGroup::Buffer& buffer) { return buffer.name == name; });
    if (known == group_.buffers.end())
      group_.buffers.push_back({name, {*type, Shape(value.shape.dims.begin(), value.shape.dims.end())}});
    return storage_type(*type) + "*";
  }

  bool is_in_memory(TensorId id) const {
    return std::binary_search(glue_.inputs.begin(), glue_.inputs.end(), id) ||
           std::binary_search(glue_.outputs.begin(), glue_.outputs.end(), id);
  }

  const Graph& graph_;
  const Glue& glue_;
  const Target& target_;
  const KernelText text_;
  emitters::EmitOptions options_;
  std::vector<Body> bodies_;
  EmittedGroup group_;
};

}  // namespace

std::vector<EmittedGroup> FusionKernels::emit(const Graph& graph, const std::vector<bool>& free,
                                              const std::vector<bool>& views, const std::map<TensorId, int64_t>& starts,
                                              const Target& target, KernelText text) const {
  std::vector<bool> ours(free.size());
  for (size_t i = 0; i < ours.size(); ++i) ours[i] = free[i] && !views[i] && is_glue(graph.operations()[i]);
  const std::vector<int> height = heights(graph, ours, views);
  std::map<int, std::vector<size_t>> groups;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i]) groups[height[i]].push_back(i);
  }
  std::vector<EmittedGroup> made;
  for (const auto& [at, operations] : groups) {
    Result<EmittedGroup> group = make(graph, operations, views, starts, target, text);
    if (group) made.push_back(*std::move(group));
  }
  return made;
}

Result<EmittedGroup> FusionKernels::make(const Graph& graph, const std::vector<size_t>& operations,
                                         const std::vector<bool>& views, const std::map<TensorId, int64_t>& starts,
                                         const Target& target, KernelText text) const {
  STRATA_TRY(const Glue of, glue(graph, operations, views, starts));
  std::string key = fmt::format("{}\n{}\n{}\n{}\n", text == KernelText::Wanted, target.name, graph.name(), of.module);
  for (const auto* ids : {&of.inputs, &of.outputs}) {
    for (const TensorId id : *ids) key += graph.tensor(id).name + "\n";
  }
  const std::lock_guard locked(lock_);
  auto known = made_.find(key);
  if (known == made_.end()) {
    const auto build = [&]() -> Result<EmittedGroup> {
      STRATA_TRY(const hlo::ModulePtr module, hlo::parse_module(of.module));
      return GroupBuilder(graph, of, target, text).run(*module);
    };
    known = made_.emplace(key, build()).first;
  }
  STRATA_TRY(EmittedGroup group, known->second);
  double together = 0, apart = 0;
  for (const EmittedKernel& kernel : group.kernels) together += kernel.seconds;
  for (const size_t i : operations) apart += estimate_operation(graph, graph.operations()[i], target).seconds;
  if (together > apart) return unsupported("a kernel of each operator is faster");
  group.operations = operations;
  group.results = of.outputs;
  return group;
}

}  // namespace strata::compiler
