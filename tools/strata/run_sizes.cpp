#include "run_sizes.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "commands.h"
#include "gpu_times.h"
#include "interpret/interpret.h"
#include "interpret/npy.h"
#include "interpret/typical_inputs.h"
#include "interpret/work.h"
#include "ir/text.h"
#include "notice.h"
#include "runtime/device_probe.h"
#include "runtime/program_folder.h"
#include "runtime/size_table.h"
#include "runtime/storage.h"
#include "support/read_file.h"

namespace strata::cli {
namespace {

using Tensors = std::vector<Tensor<double>>;

std::string in(const std::string& folder, const std::string& file) {
  return (std::filesystem::path(folder) / file).string();
}

Result<Tensors> interpreted(const std::string& folder, const Tensors& inputs, const Graph& program) {
  STRATA_TRY(const GraphPtr graph, load_graph(in(folder, "best.strata")));
  STRATA_CHECK(check_execution_memory(*graph));
  Tensors ordered;
  for (const TensorId id : graph->arguments()) {
    const auto names = program.arguments();
    const auto same = std::find_if(names.begin(), names.end(), [&](TensorId other) {
      return program.tensor(other).name == graph->tensor(id).name;
    });
    if (same == names.end() || inputs[static_cast<size_t>(same - names.begin())].shape != graph->type(id).shape)
      return with_remedy(invalid("'{}' holds a graph of another program", folder), "optimize the program again");
    ordered.push_back(inputs[static_cast<size_t>(same - names.begin())]);
  }
  Float64Arithmetic arithmetic{};
  return execute(*graph, arithmetic, ordered);
}

Result<Tensors> on_gpu(const std::string& folder, const Tensors& inputs, const Graph& program, bool profile) {
  STRATA_TRY(const std::unique_ptr<GpuDevice> device, GpuDevice::open());
  STRATA_TRY(const std::string arch, architecture_of(*device));
  STRATA_TRY(ProgramImage image, read_program(folder, arch));
  STRATA_TRY(const std::unique_ptr<GpuProgram> loaded, GpuProgram::load(*device, std::move(image)));
  STRATA_TRY(const GpuBuffers buffers, loaded->allocate());
  const auto fits = [&](const std::string& name, const Shape& shape) -> Result<void> {
    const GpuBuffer* buffer = loaded->manifest().find(name);
    if (buffer != nullptr && buffer->type.shape == shape) return {};
    return with_remedy(invalid("'{}' holds kernels of another program", folder), "optimize the program again");
  };
  const std::vector<TensorId> given = program.arguments();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& info = program.tensor(given[i]);
    STRATA_CHECK(fits(info.name, inputs[i].shape));
    STRATA_CHECK(buffers.at(info.name).upload(encode(inputs[i], info.type.dtype)));
  }
  STRATA_CHECK(loaded->launch(buffers));
  STRATA_CHECK(device->synchronize());
  Tensors results;
  for (const TensorId id : program.outputs()) {
    const TensorInfo& info = program.tensor(id);
    const GpuBuffer* buffer = loaded->manifest().find(info.name);
    if (buffer == nullptr) return invalid("'{}' has no result '{}'", folder, info.name);
    const GpuArray array = buffers.at(info.name);
    std::string bytes(static_cast<size_t>(array.bytes()), '\0');
    STRATA_CHECK(array.download(bytes.data()));
    results.push_back(decode(bytes, {info.type.dtype, buffer->type.shape}));
  }
  if (profile) STRATA_CHECK(print_profile(*loaded, buffers));
  return results;
}

}  // namespace

Result<std::map<std::string, Tensor<double>>> read_arrays(const Graph& graph,
                                                          const std::map<std::string, std::string>& files) {
  std::map<std::string, Tensor<double>> arrays;
  for (const auto& [name, file] : files) {
    const auto inputs = graph.arguments();
    if (std::none_of(inputs.begin(), inputs.end(), [&](TensorId id) { return graph.tensor(id).name == name; })) {
      std::vector<std::string_view> names;
      for (const TensorId id : inputs) names.push_back(graph.tensor(id).name);
      return with_remedy(invalid("'{}' has no input '{}'", graph.name(), name),
                         fmt::format("its inputs are {}", fmt::join(names, ", ")));
    }
    STRATA_TRY(arrays[name], read_npy(file));
  }
  return arrays;
}

