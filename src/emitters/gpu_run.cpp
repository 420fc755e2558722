#include "emitters/gpu_run.h"

#include <fmt/format.h>

#include "emitters/buffers.h"
#include "emitters/library/fastest.h"
#include "hlo/inline_calls.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

/// The value of parameter buffers among the arguments.
Result<hlo::Literal> argument_of(const ProgramBuffer& buffer, std::span<const hlo::Literal> arguments) {
  if (static_cast<size_t>(buffer.parameter) >= arguments.size())
    return invalid("there are {} arguments; the program has a parameter {}", arguments.size(), buffer.parameter);
  const hlo::Literal& whole = arguments[static_cast<size_t>(buffer.parameter)];
  const hlo::Literal& one = buffer.element < 0 ? whole : hlo::leaf_of(whole, buffer.element);
  if (hlo::same_shape(one.shape(), buffer.shape)) return one;
  return invalid("argument {} is {}, not {}", buffer.parameter, hlo::to_string(one.shape()),
                 hlo::to_string(buffer.shape));
}

/// Whether the driver takes the code.
Result<void> check_lax(const GpuDevice& device, const LaxStep& step) {
  if (step.cubin.empty() && step.manifest.uses_kernels()) return environment("its code was not compiled");
  STRATA_CHECK(GpuProgram::load(device, step.cubin, step.manifest));
  return {};
}

}  // namespace

Result<std::unique_ptr<GpuRunner>> GpuRunner::load(const GpuDevice& device, EmittedProgram program,
                                                   const EmitOptions& options, const KernelLoader& loader,
                                                   ResultMemory results, const LoopLoader& loops) {
  std::unique_ptr<GpuRunner> made(new GpuRunner(device, std::move(program)));
  STRATA_CHECK(made->settle(made->program_, options));
  STRATA_TRY(EmittedImage image, image_of(made->program_, options, loader, &device, results, loops));
  made->names_ = std::move(image.buffers);
  image.image.prepared = std::move(made->prepared_);
  STRATA_TRY(made->gpu_, GpuProgram::load(device, std::move(image.image)));
  STRATA_TRY(made->buffers_, made->gpu_->allocate());
  return made;
}

void GpuRunner::replace(ProgramStep& step, const EmitOptions& options, const Error& why) {
  const std::string& name = step.interpreted->entry_computation().name;
  const hlo::Module flat = hlo::inline_calls(*step.interpreted);
  Result<EmittedFusion> fusion = emit_fusion(flat, flat.entry, name + "_kernel", options);
  notes_.push_back(fmt::format("{}: {}; {} in its place", name, why.message, fusion ? "a kernel" : "the interpreter"));
  step.library.reset();
  step.lax.reset();
  step.temporaries.clear();
  if (fusion) {
    step.fusion = *std::move(fusion);
  } else {
    step.why_interpreted = fusion.error().message;
  }
}

Result<void> GpuRunner::settle(ProgramStep& step, const EmitOptions& options) {
  if (step.loop) {
    LoopStep loop = *step.loop;
    for (std::shared_ptr<const EmittedProgram>* part : {&loop.body, &loop.condition}) {
      if (!*part) continue;
      EmittedProgram settled = **part;
      STRATA_CHECK(settle(settled, options));
      *part = std::make_shared<const EmittedProgram>(std::move(settled));
    }
    step.loop = std::make_shared<const LoopStep>(std::move(loop));
  } else if (step.library) {
    const std::string key = identity_of(step.library->work);
    if (prepared_.count(key) > 0) return {};
    Result<std::unique_ptr<PreparedWork>> work = device_.prepare(step.library->work);
    if (work) {
      prepared_[key] = *std::move(work);
    } else {
      replace(step, options, work.error());
    }
  } else if (step.lax) {
    if (const Result<void> taken = check_lax(device_, *step.lax); !taken) replace(step, options, taken.error());
  }
  return {};
}

Result<void> GpuRunner::settle(EmittedProgram& program, const EmitOptions& options) {
  for (ProgramStep& step : program.steps) {
    STRATA_CHECK(settle(step, options));
    // Kernels that replace a library's work may have temporaries.
    if (!step.fusion || !step.temporaries.empty()) continue;
    for (const hlo::Shape& shape : step.fusion->decision().temporaries) {
      step.temporaries.push_back(static_cast<int>(program.buffers.size()));
      program.buffers.push_back({shape});
    }
  }
  return {};
}

Result<void> GpuRunner::choose_algorithms(ResultCache* cache) {
  std::map<std::string, GpuProgram::Chosen> known;
  STRATA_CHECK(gpu_->choose_work(
      [&](const GpuStep& step, const std::vector<int64_t>& bytes) -> Result<std::optional<GpuProgram::Chosen>> {
        if (!step.what.empty()) return std::nullopt;  // the superoptimizer's, which has measured it
        const LibraryWork& work = *step.launch()->library;
        const std::string key = identity_of(work);
        if (const auto found = known.find(key); found != known.end()) return found->second;
        STRATA_TRY(PreparedLibraryWork best, fastest_algorithm(device_, work, bytes, cache));
        return known[key] = {std::move(best.work), std::move(best.prepared)};
      }));
  const bool one_kernel = program_.steps.size() < 2 && !program_.steps.empty() && !program_.steps.front().loop;
  if (one_kernel || gpu_->step_on_host() || !gpu_->may_overlap()) return {};
  // What cannot be timed can still run, which says why if it cannot.
  const Result<double> with = microseconds();
  gpu_->let_overlap(false);
  const Result<double> without = microseconds();
  gpu_->let_overlap(!with || !without || *with <= *without);
  return {};
}

Result<std::unique_ptr<GpuFunction>> GpuRunner::into_function(const std::vector<int>& inputs) {
  std::vector<std::string> names;
  for (const int input : inputs) names.push_back(names_[static_cast<size_t>(input)]);
  buffers_.reset();
  return GpuFunction::make(std::move(gpu_), names);
}

Result<hlo::Literal> GpuRunner::download(const std::string& buffer, const hlo::Shape& shape) const {
  const GpuArray array = buffers_->at(buffer);
  Buffer bytes(static_cast<size_t>(array.bytes()));
  STRATA_CHECK(array.download(bytes.data()));
  return from_buffer(bytes, shape);
}

Result<hlo::Literal> GpuRunner::run(std::span<const hlo::Literal> arguments) {
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    if (buffer.parameter < 0) continue;
    STRATA_TRY(const hlo::Literal value, argument_of(buffer, arguments));
    if (!buffer.shape.is_array()) continue;
    const Buffer bytes = to_buffer(value, buffer.shape);
    STRATA_CHECK(buffers_->at(names_[i]).upload({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  STRATA_CHECK(gpu_->launch(*buffers_));
  STRATA_CHECK(device_.synchronize());
  std::vector<hlo::Literal> arrays;
  for (size_t i = 0; i < program_.results.size(); ++i) {
    const hlo::Shape& shape = program_.buffers[static_cast<size_t>(program_.results[i])].shape;
    STRATA_TRY(hlo::Literal value, download(gpu_->manifest().results[i].second, shape));
    arrays.push_back(std::move(value));
  }
  return assemble_results(program_, arrays);
}

}  // namespace strata::emitters
