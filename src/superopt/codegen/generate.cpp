#include "superopt/codegen/generate.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "ir/text.h"
#include "ir/validate.h"
#include "ir/views.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/libraries.h"
#include "superopt/codegen/rows.h"
#include "superopt/codegen/schedule_cost.h"
#include "superopt/codegen/tiles/tiles.h"

namespace strata {
namespace {

constexpr int64_t kDefaultThreads = 128;
/// Blocks of a predefined operator's kernel: each thread strides over the elements, so any number is right.
constexpr int64_t kMostBlocks = 4096;
constexpr const char* kSharedMemory = "shared_memory";
/// Every kernel may be launched while the one before it still runs, and lets the next one be launched at once: blocks
/// are set up meanwhile, which `preparation` (a statement) is part of, and memory is touched when the kernel before has
/// ended.
std::string order(const std::string& preparation = "") {
  return "  strata_device::let_next_kernel_start();\n" + preparation + "  strata_device::wait_for_previous_kernel();\n";
}

int64_t threads_of(const Graph& body) {
  for (const Operation& op : body.operations()) {
    if (op.body) return op.body->launch().threads;
  }
  return kDefaultThreads;
}

class Generator {
 public:
  Generator(const Graph& graph, const Target& target, const Schedules& schedules, const Passes& passes)
      : graph_(graph),
        target_(target),
        schedules_(schedules),
        passes_(passes),
        libraries_(plan_libraries(graph, schedules)) {}

  Result<GeneratedProgram> run() {
    for (size_t i : libraries_.refused) {
      return unsupported(
          "no library computes {}: it has another kind, another type, or operands in strides of their own",
          headline(graph_.operations()[i]));
    }
    for (size_t i = 0; i < graph_.tensors().size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      const DeviceBuffer buffer{graph_.tensor(id).name, graph_.type(id)};
      const auto& outputs = graph_.outputs();
      if (graph_.tensor(id).producer < 0) {
        program_.inputs.push_back(buffer);
      } else if (std::find(outputs.begin(), outputs.end(), id) == outputs.end() && view_of(id).memory == id &&
                 !inside_call(id)) {
        program_.intermediates.push_back(buffer);
      }
    }
    for (TensorId id : graph_.outputs()) program_.outputs.push_back({graph_.tensor(id).name, graph_.type(id)});
    std::string kernels;
    const std::vector<bool> views = view_operations(graph_, libraries_.strided);
    for (size_t i = 0; i < graph_.operations().size(); ++i) {
      const Operation& op = graph_.operations()[i];
      if (views[i]) continue;
      if (libraries_.covered[i]) {
        if (const LibraryCall* call = libraries_.at(i); call != nullptr) library_launches(*call);
        continue;
      }
      const std::string name = fmt::format("{}_{}", graph_.name(), i);
      kernels += fmt::format("// {}\n", headline(op));
      if (op.body) {
        STRATA_TRY(std::string text, block_kernel(op, name, i < schedules_.size() ? schedules_[i] : std::nullopt));
        kernels += text;
      } else {
        kernels += predefined_kernel(op, name);
      }
    }
    std::string graph_text = "// " + print(graph_);
    graph_text.pop_back();
    for (size_t at = 0; (at = graph_text.find('\n', at)) != std::string::npos; at += 4)
      graph_text.replace(at, 1, "\n// ");
    const bool half = std::all_of(graph_.inputs().begin(), graph_.inputs().end(), [&](TensorId id) {
      return graph_.type(id).dtype == DType::F16 || graph_.type(id).dtype == DType::BF16;
    });
    separate_runs();
    program_.source = half ? "#define STRATA_HALF_PRECISION 1\n" : "";
    program_.source +=
        fmt::format("{}\n{}{}\n// The program:\n//\n{}\n\n{}", device_library(),
                    uses_registers_ ? device_registers() : "", uses_bulk_ ? device_bulk() : "", graph_text, kernels);
    return std::move(program_);
  }

 private:
  MemoryView view_of(TensorId id) const { return memory_view(graph_, id, libraries_.strided); }

  /// Whether a tensor never reaches memory: a call of the library goes on with it.
  bool inside_call(TensorId id) const {
    const auto producer = static_cast<size_t>(graph_.tensor(id).producer);
    return libraries_.covered[producer] && libraries_.at(producer) == nullptr;
  }

  void library_launches(const LibraryCall& call) {
    for (const LibraryStep& step : call.steps) {
      KernelLaunch& made = program_.launches.emplace_back();
      made.kernel = fmt::format("{}_{}_{}", graph_.name(), call.operations.front(),
                                std::holds_alternative<Convolution>(step.work) ? "convolution" : "product");
      if (&step != &call.steps.front()) made.kernel += "_added";
      made.library = step.work;
      for (TensorId id : step.arguments) made.arguments.push_back(graph_.tensor(id).name);
    }
  }