Result<DimSizes> sizes_of_run(const SizedProgram& program, const std::map<std::string, Tensor<double>>& arrays,
                              const DimSizes& given) {
  std::vector<std::optional<Shape>> shapes;
  for (const TensorId id : program.graph->arguments()) {
    const auto array = arrays.find(program.graph->tensor(id).name);
    shapes.push_back(array == arrays.end() ? std::optional<Shape>{} : array->second.shape);
  }
  return program.sizes_of(shapes, given);
}

void summarise(const std::string& name, const TensorType& type, const Tensor<double>& tensor) {
  double sum = 0;
  for (double value : tensor.data) sum += value;
  const auto [low, high] = std::minmax_element(tensor.data.begin(), tensor.data.end());
  const std::vector<double> first(tensor.data.begin(), tensor.data.begin() + std::min<int64_t>(6, tensor.size()));
  fmt::print("{}: {}  min {:.6g}  max {:.6g}  mean {:.6g}  first {:.6g}\n", name, to_string(type), *low, *high,
             sum / static_cast<double>(tensor.size()), fmt::join(first, " "));
}

bool has_size_table(const std::string& folder) {
  std::error_code error;
  return std::filesystem::is_regular_file(in(folder, kSizeTable), error);
}

Result<int> run_sizes(const std::string& folder, const SizesRunOptions& options) {
  if (!options.interpret && options.device == "cpu") {
    return with_remedy(invalid("'{}' holds code for a GPU", folder),
                       "add --device gpu, or --interpret to execute its µGraphs by the interpreter");
  }
  STRATA_TRY(const std::string text, read_file(in(folder, kSizeTable)));
  STRATA_TRY(const SizeTable table, parse_size_table(text, in(folder, kSizeTable)));
  const Graph& graph = *table.program.graph;
  STRATA_TRY(const auto arrays, read_arrays(graph, options.inputs));
  STRATA_TRY(DimSizes sizes, sizes_of_run(table.program, arrays, options.dims));
  if (arrays.empty() && options.dims.empty() && !dispatch(table, sizes) && !table.entries.empty()) {
    const DimSizes declared = std::exchange(sizes, table.entries.front().sizes);
    notice("{} is declared and beyond the table: {} is run, the nearest of {}; --dim chooses another\n",
           to_string(declared), to_string(sizes), entries_of(table));
  }
  STRATA_TRY(const SizeDispatch chosen, dispatch(table, sizes));
  STRATA_TRY(const GraphPtr program, table.program.at(sizes));
  const std::string padding = describe(table, chosen);
  notice("kernels for {}{}{}\n", to_string(table.entries[chosen.entry].sizes), padding.empty() ? "" : ": ", padding);
  Random random(options.seed);
  Tensors inputs;
  for (const TensorId id : program->arguments()) {
    Tensor<double> drawn = typical_tensor(program->type(id), random);
    const auto array = arrays.find(program->tensor(id).name);
    STRATA_TRY(inputs.emplace_back(),
               padded(table, chosen, id, array == arrays.end() ? std::move(drawn) : array->second));
  }
  const std::string entry = in(folder, table.entries[chosen.entry].folder);
  STRATA_TRY(const Tensors results, options.interpret ? interpreted(entry, inputs, *program)
                                                      : on_gpu(entry, inputs, *program, options.profile));
  if (!options.output.empty()) STRATA_CHECK(make_folder(options.output));
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorId id = program->outputs()[i];
    STRATA_TRY(const Tensor<double> result, cut(table, chosen, id, results[i]));
    summarise(program->tensor(id).name, program->type(id), result);
    if (options.output.empty()) continue;
    STRATA_CHECK(write_file(options.output + "/" + program->tensor(id).name + ".npy", npy_bytes(result)));
  }
  return kSuccess;
}

}  // namespace strata::cli
