// Kernels are planned for the limits of their target.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/text.h"

namespace strata::emitters {
namespace {

/// Rows that are read twice: they stay in registers and shared memory as far as there is room.
std::string rows_of(int64_t columns) {
  return fmt::format(
      "HloModule m\nplus {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}\nENTRY e {{\n"
      "  x = f32[1024,{0}] parameter(0)\n  zero = f32[] constant(0)\n"
      "  s = f32[1024] reduce(x, zero), dimensions={{1}}, to_apply=plus\n"
      "  b = f32[1024,{0}] broadcast(s), dimensions={{0}}\n  ROOT y = f32[1024,{0}] divide(x, b)\n}}\n",
      columns);
}

Decision planned_for(const Target& target, int64_t columns) {
  const auto module = hlo::parse_module(rows_of(columns));
  EmitOptions options;
  options.target = target;
  auto program = emit_program(**module, options, LibraryUse::Never);
  EXPECT_TRUE(program) << program.error().to_string();
  EXPECT_EQ(program->steps.size(), 1);
  return program->steps.at(0).fusion->decision();
}

TEST(Targets, BlocksFitTheirMultiprocessors) {
  int differ = 0;
  for (const int64_t columns : {4096, 12000, 24000, 32768, 40000, 50000, 100000}) {
    SCOPED_TRACE(columns);
    for (const Target& target : targets()) {
      SCOPED_TRACE(target.name);
      for (const Launch& launch : planned_for(target, columns).launches) {
        EXPECT_LE(launch.shared_bytes, target.shared_memory);
        EXPECT_LE(launch.min_blocks * (launch.shared_bytes + target.reserved_shared_memory),
                  target.multiprocessor_shared_memory);
      }
    }
    differ += to_string(planned_for(targets().front(), columns)) != to_string(planned_for(targets().back(), columns));
  }
  EXPECT_GT(differ, 0);  // sm_80 has less shared memory
}

TEST(Targets, EstimatesFollowTheRates) {
  const auto module = hlo::parse_module(rows_of(24000));
  ASSERT_TRUE(module);
  const auto estimate = [&](const Target& target) {
    EmitOptions options;
    options.target = target;
    return estimated_microseconds(*emit_program(**module, options, LibraryUse::Never)).value_or(0);
  };
  Target target = default_target();
  const double before = estimate(target);
  // Read once and written once, and a kernel.
  const double bytes = 2.0 * 4 * 1024 * 24000;
  EXPECT_NEAR(before, 1e6 * (bytes / target.rates.memory_bandwidth + target.kernel_seconds()), 0.1 * before);
  target.rates.memory_bandwidth /= 4;
  EXPECT_GT(estimate(target), 3 * before);
  EXPECT_GT(estimate(**find_target("sm_80")), 2 * before);
}

}  // namespace
}  // namespace strata::emitters
