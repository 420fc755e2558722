// For tests of what libraries compute: modules on a fake GPU, whose kernels run on the CPU and whose libraries compute
// on the host, against the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "emitters/buffers.h"
#include "emitters/gpu_run.h"
#include "emitters/library/calls.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "runtime/test_driver.h"
#include "support/random.h"

namespace strata::emitters {

using hlo::Literal;

inline hlo::ModulePtr parsed(const std::string& text) {
  const Result<hlo::ModulePtr> module = hlo::parse_module(text);
  if (!module) ADD_FAILURE() << module.error().to_string() << "\n" << text;
  return module ? *module : nullptr;
}

/// As for a GPU of this machine.
inline EmitOptions options_with_solvers() {
  EmitOptions options;
  options.solvers = Solvers::WhereFound;
  return options;
}

/// The program that the fake GPU's kernels belong to: a launch runs the kernel on the CPU.
inline const EmittedProgram* running = nullptr;

/// Runs the kernel once, whichever steps have it; false where none of the program does.
inline bool run_kernel_of(const EmittedProgram& program, const char* kernel, void** arguments) {
  for (const ProgramStep& step : program.steps) {
    if (step.loop) {
      if (run_kernel_of(*step.loop->body, kernel, arguments)) return true;
      if (step.loop->condition && run_kernel_of(*step.loop->condition, kernel, arguments)) return true;
    }
    if (!step.fusion || step.fusion->kernel_names().front() != kernel) continue;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    const size_t count = step.inputs.size();
    std::vector<Buffer> aligned;  // a loop's counters lie one behind the other, which kernels for a GPU do not mind
    for (size_t i = 0; i < count; ++i) {
      inputs.push_back(*static_cast<void**>(arguments[i]));
      if (reinterpret_cast<uintptr_t>(inputs.back()) % Buffer::kAlignment == 0) continue;
      const hlo::Shape& shape = step.fusion->inputs()[i];
      EXPECT_EQ(shape.rank(), 0U);
      Buffer& copy = aligned.emplace_back(static_cast<size_t>(hlo::byte_width(shape.type)));
      std::memcpy(copy.data(), inputs.back(), copy.size());
      inputs.back() = copy.data();
    }
    for (size_t i = 0; i < step.outputs.size() + step.temporaries.size(); ++i)
      outputs.push_back(*static_cast<void**>(arguments[count + i]));
    const Result<void> ran = step.fusion->run_on_cpu(inputs, outputs);
    EXPECT_TRUE(ran) << ran.error().to_string();
    return true;
  }
  return false;
}

inline void run_kernel(const char* kernel, void** arguments) {
  EXPECT_TRUE(run_kernel_of(*running, kernel, arguments)) << kernel;
}

class LibraryCallsTest : public FakeGpuTest {
 protected:
  /// How a module's steps on the fake GPU differ from the interpreter; empty if they do not.
  std::string checked(const hlo::Module& module, uint64_t seed, double slack = 4,
                      LibraryUse use = LibraryUse::WherePossible, hlo::Unit unit = hlo::Unit::Element) {
    libraries_ = inside_ = 0;
    const auto arguments = hlo::typical_arguments(module.entry_computation(), seed);
    const auto expected = hlo::evaluate(module, arguments);
    if (!expected) return expected.error().to_string();
    auto program = emit_program(module, options_with_solvers(), use);
    if (!program) return program.error().to_string();
    steps_ = std::ssize(program->steps);
    for (const ProgramStep& step : program->steps) {
      if (!step.library) continue;
      ++libraries_;
      const auto* product = std::get_if<MatrixProduct>(&step.library->work);
      inside_ += product != nullptr && product->a.offset + product->b.offset > 0 ? 1 : 0;
    }
    explained_ = explain(*program);
    const auto runner = GpuRunner::load(*device_, *std::move(program), {}, [](const EmittedFusion& fusion) {
      // The first kernel of a fusion runs them all.
      const size_t count = fusion.inputs().size() + fusion.outputs().size() + fusion.decision().temporaries.size();
      return Result<std::string>(fmt::format("kernel {}\ncall {:x} {}\n", fusion.kernel_names().front(),
                                             reinterpret_cast<uintptr_t>(&run_kernel), count));
    });
    if (!runner) return runner.error().to_string();
    notes_ = (*runner)->notes();
    running = &(*runner)->program();
    const auto actual = (*runner)->run(arguments);
    if (!actual) return actual.error().to_string();
    return hlo::difference(*actual, *expected, slack, unit).value_or("");
  }
  int libraries_ = 0;
  int inside_ = 0;  ///< products that read slices where they lie
  std::ptrdiff_t steps_ = 0;
  std::string explained_;
  std::vector<std::string> notes_;
};

inline std::string list(const std::vector<int64_t>& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ",")); }
inline std::string dims(const std::vector<int64_t>& sizes) { return fmt::format("[{}]", fmt::join(sizes, ",")); }

inline std::vector<int64_t> shuffled(std::vector<int64_t> values, Random& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[static_cast<size_t>(random.below(i))]);
  return values;
}

/// What the steps of a module are, a library's work as --explain prints it.
inline std::string explained_work(const std::string& text) {
  const auto program = emit_program(*parsed(text), options_with_solvers(), LibraryUse::WherePossible);
  if (!program) return program.error().to_string();
  std::string all;
  for (const ProgramStep& step : program->steps) all += (step.library ? describe(step.library->work) : "kernel") + "; ";
  return all;
}

}  // namespace strata::emitters
