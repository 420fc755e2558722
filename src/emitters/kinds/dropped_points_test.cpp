// Reductions whose tiles reach beyond the array, whose threads compute elements that they drop: columns and rows of odd
// lengths, gone through twice and written, on the processor against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

struct Norm {
  std::vector<int64_t> shape{3, 17, 37};
  int along = 1;  ///< the dimension that is reduced
  std::string type = "f32";
  bool whole = true;  ///< whether what is as large as the array is a result, too
};

/// x / √(Σ x² + 1) · w along a dimension, with w along the same one, and Σ x² · w.
std::string text_of(const Norm& one) {
  std::vector<int64_t> kept;
  std::vector<size_t> dims;
  for (size_t i = 0; i < one.shape.size(); ++i) {
    if (static_cast<int>(i) == one.along) continue;
    kept.push_back(one.shape[i]);
    dims.push_back(i);
  }
  const std::string all = fmt::format("[{}]", fmt::join(one.shape, ","));
  const std::string few = fmt::format("[{}]", fmt::join(kept, ","));
  std::string text =
      fmt::format(R"(HloModule m
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{
  p = {0}{1} parameter(0)
  w = f32[{3}] parameter(1)
  x = f32{1} convert(p)
  ww = f32{1} broadcast(w), dimensions={{{4}}}
  square = f32{1} multiply(x, x)
  zero = f32[] constant(0)
  s = f32{2} reduce(square, zero), dimensions={{{4}}}, to_apply=add
  weighted = f32{1} multiply(square, ww)
  t = f32{2} reduce(weighted, zero), dimensions={{{4}}}, to_apply=add
  one = f32[] constant(1)
  ones = f32{2} broadcast(one), dimensions={{}}
  more = f32{2} add(s, ones)
  root = f32{2} sqrt(more)
  roots = f32{1} broadcast(root), dimensions={{{5}}}
  q = f32{1} divide(x, roots)
  y = f32{1} multiply(q, ww)
)",
                  one.type, all, few, one.shape[static_cast<size_t>(one.along)], one.along, fmt::join(dims, ","));
  if (one.whole) {
    return text +
           fmt::format("  n = {0}{1} convert(y)\n  ROOT r = ({0}{1}, f32{2}) tuple(n, t)\n}}\n", one.type, all, few);
  }
  return text + fmt::format(
                    "  u = f32{0} reduce(y, zero), dimensions={{{1}}}, to_apply=add\n"
                    "  ROOT r = (f32{0}, f32{0}) tuple(u, t)\n}}\n",
                    few, one.along);
}

TEST(DroppedPoints, AreAsIfTheyWereNotComputed) {
  Random random(5);
  const auto size = [&](int64_t most) { return 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(most))); };
  int columns = 0;
  for (int i = 0; i < 40; ++i) {
    Norm one;
    one.along = i % 4 == 0 ? 2 : i % 4 == 1 ? 0 : 1;
    one.shape = {size(9), size(9), size(i % 2 == 0 ? 70 : 20)};
    one.shape[static_cast<size_t>(one.along)] = size(150);
    one.type = i % 3 == 0 ? "f16" : i % 3 == 1 ? "bf16" : "f32";
    one.whole = random.below(3) != 0;
    const std::string text = text_of(one);
    SCOPED_TRACE(text);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    EmitOptions options;
    options.target.multiprocessors = 1 + static_cast<int>(random.below(16));
    const auto program = emit_program(**module, options);
    ASSERT_TRUE(program) << program.error().to_string();
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), static_cast<uint64_t>(i));
    const auto expected = hlo::evaluate(**module, arguments);
    ASSERT_TRUE(expected) << expected.error().to_string();
    const auto actual = run_on_cpu(*program, arguments);
    ASSERT_TRUE(actual) << actual.error().to_string();
    for (size_t k = 0; k < expected->elements().size(); ++k) {
      EXPECT_EQ(hlo::difference(actual->elements()[k], expected->elements()[k], 32).value_or(""), "") << "result " << k;
    }
    columns += explain(*program).find("column reduction") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(columns, 10);
}

}  // namespace
}  // namespace strata::emitters