  /// Runs of a program follow each other, so that its first launch is behind its last.
  void separate_runs() {
    if (program_.launches.empty() || !program_.launches.back().library) return;
    program_.launches.front().overlaps_previous = false;
  }

  std::string headline(const Operation& op) const {
    std::string text;
    for (TensorId id : op.results) text += (text.empty() ? "" : ", ") + graph_.tensor(id).name;
    text += fmt::format(" = {}(", op.name());
    for (size_t n = 0; n < op.operands.size(); ++n) text += (n ? ", " : "") + graph_.tensor(op.operands[n]).name;
    return text + ")";
  }

  struct Parameters {
    std::string declaration;
    std::vector<std::string> names;
  };

  Parameters parameters(const Operation& op, const std::string& function) const {
    Parameters result;
    NameScope scope({function, function + "_kernel", kSharedMemory});
    const auto add = [&](TensorId id, const char* qualifier) {
      result.names.push_back(scope.add(graph_.tensor(id).name));
      result.declaration += fmt::format("{}{}{}* {}", result.declaration.empty() ? "" : ", ", qualifier,
                                        storage_type(graph_.type(id).dtype), result.names.back());
    };
    for (TensorId id : op.operands) add(id, "const ");
    for (TensorId id : op.results) add(id, "");
    return result;
  }

  KernelLaunch& launch(const Operation& op, const std::string& name) {
    // A kernel of a library does not let the next one start, and may end with something that is no kernel.
    const bool behind_library = !program_.launches.empty() && program_.launches.back().library;
    KernelLaunch& made = program_.launches.emplace_back();
    made.kernel = name + "_kernel";
    made.overlaps_previous = target_.overlapping_kernels && passes_.overlap && !behind_library;
    for (TensorId id : op.operands) made.arguments.push_back(graph_.tensor(view_of(id).memory).name);
    for (TensorId id : op.results) made.arguments.push_back(graph_.tensor(id).name);
    return made;
  }

  /// The first emitter that takes the block.
  Result<BlockCode> block_code(const Operation& op, const std::string& name, std::optional<BlockSchedule> schedule) {
    std::vector<std::vector<int64_t>> strides;
    for (TensorId id : op.operands) strides.push_back(view_of(id).strides);
    if (!schedule && passes_.registers && passes_.schedules) {
      for (const BlockSchedule& offered : block_schedules(op, strides, target_)) {
        if (offered.bulk && !passes_.bulk) continue;
        schedule = offered;
        break;
      }
    }
    const bool given = schedule.has_value();
    if (!given && passes_.registers && !passes_.schedules) schedule = BlockSchedule{.stages = 2};
    if (schedule) {
      schedule->best_layout = passes_.layouts;
      auto code = emit_in_registers(op, name, strides, *schedule, target_);
      if (code || given) {
        uses_registers_ = true;
        return code;
      }
    }
    BlockCode code;
    code.text = emit_block_function(op, name, strides);
    code.threads = threads_of(*op.body);
    code.shared_bytes = shared_memory_bytes(*op.body);
    code.description = passes_.registers ? "no registers: " + refusals(op, name, strides) : "no registers: turned off";
    if (code.shared_bytes > target_.shared_memory) {
      return unsupported("a block of {} needs {} bytes of shared memory; {} has {}", headline(op), code.shared_bytes,
                         target_.name, target_.shared_memory);
    }
    return code;
  }

  /// Why the emitters that work in registers do not take a block, in one line.
  std::string refusals(const Operation& op, const std::string& name,
                       const std::vector<std::vector<int64_t>>& strides) const {
    const auto reason = [](const Result<BlockCode>& code) {
      return code ? std::string("too many registers") : code.error().message;
    };
    return fmt::format("tiles: {}; rows: {}", reason(emit_tiles(op, name, strides, {}, target_)),
                       reason(emit_rows(op, name, strides, {}, target_)));
  }

