#include "emitters/measure_parts.h"

#include "emitters/gpu_run.h"

namespace strata::emitters {

EmittedProgram program_of(const hlo::Module& part, const LaxStep& lax) {
  EmittedProgram program;
  ProgramStep step;
  step.lax = lax;
  step.interpreted = std::make_shared<const hlo::Module>(part);
  const hlo::Computation& entry = part.entry_computation();
  const auto add = [&](const hlo::Shape& shape, int parameter) {
    program.buffers.push_back({shape, parameter});
    return static_cast<int>(program.buffers.size()) - 1;
  };
  for (size_t i = 0; i < entry.parameters.size(); ++i)
    step.inputs.push_back(add(entry[entry.parameters[i]].shape, static_cast<int>(i)));
  program.result_shape = entry.root_instruction().shape;
  step.outputs.push_back(add(program.result_shape, -1));
  for (const hlo::Shape& shape : intermediates(lax.manifest)) step.temporaries.push_back(add(shape, -1));
  program.results = step.outputs;
  program.steps.push_back(std::move(step));
  return program;
}

Result<double> part_microseconds(const GpuDevice& device, const hlo::Module& part, const LaxStep* step,
                                 const EmitOptions& options, LibraryUse libraries) {
  EmittedProgram program;
  if (step != nullptr) {
    program = program_of(part, *step);
  } else {
    STRATA_TRY(program, emit_program(part, options, libraries));
  }
  STRATA_TRY(const std::unique_ptr<GpuRunner> runner, GpuRunner::load(device, std::move(program), options));
  return runner->microseconds();
}

}  // namespace strata::emitters
