// Programs of large tensors: time limits are kept inside single operations, memory is known before it is taken, and
// where no size matters small shapes decide.
#include <gmock/gmock.h>

#include <chrono>

#include "superopt/verify/memory.h"
#include "superopt/verify/reductions.h"
#include "superopt/verify/test_graphs.h"
#include "superopt/verify/verify.h"

namespace strata {
namespace {

using testing::HasSubstr;

/// What is left of an operation when its time is up, and what a busy machine adds.
constexpr double kSlack = 4;

struct Timed {
  VerifyResult result;
  double seconds;
};

Timed timed(const std::string& reference, const std::string& candidate, double limit) {
  const auto start = std::chrono::steady_clock::now();
  auto result = verify(*graph_of(reference), *graph_of(candidate), {.time_limit = limit});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(result) << result.error().to_string();
  return {result ? *result : VerifyResult{}, seconds.count()};
}

TEST(Large, ElementwiseProgramsAreDecidedAtSmallShapes) {
  const std::string inputs = "input x: f32[8192, 4096];input y: f32[4096];";
  const auto same =
      timed(inputs + "a = mul(x, y);b = add(a, y);output b",
            inputs + "z = sub(x, x);a = add_constant(z, value=1);b = add(x, a);c = mul(b, y);output c", 5);
  EXPECT_EQ(same.result.verdict, Verdict::Equivalent) << same.result.reason;
  EXPECT_THAT(same.result.argument, HasSubstr("as no size matters"));
  const auto other = timed(inputs + "a = mul(x, y);output a", inputs + "a = mul(x, y);b = add(a, y);output b", 5);
  EXPECT_EQ(other.result.verdict, Verdict::Different) << other.result.reason;
  EXPECT_THAT(other.result.reason, HasSubstr("as no size matters"));
  // Outside the fragment, which the solver decides.
  const auto relu = timed("input x: f32[8192, 4096];a = relu(x);output a",
                          "input x: f32[8192, 4096];z = sub(x, x);a = max(x, z);output a", 5);
  EXPECT_EQ(relu.result.verdict, Verdict::Undecided);
  for (const Timed& one : {same, other, relu}) EXPECT_LT(one.seconds, kSlack);
}

TEST(Large, SizesThatMatterStay) {
  const GraphPtr sums = graph_of("input x: f32[512, 512];s = sum(x, dim=1);output s");
  EXPECT_FALSE(alike_at_small_shapes(*sums, *sums));
  // 512 terms of 1: true at full shape alone.
  const std::string inputs = "input x: f32[2048, 512];";
  const std::string ones = "z = sub(x, x);e = exp(z);s = sum(e, dim=1);";
  const auto result = timed(inputs + ones + "output s",
                            inputs + ones + "t = scale(s, factor=2);" + "u = add_constant(t, value=-512);output u", 60);
  EXPECT_EQ(result.result.verdict, Verdict::Equivalent) << result.result.reason;
}

TEST(Large, TimeIsUpInsideOperations) {
  const std::string inputs = "input x: f32[4096, 4096];";
  for (const auto& [reference, candidate] : {
           std::pair("a = relu(x);s = sum(a, dim=1);output s",
                     "z = sub(x, x);a = max(x, z);s = sum(a, dim=1);output s"),
           std::pair("q = sqr(x);a = sqrt(q);s = sum(a, dim=1);output s",
                     "q = mul(x, x);a = sqrt(q);s = sum(a, dim=1);output s"),
           std::pair("m = reduce_max(x, dim=1);output m",
                     "d = scale(x, factor=2);n = reduce_max(d, dim=1);m = scale(n, factor=1/2);output m"),
       }) {
    const auto late = timed(inputs + reference, inputs + candidate, 0.5);
    EXPECT_EQ(late.result.verdict, Verdict::Undecided) << candidate;
    EXPECT_THAT(late.result.reason, HasSubstr("take more than the 0.5 s that they may")) << candidate;
    EXPECT_LT(late.seconds, 0.5 + kSlack) << candidate;
  }
}

TEST(Large, MemoryIsKnownBeforeItIsTaken) {
  const std::string program = "input x: f32[1048576, 524288];s = sum(x, dim=1);output s";
  const auto result = timed(program, program, Deadline::kNever);
  EXPECT_EQ(result.result.verdict, Verdict::Undecided);
  EXPECT_THAT(result.result.reason, HasSubstr("GiB of memory"));
  EXPECT_LT(result.seconds, kSlack);
  const GraphPtr small = graph_of("input x: f32[3, 4];s = sum(x, dim=1);output s");
  EXPECT_TRUE(check_field_memory(*small, *small));
  EXPECT_TRUE(check_real_memory(*small, *small));
}

}  // namespace
}  // namespace strata