  Result<std::string> block_kernel(const Operation& op, const std::string& name,
                                   std::optional<BlockSchedule> schedule) {
    const Graph& body = *op.body;
    STRATA_TRY(BlockCode code, block_code(op, name, schedule));
    KernelLaunch& made = launch(op, name);
    std::copy(body.launch().grid.begin(), body.launch().grid.end(), made.grid.begin());
    made.threads = code.threads;
    made.shared_bytes = code.shared_bytes;
    made.cluster = code.cluster * code.sharers;
    made.split = code.cluster;
    made.along_x = code.shared_along;
    std::swap(made.grid[0], made.grid[made.along_x]);
    made.grid[0] *= code.cluster;
    made.prepares = code.prepares;
    made.layouts = code.layouts;
    made.tensor_maps = code.maps;
    if (code.registers > 0 && passes_.spreading) {
      const int64_t blocks = made.grid[0] * made.grid[1] * made.grid[2];
      made.shared_bytes = std::max(made.shared_bytes, spreading_bytes(blocks, {.cluster = made.cluster}, target_));
    }
    uses_bulk_ |= !code.maps.empty();
    const Parameters p = parameters(op, name);
    std::string text = code.description.empty() ? "" : "// " + code.description + "\n";
    for (const WideProduct& product : code.wide) {
      if (wide_.insert(product.name()).second) text = product.text() + text;
    }
    text += code.text;
    std::string declaration = p.declaration;
    std::vector<std::string> arguments = p.names;
    for (size_t n = 0; n < code.maps.size(); ++n) {
      declaration += fmt::format(", const __grid_constant__ strata_device::TensorMap map_{}", n);
      arguments.push_back(fmt::format("&map_{}", n));
    }
    arguments.push_back(made.coordinates({"blockIdx.x", "blockIdx.y", "blockIdx.z"}));
    arguments.emplace_back(kSharedMemory);
    const std::string call = fmt::format("({})", fmt::join(arguments, ", "));
    text += fmt::format(
        "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n"
        "STRATA_KERNEL void __launch_bounds__({}) {}({}) {{\n"
        "  extern __shared__ __align__(1024) unsigned char {}[];\n"
        "{}"
        "  {}{};\n"
        "}}\n#endif\n\n",
        made.threads, made.kernel, declaration, kSharedMemory,
        order(code.prepares ? fmt::format("  {}_prepare{};\n", name, call) : ""), name, call);
    return text;
  }

  std::string predefined_kernel(const Operation& op, const std::string& name) {
    const Parameters p = parameters(op, name);
    const TensorType& type = graph_.type(op.results[0]);
    KernelLaunch& made = launch(op, name);
    made.predefined = true;
    made.threads = 256;
    made.grid[0] = std::clamp<int64_t>((type.elements() + made.threads - 1) / made.threads, 1, kMostBlocks);
    std::string body;
    const std::vector<std::string> operands(p.names.begin(), p.names.end() - 1);
    if (op_def(op.kind).cuda.form == CudaLowering::Form::Elementwise) {
      NameScope scope(std::set<std::string>(p.names.begin(), p.names.end()));
      std::vector<ElementOperand> elements;
      std::vector<std::string> variables;
      for (size_t n = 0; n < operands.size(); ++n) {
        variables.push_back(scope.add(fmt::format("x{}", n)));
        elements.push_back({operands[n], variables.back(), graph_.type(op.operands[n]).shape});
      }
      const std::string value = scope.add("value");
      body = element_loop("GridTeam", type.shape, type.dtype, elements, {{&op, variables, value}}, value,
                          p.names.back(), "  ");
    } else {
      body = "  " + library_call(graph_, op, "GridTeam", operands, p.names.back());
    }
    return fmt::format(
        "static STRATA_DEVICE void {0}({1}) {{\n{2}}}\n\n"
        "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n"
        "STRATA_KERNEL void __launch_bounds__({3}) {4}({1}) {{\n{6}  {0}({5});\n}}\n#endif\n\n",
        name, p.declaration, body, made.threads, made.kernel, fmt::join(p.names, ", "), order());
  }

