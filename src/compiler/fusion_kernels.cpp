#include "compiler/fusion_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/glue.h"
#include "compiler/ptx_in_cuda.h"
#include "emitters/emit.h"
#include "emitters/fusion/pass.h"
#include "hlo/text.h"
#include "superopt/codegen/emit.h"

namespace strata::compiler {
namespace {

/// By operation, how many operations that are neither free nor views lie before it on a path, at most. Those of equal
/// depth can run together: no path leaves them and comes back.
std::vector<int> depths(const Graph& graph, const std::vector<bool>& free, const std::vector<bool>& views) {
  std::vector<int> depth(graph.operations().size(), 0);
  for (size_t i = 0; i < depth.size(); ++i) {
    for (const TensorId id : graph.operations()[i].operands) {
      const int producer = graph.tensor(id).producer;
      if (producer < 0) continue;
      const auto p = static_cast<size_t>(producer);
      depth[i] = std::max(depth[i], depth[p] + (free[p] || views[p] ? 0 : 1));
    }
  }
  return depth;
}

std::optional<DType> element_type(hlo::ElementType type) {
  const auto found = parse_dtype(hlo::name(type));
  return found ? std::optional(*found) : std::nullopt;
}

/// The only kernel of a fusion that needs nothing but its arguments.
Result<const emitters::Launch*> only_launch(const emitters::EmittedFusion& fusion) {
  const emitters::Decision& decision = fusion.decision();
  if (decision.launches.size() != 1 || decision.launch().blocks == 0 || decision.launch().shared_bytes > 0)
    return unsupported("{} is not one kernel without shared memory", fusion.name());
  if (!decision.preparations.empty() || !decision.temporaries.empty())
    return unsupported("{} needs memory that is prepared", fusion.name());
  return &decision.launch();
}

/// Kernels of a module, and the names of its values in the graph.
class GroupBuilder {
 public:
  GroupBuilder(const Graph& graph, const Glue& glue, const Target& target)
      : graph_(graph), glue_(glue), target_(target) {}

  Result<EmittedGroup> run(const hlo::Module& module) {
    emitters::EmitOptions options;
    options.device.arch = target_.name;
    const hlo::Computation& entry = module.entry_computation();
    for (const emitters::ProgramPart& part : emitters::fuse(module, options.device)) {
      if (part.interpreted) return unsupported("{} has no kernel", part.module.entry_computation().name);
      EmittedKernel& kernel = group_.kernels.emplace_back();
      std::vector<std::string> types;
      for (const auto* values : {&part.inputs, &part.outputs}) {
        for (const emitters::ArrayValue& value : *values) {
          STRATA_TRY(const std::string type, add_buffer(entry[value.instruction], kernel));
          types.push_back(values == &part.inputs ? "const " + type : type);
        }
      }
      kernel.name = fmt::format("{}_{}_emitted", graph_.name(), kernel.arguments.back());
      STRATA_TRY(const emitters::EmittedFusion fusion,
                 emitters::emit_fusion(part.module, part.module.entry, kernel.name, options));
      STRATA_TRY(const emitters::Launch* launch, only_launch(fusion));
      STRATA_TRY(const std::string ptx, fusion.text(emitters::Form::Ptx));
      STRATA_TRY(kernel.text, ptx_in_cuda(ptx, kernel.name, types, launch->threads));
      kernel.blocks = launch->blocks;
      kernel.threads = launch->threads;
      kernel.seconds = part.microseconds * 1e-6;
    }
    return std::move(group_);
  }

 private:
  /// The kernel's next argument; its type in CUDA.
  Result<std::string> add_buffer(const hlo::Instruction& value, EmittedKernel& kernel) {
    const auto tensor = glue_.tensors.find(value.name);
    if (tensor != glue_.tensors.end() && is_in_memory(tensor->second)) {
      kernel.arguments.push_back(graph_.tensor(tensor->second).name);
      return storage_type(graph_.type(tensor->second).dtype) + "*";
    }
    const auto type = element_type(value.shape.type);
    if (!type || !value.shape.has_default_layout())
      return unsupported("{} lies between kernels, and is no tensor", value.name);
    std::string name = fmt::format("{}_between", value.name);
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
  EmittedGroup group_;
};

}  // namespace

std::vector<EmittedGroup> FusionKernels::emit(const Graph& graph, const std::vector<bool>& free,
                                              const std::vector<bool>& views, const Target& target) const {
  const std::vector<int> depth = depths(graph, free, views);
  std::map<int, std::vector<size_t>> groups;
  for (size_t i = 0; i < free.size(); ++i) {
    if (free[i] && !views[i] && is_glue(graph.operations()[i])) groups[depth[i]].push_back(i);
  }
  std::vector<EmittedGroup> made;
  for (const auto& [at, operations] : groups) {
    Result<EmittedGroup> group = make(graph, operations, views, target);
    if (group) made.push_back(*std::move(group));
  }
  return made;
}

Result<EmittedGroup> FusionKernels::make(const Graph& graph, const std::vector<size_t>& operations,
                                         const std::vector<bool>& views, const Target& target) const {
  STRATA_TRY(const Glue of, glue(graph, operations, views));
  std::string key = fmt::format("{}\n{}\n{}\n", target.name, graph.name(), of.module);
  for (const auto* ids : {&of.inputs, &of.outputs}) {
    for (const TensorId id : *ids) key += graph.tensor(id).name + "\n";
  }
  const std::lock_guard locked(lock_);
  auto known = made_.find(key);
  if (known == made_.end()) {
    const auto build = [&]() -> Result<EmittedGroup> {
      STRATA_TRY(const hlo::ModulePtr module, hlo::parse_module(of.module));
      return GroupBuilder(graph, of, target).run(*module);
    };
    known = made_.emplace(key, build()).first;
  }
  STRATA_TRY(EmittedGroup group, known->second);
  group.operations = operations;
  group.results = of.outputs;
  return group;
}

}  // namespace strata::compiler
