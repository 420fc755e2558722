// What is made of a generated program: its launch manifest, and a program for the host.
#include <cassert>
#include <map>
#include <set>

#include "runtime/launch_accesses.h"
#include "runtime/memory_layout.h"
#include "superopt/codegen/block_accesses.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/launcher.h"

namespace strata {
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

LaunchManifest manifest_of(const GeneratedProgram& program, ManifestAccesses accesses) {
  LaunchManifest manifest;
  std::set<std::string> listed;  // an output that is an input stays an input
  const auto add = [&](BufferRole role, const std::vector<DeviceBuffer>& buffers) {
    for (const DeviceBuffer& buffer : buffers) {
      if (listed.insert(buffer.name).second) manifest.buffers.push_back({buffer.name, role, buffer.type});
    }
  };
  add(BufferRole::Input, program.inputs);
  add(BufferRole::Intermediate, program.intermediates);
  add(BufferRole::Counters, program.counters);
  add(BufferRole::Output, program.outputs);
  for (const KernelLaunch& launch : program.launches) {
    GpuLaunch& made = *manifest.steps.emplace_back(GpuLaunch(launch)).launch();
    if (accesses == ManifestAccesses::Said) made.accesses = manifest_accesses(launch);
  }
  place_buffers(manifest, /*outputs=*/false);
  classify_arguments(manifest, [](const GpuLaunch& launch) { return !launch.accesses.empty(); });
  return manifest;
}

std::string launch_manifest(const GeneratedProgram& program, ManifestAccesses accesses) {
  return *print(manifest_of(program, accesses));
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
    assert(!launch.library);
    std::vector<std::string> arguments;
    for (const std::string& name : launch.arguments) arguments.push_back(variables[name] + ".data()");
    // What is packed has no type.
    for (size_t n = 0; n < launch.types.size(); ++n) {
      if (launch.types[n].ends_with("unsigned char*"))
        arguments[n] = fmt::format("reinterpret_cast<{}>({})", launch.types[n], arguments[n]);
    }
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
    text += fmt::format(
        "    strata_device::launch({}, {}, {}, {}, {}, {}, {}, [&](\n"
        "        [[maybe_unused]] long long x, [[maybe_unused]] long long y, [[maybe_unused]] long long z,\n"
        "        [[maybe_unused]] unsigned char* shared) {{\n{}      {}({});\n    }});\n  }}\n",
        launch.grid[0], launch.grid[1], launch.grid[2], launch.cluster, launch.threads, launch.shared_bytes,
        launch.resident, launch.preparation.empty() ? "" : fmt::format("      {}(shared);\n", launch.preparation),
        launch.function, fmt::join(arguments, ", "));
  }
  for (const DeviceBuffer& output : program.outputs) transfer(variables[output.name], "wb", "std::fwrite");
  return text + "  return 0;\n}\n";
}

}  // namespace strata
