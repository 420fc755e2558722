#include "compiler/hlo_function.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "emitters/gpu_run.h"
#include "emitters/measure_parts.h"
#include "hlo/text.h"
#include "machine/target.h"
#include "runtime/device_probe.h"

namespace strata::compiler {
namespace {

/// Shapes of the arrays in a shape; tokens are left out.
void list_leaves(const hlo::Shape& shape, std::vector<hlo::Shape>& leaves) {
  if (shape.is_array()) leaves.push_back(shape);
  for (const hlo::Shape& element : shape.elements) list_leaves(element, leaves);
}

emitters::LaxOptions lax_options(const HloOptions& options) {
  emitters::LaxOptions lax;
  lax.seconds = options.search_seconds;
  lax.progress = options.progress;
  lax.stop = options.stop;
  lax.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (options.search_seconds > 0) lax.cache = options.cache;
  return lax;
}

/// A cubin; without nvJitLink PTX, of which the driver makes one.
Result<std::string> module_of(const emitters::EmittedFusion& fusion, const std::string& architecture) {
  Result<std::string> cubin = emitters::cubin_of(fusion, architecture);
  if (cubin || cubin.error().code != ErrorCode::Environment) return cubin;
  return fusion.text(emitters::Form::Ptx);
}

Result<std::string> module_of(const emitters::LoopKernel& loop, const std::string& architecture) {
  Result<std::string> cubin = emitters::cubin_of(loop, architecture);
  if (cubin || cubin.error().code != ErrorCode::Environment) return cubin;
  return loop.ptx();
}

}  // namespace

Result<std::unique_ptr<HloFunction>> HloFunction::compile(std::string_view text, const GpuDevice* device,
                                                          const HloOptions& options) {
  STRATA_TRY(const hlo::ModuleText module, hlo::parse_module_text(text, options.file));
  std::unique_ptr<HloFunction> made(new HloFunction);
  made->list_arrays(module.module->entry_computation());
  if (device != nullptr) {
    STRATA_TRY(const CudaStreams streams, open_cuda_streams());
    STRATA_TRY(const ContextScope scope, ContextScope::enter(device->driver(), streams, device->context()));
    STRATA_CHECK(made->load_on_gpu(*device, module, options));
  } else {
    STRATA_CHECK(made->load_on_cpu(*module.module, options));
  }
  return made;
}

void HloFunction::list_arrays(const hlo::Computation& entry) {
  for (size_t i = 0; i < entry.parameters.size(); ++i) {
    const hlo::Instruction& parameter = entry[entry.parameters[i]];
    const int64_t leaves = hlo::leaf_count(parameter.shape);
    for (int64_t leaf = 0; leaf < leaves; ++leaf) {
      const hlo::Shape& shape = hlo::leaf_of(parameter.shape, leaf);
      if (!shape.is_array()) continue;
      const bool tuple = parameter.shape.is_tuple();
      inputs_.push_back(shape);
      input_names_.push_back(tuple ? fmt::format("{}.{}", parameter.name, leaf) : parameter.name);
      input_places_.emplace_back(static_cast<int>(i), tuple ? static_cast<int>(leaf) : -1);
    }
  }
  list_leaves(entry.root_instruction().shape, results_);
}

Result<std::vector<int>> HloFunction::input_buffers(const emitters::EmittedProgram& program) const {
  std::vector<int> numbers;
  for (size_t i = 0; i < input_places_.size(); ++i) {
    const auto [parameter, element] = input_places_[i];
    const auto found = std::find_if(program.buffers.begin(), program.buffers.end(), [&](const auto& buffer) {
      return buffer.parameter == parameter && buffer.element == element && !buffer.constant;
    });
    if (found == program.buffers.end()) return invalid("internal error: '{}' has no buffer", input_names_[i]);
    numbers.push_back(static_cast<int>(found - program.buffers.begin()));
  }
  return numbers;
}

void HloFunction::take_layouts(const emitters::EmittedProgram& program, const std::vector<int>& inputs) {
  const auto shape_of = [&](int buffer) { return program.buffers[static_cast<size_t>(buffer)].shape; };
  std::transform(inputs.begin(), inputs.end(), inputs_.begin(), shape_of);
  std::transform(program.results.begin(), program.results.end(), results_.begin(), shape_of);
}

Result<void> HloFunction::load_on_gpu(const GpuDevice& device, const hlo::ModuleText& text, const HloOptions& options) {
  emitters::EmitOptions emit;
  STRATA_TRY(const std::string architecture, architecture_of(device));
  STRATA_TRY(const Target* target, find_target(architecture));
  emit.target = *target;
  emit.solvers = emitters::Solvers::WhereFound;
  const auto libraries = emitters::LibraryUse::WhereFaster;
  emitters::LaxOptions lax = lax_options(options);
  lax.measures = options.search_seconds > 0;
  lax.device = fmt::format("{}, driver {}", device.name(), device.driver_version());
  lax.microseconds = [&](const hlo::Module& part, const emitters::LaxStep* step) {
    return emitters::part_microseconds(device, part, step, emit, libraries);
  };
  STRATA_TRY(emitters::EmittedProgram program,
             emitters::emit_program(*text.module, emit, libraries, lax,
                                    options.gives_parameters ? text.aliases : hlo::InputOutputAliases(),
                                    emitters::ResultMemory::Own));
  notes_ = program.notes;
  const auto loader = [&](const auto& kernels) { return module_of(kernels, architecture); };
  STRATA_TRY(const auto runner,
             emitters::GpuRunner::load(device, std::move(program), emit, loader, emitters::ResultMemory::Own, loader));
  notes_.insert(notes_.end(), runner->notes().begin(), runner->notes().end());
  STRATA_CHECK(runner->choose_algorithms(options.cache));
  explanation_ = emitters::explain(runner->program());
  STRATA_TRY(const std::vector<int> buffers, input_buffers(runner->program()));
  take_layouts(runner->program(), buffers);
  STRATA_TRY(gpu_, runner->into_function(buffers));
  return {};
}

Result<void> HloFunction::load_on_cpu(const hlo::Module& module, const HloOptions& options) {
  static_assert(kHostAlignment == emitters::kHostAlignment);
  STRATA_TRY(emitters::EmittedProgram program,
             emitters::emit_program(module, {}, emitters::LibraryUse::WhereFaster, lax_options(options)));
  notes_ = program.notes;
  for (const emitters::ProgramBuffer& buffer : program.buffers) {
    constants_.push_back(buffer.constant ? emitters::to_buffer(*buffer.constant, buffer.shape) : emitters::Buffer());
  }
  explanation_ = emitters::explain(program);
  STRATA_TRY(input_buffers_, input_buffers(program));
  take_layouts(program, input_buffers_);
  program_ = std::move(program);
  return {};
}

Result<void> HloFunction::call_on_cpu(std::span<std::byte* const> inputs, std::span<std::byte* const> results) const {
  std::vector<std::byte*> given(program_->buffers.size(), nullptr);
  for (size_t i = 0; i < given.size(); ++i) {
    if (constants_[i].data() != nullptr) given[i] = const_cast<std::byte*>(constants_[i].data());
  }
  for (size_t i = 0; i < inputs.size(); ++i) given[static_cast<size_t>(input_buffers_[i])] = inputs[i];
  // A result that is a parameter, a constant or another result has its array already.
  std::vector<size_t> copies;
  for (size_t i = 0; i < results.size(); ++i) {
    std::byte*& place = given[static_cast<size_t>(program_->results[i])];
    if (place == nullptr) {
      place = results[i];
    } else {
      copies.push_back(i);
    }
  }
  STRATA_CHECK(emitters::run_on_cpu(*program_, given));
  for (const size_t i : copies)
    std::memcpy(results[i], given[static_cast<size_t>(program_->results[i])], emitters::byte_count(results_[i]));
  return {};
}

}  // namespace strata::compiler
