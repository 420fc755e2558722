#include "../commands.h"
#include "../emitters.h"
#include "../gpu_times.h"
#include "emitters/buffers.h"
#include "hlo/npy.h"
#include "hlo/typical_arguments.h"
#include "interpret/typical_inputs.h"
#include "run_hlo.h"
#include "runtime/device_probe.h"
#include "runtime/memory_layout.h"
#include "runtime/program_folder.h"
#include "runtime/storage.h"
#include "support/host_memory.h"

namespace strata::cli {
namespace {

Result<hlo::Shape> shape_of(const GpuBuffer& buffer) {
  const ArrayType& type = buffer.type;
  const auto element = hlo::element_type_named(type.element);
  if (!element || !hlo::is_array(*element) || hlo::byte_width(*element) != type.element_bytes)
    return invalid("'{}' is {}, which is no array of HLO", buffer.name, to_string(type));
  if (type.minor_to_major.empty()) return hlo::array_shape(*element, type.shape);
  return hlo::array_shape(*element, type.shape, type.minor_to_major);
}

std::string_view bytes_of(const emitters::Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

/// Values for each input: the user's, or typical ones.
Result<void> put_inputs(const LaunchManifest& manifest, const GpuBuffers& buffers, const ModuleRunOptions& options) {
  Random random(options.seed);
  std::map<std::string, std::string> files = options.inputs;
  std::string names;
  for (const GpuBuffer& buffer : manifest.buffers) {
    if (buffer.role != BufferRole::Input) continue;
    names += (names.empty() ? "" : ", ") + buffer.name;
    STRATA_TRY(const hlo::Shape shape, shape_of(buffer));
    const auto file = files.find(buffer.name);
    const auto tensor = buffer.type.tensor();
    if (file != files.end()) {
      STRATA_TRY(const hlo::Literal value, hlo::read_npy(file->second, shape));
      STRATA_CHECK(buffers.at(buffer.name).upload(bytes_of(emitters::to_buffer(value, shape))));
      files.erase(file);
    } else if (manifest.target.empty() && tensor) {
      // What strata optimize measures a program on.
      STRATA_CHECK(buffers.at(buffer.name).upload(encode(typical_tensor(*tensor, random), tensor->dtype)));
    } else {
      const hlo::Literal value = hlo::typical_literal(shape, random);
      STRATA_CHECK(buffers.at(buffer.name).upload(bytes_of(emitters::to_buffer(value, shape))));
    }
  }
  if (files.empty()) return {};
  return with_remedy(invalid("the program has no input '{}'", files.begin()->first),
                     fmt::format("its inputs are {}", names));
}

Result<void> report_results(const LaunchManifest& manifest, const GpuBuffers& buffers, const std::string& output) {
  auto results = manifest.results;
  for (const GpuBuffer& buffer : manifest.buffers) {
    if (manifest.results.empty() && buffer.role == BufferRole::Output) results.emplace_back(buffer.name, buffer.name);
  }
  for (const auto& [name, buffer] : results) {
    if (name.find('/') != std::string::npos) return invalid("'{}' is no name of a result", name);
    STRATA_TRY(const hlo::Shape shape, shape_of(*manifest.find(buffer)));
    const GpuArray array = buffers.at(buffer);
    emitters::Buffer bytes(static_cast<size_t>(array.bytes()));
    STRATA_CHECK(array.download(bytes.data()));
    STRATA_CHECK(report(name, emitters::from_buffer(bytes, shape), output));
  }
  return {};
}

}  // namespace

Result<int> run_folder(const std::string& folder, const ModuleRunOptions& options) {
  if (options.interpret || options.check || options.with_inputs) {
    return with_remedy(invalid("'{}' holds only code: there is no program that the interpreter could run", folder),
                       "leave --interpret, --check and --with-inputs out, or run the program's text");
  }
  if (options.device == "cpu") {
    return with_remedy(invalid("'{}' holds code for a GPU", folder),
                       graph_in(folder) ? "add --device gpu, or --interpret to execute its µGraph by the interpreter"
                                        : "add --device gpu");
  }
  STRATA_TRY(const std::unique_ptr<GpuDevice> device, GpuDevice::open());
  STRATA_TRY(const std::string arch, architecture_of(*device));
  STRATA_TRY(ProgramImage image, read_program(folder, arch));
  double bytes = 0;
  for (const GpuBuffer& buffer : image.manifest.buffers)
    bytes = std::max(bytes, static_cast<double>(buffer.type.bytes()));
  constexpr double kCopies = 8;  // a value in double precision, and its bytes
  STRATA_CHECK(check_host_memory(kCopies * bytes, fmt::format("running '{}'", folder)));
  STRATA_TRY(const std::unique_ptr<GpuProgram> program, GpuProgram::load(*device, std::move(image)));
  STRATA_TRY(const GpuBuffers buffers, program->allocate());
  STRATA_CHECK(put_inputs(program->manifest(), buffers, options));
  STRATA_CHECK(program->launch(buffers));
  STRATA_CHECK(device->synchronize());
  if (!options.output.empty()) STRATA_CHECK(make_folder(options.output));
  STRATA_CHECK(report_results(program->manifest(), buffers, options.output));
  if (options.profile) STRATA_CHECK(print_profile(*program, buffers));
  return kSuccess;
}

}  // namespace strata::cli
