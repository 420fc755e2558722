// For tests of parameters that the caller gives away to results: modules on a fake GPU against the interpreter.
#pragma once

#include "emitters/library/test_library_calls.h"
#include "hlo/input_output_alias.h"
#include "runtime/memory_layout.h"

namespace strata::emitters {

class AliasTest : public LibraryCallsTest {
 protected:
  /// Runs the module twice and compares with the interpreter; counts copies of its manifest, loops' too.
  void run(const std::string& text) {
    const auto read = hlo::parse_module_text(text);
    ASSERT_TRUE(read) << read.error().to_string();
    const hlo::Module& module = *read->module;
    auto program = emit_program(module, {}, LibraryUse::Never, {}, read->aliases);
    ASSERT_TRUE(program) << program.error().to_string();
    auto made = GpuRunner::load(*device_, *std::move(program), {}, [](const EmittedFusion& fusion) {
      return Result<std::string>(fmt::format("kernel {}\ncall {:x}\n", fusion.kernel_names().front(),
                                             reinterpret_cast<uintptr_t>(&run_kernel)));
    });
    ASSERT_TRUE(made) << made.error().to_string();
    runner_ = *std::move(made);
    running = &runner_->program();
    copies_ = 0;
    for_each_step(runner_->gpu().manifest().steps,
                  [&](const GpuStep& step) { copies_ += std::holds_alternative<GpuCopy>(step.work) ? 1 : 0; });
    for (const uint64_t seed : {1, 2}) {
      const auto arguments = hlo::typical_arguments(module.entry_computation(), seed);
      const auto expected = hlo::evaluate(module, arguments);
      const auto actual = runner_->run(arguments);
      ASSERT_TRUE(expected && actual) << actual.error().to_string();
      EXPECT_EQ(hlo::difference(*actual, *expected, 4).value_or(""), "") << text;
      expect_unchanged(arguments, read->aliases, text);
    }
  }

  /// Whether a result lies in the memory of a parameter.
  bool lies_in(size_t result, const std::string& parameter) const {
    const std::string& buffer = runner_->gpu().manifest().results[result].second;
    return runner_->buffers().at(buffer).pointer() == runner_->buffers().at(parameter).pointer();
  }

  /// Whether the first step is a loop that works on that value of its state where it lies.
  bool loop_works_in_place(size_t value) const {
    const GpuLoop* loop = runner_->gpu().manifest().steps[0].loop();
    EXPECT_NE(loop, nullptr);
    return loop != nullptr && loop->values[value].in_place;
  }

  /// Parameters that are not given away hold what they held.
  void expect_unchanged(const std::vector<Literal>& arguments, const hlo::InputOutputAliases& aliases,
                        const std::string& text) const {
    const EmittedProgram& program = runner_->program();
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const ProgramBuffer& it = program.buffers[i];
      const auto number = static_cast<int64_t>(it.parameter);
      if (number < 0 || it.element >= 0) continue;
      if (std::ranges::any_of(aliases, [&](const auto& one) { return one.parameter == number; })) continue;
      Buffer bytes(byte_count(it.shape));
      ASSERT_TRUE(runner_->buffers().at(it.name).download(bytes.data()));
      EXPECT_EQ(hlo::difference(from_buffer(bytes, it.shape), arguments[static_cast<size_t>(number)], 0).value_or(""),
                "")
          << it.name << "\n"
          << text;
    }
  }

  std::unique_ptr<GpuRunner> runner_;
  int copies_ = 0;
};

}  // namespace strata::emitters
