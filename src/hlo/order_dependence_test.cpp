#include "hlo/order_dependence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hlo/text.h"

namespace strata::hlo {
namespace {

using testing::HasSubstr;

/// The warnings of a text, one a line.
std::string warnings_of(const std::string& text) {
  const auto module = parse_module(text, "m.hlo");
  if (!module) return module.error().to_string();
  std::string all;
  for (const Error& warning : order_warnings(**module)) all += warning.to_string() + "\n";
  return all;
}

/// Of a reduction by `body`, which has parameters a and b of the type.
std::string reduction(const std::string& type, const std::string& body) {
  return warnings_of(
      fmt::format("f {{ a = {0}[] parameter(0) b = {0}[] parameter(1) {1} }}\n"
                  "ENTRY e {{ x = {0}[8] parameter(0) z = {0}[] parameter(1)\n"
                  "  ROOT r = {0}[] reduce(x, z), dimensions={{0}}, to_apply=f }}\n",
                  type, body));
}

TEST(OrderDependence, KnowsOperatorsByName) {
  for (const char* op : {"add", "multiply", "maximum", "minimum"}) {
    EXPECT_EQ(reduction("f32", fmt::format("ROOT r = f32[] {}(a, b)", op)), "");
    EXPECT_EQ(reduction("bf16", fmt::format("ROOT r = bf16[] {}(b, a)", op)), "");
  }
  for (const char* op : {"and", "or", "xor", "add"})
    EXPECT_EQ(reduction("s32", fmt::format("ROOT r = s32[] {}(a, b)", op)), "");
  for (const char* op : {"subtract", "divide", "power", "remainder"}) {
    const std::string warning = reduction("f32", fmt::format("ROOT r = f32[] {}(a, b)", op));
    EXPECT_THAT(warning, HasSubstr("m.hlo:3:"));
    EXPECT_THAT(warning, HasSubstr("reduce r combines elements by 'f', which is not associative"));
  }
  EXPECT_THAT(reduction("f32", "ROOT r = f32[] copy(b)"), HasSubstr("not commutative"));
}

TEST(OrderDependence, TriesWhatItDoesNotKnow) {
  // Sums and products written otherwise, in all widths.
  for (const char* type : {"f64", "f32", "f16", "bf16"}) {
    EXPECT_EQ(reduction(type, fmt::format("n = {0}[] negate(b) ROOT r = {0}[] subtract(a, n)", type)), "") << type;
    EXPECT_THAT(reduction(type, fmt::format("s = {0}[] multiply(b, b) ROOT r = {0}[] add(a, s)", type)),
                HasSubstr("not associative"))
        << type;
  }
  EXPECT_EQ(reduction("f32",
                      "d = f32[] subtract(a, b) m = f32[] maximum(a, b) q = f32[] abs(d) n = f32[] negate(q)"
                      " e = f32[] exponential(n) l = f32[] log-plus-one(e) ROOT r = f32[] add(m, l)"),
            "");
  EXPECT_THAT(reduction("s32", "d = s32[] subtract(a, b) ROOT r = s32[] abs(d)"), HasSubstr("not associative"));
  // The mean of two is commutative.
  EXPECT_THAT(reduction("f32", "h = f32[] constant(0.5) s = f32[] add(a, b) ROOT r = f32[] multiply(s, h)"),
              HasSubstr("not associative"));
}

TEST(OrderDependence, KnowsTheLargestWithItsIndex) {
  EXPECT_EQ(warnings_of(R"(
f { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(i, j), direction=LT  first = pred[] and(eq, lt)  left = pred[] or(gt, first)
  v = f32[] select(left, a, b)  k = s32[] select(left, i, j)  ROOT r = (f32[], s32[]) tuple(v, k) }
ENTRY e { x = f32[8] parameter(0) i = s32[8] iota(), iota_dimension=0 z = f32[] constant(-inf) n = s32[] constant(0)
  ROOT r = (f32[], s32[]) reduce(x, i, z, n), dimensions={0}, to_apply=f }
)"),
            "");
}

TEST(OrderDependence, WarnsOnceForAComputation) {
  const std::string text = warnings_of(R"(
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] subtract(a, b) }
ENTRY e { x = f32[8] parameter(0) z = f32[] parameter(1)
  r = f32[] reduce(x, z), dimensions={0}, to_apply=f
  w = f32[7] reduce-window(x, z), window={size=2}, to_apply=f
  ROOT t = (f32[], f32[7]) tuple(r, w) }
)");
  EXPECT_THAT(text, HasSubstr("m.hlo:4:3: error: reduce r"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST(OrderDependence, ScattersMayReplace) {
  const auto scatter = [](const std::string& body) {
    return warnings_of(
        "f { a = f32[] parameter(0) " + body +
        " }\nENTRY e { x = f32[8] parameter(0) i = s32[3,1] parameter(1) u = f32[3] parameter(2) ROOT r = "
        "f32[8] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }\n");
  };
  EXPECT_EQ(scatter("ROOT b = f32[] parameter(1)"), "");
  // Updates may be subtracted in any order.
  EXPECT_EQ(scatter("b = f32[] parameter(1) ROOT r = f32[] subtract(a, b)"), "");
  EXPECT_THAT(scatter("b = f32[] parameter(1) ROOT r = f32[] subtract(b, a)"), HasSubstr("not the same in any order"));
}

}  // namespace
}  // namespace strata::hlo