  const Graph& graph_;
  const Target& target_;
  const Schedules& schedules_;
  const Passes& passes_;
  LibraryPlan libraries_;
  std::set<std::string> wide_;  ///< instructions that are defined
  bool uses_registers_ = false;
  bool uses_bulk_ = false;
  GeneratedProgram program_;
};

}  // namespace

Result<BlockCode> emit_in_registers(const Operation& op, const std::string& name,
                                    const std::vector<std::vector<int64_t>>& strides, const BlockSchedule& schedule,
                                    const Target& target) {
  auto tiles = emit_tiles(op, name, strides, schedule, target);
  return tiles ? tiles : emit_rows(op, name, strides, schedule, target);
}

std::vector<BlockSchedule> block_schedules(const Operation& op, const std::vector<std::vector<int64_t>>& strides,
                                           const Target& target) {
  auto schedules = tile_schedules(op, strides, target);
  return schedules.empty() ? row_schedules(op, strides, target) : schedules;
}

std::vector<std::vector<int64_t>> operand_strides(const Graph& graph, const Operation& op) {
  std::vector<std::vector<int64_t>> strides;
  for (TensorId id : op.operands) strides.push_back(memory_view(graph, id).strides);
  return strides;
}

Result<GeneratedProgram> generate_cuda(const Graph& graph, const Target& target, const Schedules& schedules,
                                       const Passes& passes) {
  if (graph.level() != Level::Kernel) return invalid("code is generated from kernel graphs");
  return Generator(graph, target, schedules, passes).run();
}

std::string KernelLaunch::coordinates(std::array<std::string, 3> at) const {
  if (split > 1) at[0] += fmt::format(" / {}", split);
  std::swap(at[0], at[along_x]);
  return fmt::format("{}", fmt::join(at, ", "));
}

std::string needed_libraries(const GeneratedProgram& program) {
  std::map<std::string_view, std::string> needs;
  for (const KernelLaunch& launch : program.launches) {
    if (!launch.library) continue;
    std::string& text = needs[library_of(*launch.library)];
    text += (text.empty() ? "" : "; ") + describe(*launch.library);
  }
  std::string all;
  for (const auto& [library, text] : needs) all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", library, text);
  return all;
}

std::string launch_manifest(const GeneratedProgram& program) {
  LaunchManifest manifest;
  std::set<std::string> listed;  // an output that is an input stays an input
  const auto add = [&](BufferRole role, const std::vector<DeviceBuffer>& buffers) {
    for (const DeviceBuffer& buffer : buffers) {
      if (listed.insert(buffer.name).second) manifest.buffers.push_back({buffer.name, role, buffer.type});
    }
  };
  add(BufferRole::Input, program.inputs);
  add(BufferRole::Intermediate, program.intermediates);
  add(BufferRole::Output, program.outputs);
  manifest.launches.assign(program.launches.begin(), program.launches.end());
  return print(manifest);
}

std::string host_program(const GeneratedProgram& program) {
  std::map<std::string, std::string> variables;
  std::string text(host_library());
  text += program.source;
  text += "\nint main(int count, char** files) {\n";
  size_t file = 0;
  const auto buffer = [&](const DeviceBuffer& of) {
    const std::string name = fmt::format("buffer_{}", variables.size());
    variables[of.name] = name;
    text += fmt::format("  std::vector<{}> {}({});\n  std::memset({}.data(), 0xff, {});\n", storage_type(of.type.dtype),
                        name, of.type.elements(), name, of.type.bytes());
    return name;
  };
  const auto transfer = [&](const std::string& name, const char* mode, const char* function) {
    text += fmt::format(
        "  {{\n    std::FILE* file = std::fopen(files[{0}], \"{1}\");\n"
        "    if (file == nullptr || {2}({3}.data(), sizeof({3}[0]), {3}.size(), file) != {3}.size()) return 2;\n"
        "    std::fclose(file);\n  }}\n",
        ++file, mode, function, name);
  };
  text += fmt::format("  if (count != {}) return 2;\n", 1 + program.inputs.size() + program.outputs.size());
  for (const DeviceBuffer& input : program.inputs) transfer(buffer(input), "rb", "std::fread");
  for (const DeviceBuffer& intermediate : program.intermediates) buffer(intermediate);
  for (const DeviceBuffer& output : program.outputs) {
    if (variables.count(output.name) == 0) buffer(output);  // an output may be an input
  }
  for (const KernelLaunch& launch : program.launches) {
    assert(!launch.library);
    std::vector<std::string> arguments;
    for (const std::string& name : launch.arguments) arguments.push_back(variables[name] + ".data()");
    text += "  {\n";
    for (size_t n = 0; n < launch.tensor_maps.size(); ++n) {
      const GpuTensorMap& map = launch.tensor_maps[n];
      text += fmt::format(
          "    const strata_device::TensorMap map_{}{{reinterpret_cast<const unsigned char*>({}), {}, {},\n"
          "      {{{}}}, {{{}}}, {{{}}}, {}}};\n",
          n, arguments[map.argument], map.sizes.size(), map.element_bytes, fmt::join(map.sizes, ", "),
          fmt::join(map.strides, ", "), fmt::join(map.box, ", "), map.swizzle);
      arguments.push_back(fmt::format("&map_{}", n));
    }
    if (!launch.predefined) arguments.insert(arguments.end(), {launch.coordinates({"x", "y", "z"}), "shared"});
    const std::string call = fmt::format("({});", fmt::join(arguments, ", "));
    const std::string function = launch.kernel.substr(0, launch.kernel.size() - std::string_view("_kernel").size());
    text += fmt::format(
        "    strata_device::launch({}, {}, {}, {}, {}, {}, [&](\n"
        "        [[maybe_unused]] long long x, [[maybe_unused]] long long y, [[maybe_unused]] long long z,\n"
        "        [[maybe_unused]] unsigned char* shared) {{\n{}      {}{}\n    }});\n  }}\n",
        launch.grid[0], launch.grid[1], launch.grid[2], launch.cluster, launch.threads, launch.shared_bytes,
        launch.prepares ? "      " + function + "_prepare" + call + "\n" : "", function, call);
  }
  for (const DeviceBuffer& output : program.outputs) transfer(variables[output.name], "wb", "std::fwrite");
  return text + "  return 0;\n}\n";
}

}  // namespace strata
