// What is made of a generated program: its launch manifest, and a program for the host.
#include <cassert>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "superopt/codegen/emit.h"
#include "superopt/codegen/generate.h"

namespace strata {
namespace {

nlohmann::ordered_json product_json(const MatrixProduct& p) {
  const auto operand = [](const MatrixProduct::Operand& o) -> nlohmann::ordered_json {
    return {{"transposed", o.transposed}, {"leading", o.leading}, {"batch_stride", o.batch_stride}};
  };
  return {{"type", std::string(name_of(p.type))},
          {"batch", p.batch},
          {"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"a", operand(p.a)},
          {"b", operand(p.b)},
          {"bias", p.bias},
          {"activation", std::string(name_of(p.activation))},
          {"algorithm", p.algorithm}};
}

}  // namespace

std::string KernelLaunch::coordinates(std::array<std::string, 3> at) const {
  if (split > 1) at[0] += fmt::format(" / {}", split);
  std::swap(at[0], at[along_x]);
  return fmt::format("{}", fmt::join(at, ", "));
}

std::string needed_libraries(const GeneratedProgram& program) {
  std::string text;
  for (const KernelLaunch& launch : program.launches) {
    if (launch.product) text += (text.empty() ? "cuBLASLt: " : "; ") + describe(*launch.product);
  }
  return text;
}

std::string launch_manifest(const GeneratedProgram& program) {
  nlohmann::ordered_json json;
  std::set<std::string> listed;  // an output that is an input stays an input
  const auto buffers = [&](const char* role, const std::vector<DeviceBuffer>& of) {
    for (const DeviceBuffer& buffer : of) {
      if (!listed.insert(buffer.name).second) continue;
      json["buffers"].push_back({{"name", buffer.name},
                                 {"role", role},
                                 {"type", std::string(name_of(buffer.type.dtype))},
                                 {"shape", buffer.type.shape}});
    }
  };
  buffers("input", program.inputs);
  buffers("intermediate", program.intermediates);
  buffers("counters", program.counters);
  buffers("output", program.outputs);
  json["kernels"] = nlohmann::ordered_json::array();
  for (const KernelLaunch& launch : program.launches) {
    if (launch.product) {
      json["kernels"].push_back({{"name", launch.kernel},
                                 {"library", kProductLibrary},
                                 {"product", product_json(*launch.product)},
                                 {"workspace_bytes", kProductWorkspace},
                                 {"arguments", launch.arguments}});
      continue;
    }
    json["kernels"].push_back({{"name", launch.kernel},
                               {"grid", launch.grid},
                               {"threads", launch.threads},
                               {"shared_bytes", launch.shared_bytes},
                               {"cluster", launch.cluster},
                               {"overlaps_previous", launch.overlaps_previous},
                               {"resident", launch.resident},
                               {"arguments", launch.arguments}});
    for (const GpuTensorMap& map : launch.maps) {
      json["kernels"].back()["tensor_maps"].push_back({{"argument", map.argument},
                                                       {"element_bytes", map.element_bytes},
                                                       {"sizes", map.sizes},
                                                       {"strides", map.strides},
                                                       {"box", map.box},
                                                       {"swizzle", map.swizzle}});
    }
  }
  return json.dump(2) + "\n";
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
  for (const DeviceBuffer& counters : program.counters) {
    const std::string name = fmt::format("buffer_{}", variables.size());
    variables[counters.name] = name;
    text += fmt::format("  std::vector<unsigned> {}({});\n", name, counters.type.elements());
  }
  for (const DeviceBuffer& output : program.outputs) {
    if (variables.count(output.name) == 0) buffer(output);  // an output may be an input
  }
  for (const KernelLaunch& launch : program.launches) {
    assert(!launch.product);
    std::vector<std::string> arguments;
    for (const std::string& name : launch.arguments) arguments.push_back(variables[name] + ".data()");
    text += "  {\n";
    for (size_t n = 0; n < launch.maps.size(); ++n) {
      const GpuTensorMap& map = launch.maps[n];
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
        "    strata_device::launch({}, {}, {}, {}, {}, {}, {}, [&](\n"
        "        [[maybe_unused]] long long x, [[maybe_unused]] long long y, [[maybe_unused]] long long z,\n"
        "        [[maybe_unused]] unsigned char* shared) {{\n{}      {}{}\n    }});\n  }}\n",
        launch.grid[0], launch.grid[1], launch.grid[2], launch.cluster, launch.threads, launch.shared_bytes,
        launch.resident, launch.prepares ? "      " + function + "_prepare" + call + "\n" : "", function, call);
  }
  for (const DeviceBuffer& output : program.outputs) transfer(variables[output.name], "wb", "std::fwrite");
  return text + "  return 0;\n}\n";
}

}  // namespace strata
