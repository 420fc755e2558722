#include "emitters/fusion/split_reductions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/test_rewriting.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

/// A GPU so small that few blocks fill it, and whose kernels start at once: arrays of a test are large on it.
Target small_target() {
  Target target = default_target();
  target.multiprocessors = 4;
  target.rates.kernel = target.rates.overlapped_kernel = 1e-7;
  return target;
}

struct Example {
  std::string type = "f32";
  std::vector<int64_t> dims, reduced;
  bool variance = false;  ///< Σ(x - mean)² and the mean, else a sum and a maximum
};

std::string text_of(const Example& of) {
  std::vector<int64_t> kept, places;
  int64_t terms = 1;
  for (int64_t d = 0; d < std::ssize(of.dims); ++d) {
    const int64_t n = of.dims[static_cast<size_t>(d)];
    if (std::find(of.reduced.begin(), of.reduced.end(), d) != of.reduced.end()) {
      terms *= n;
      continue;
    }
    kept.push_back(n);
    places.push_back(d);
  }
  const std::string head = fmt::format(
      "HloModule m\nplus {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}\nmost {{ a = "
      "f32[] "
      "parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(b, a) }}\nENTRY e {{\n  p = {0}[{1}] parameter(0)\n  "
      "x "
      "= f32[{1}] convert(p)\n  zero = f32[] constant(0)\n  least = f32[] constant(-inf)\n  s = f32[{2}] reduce(x, "
      "zero), dimensions={{{3}}}, to_apply=plus\n",
      of.type, fmt::join(of.dims, ","), fmt::join(kept, ","), fmt::join(of.reduced, ","));
  if (!of.variance)
    return head + fmt::format(
                      "  q = f32[{0}] multiply(x, x)\n  m = f32[{1}] reduce(q, least), dimensions={{{2}}}, "
                      "to_apply=most\n  ROOT t = (f32[{1}], f32[{1}]) tuple(s, m)\n}}\n",
                      fmt::join(of.dims, ","), fmt::join(kept, ","), fmt::join(of.reduced, ","));
  return head +
         fmt::format(
             "  n = f32[] constant({3})\n  ns = f32[{1}] broadcast(n), dimensions={{}}\n  mean = f32[{1}] divide(s, "
             "ns)\n  means = f32[{0}] broadcast(mean), dimensions={{{4}}}\n  c = f32[{0}] subtract(x, means)\n  q "
             "= f32[{0}] multiply(c, c)\n  v = f32[{1}] reduce(q, zero), dimensions={{{2}}}, to_apply=plus\n  ROOT "
             "t = (f32[{1}], f32[{1}]) tuple(mean, v)\n}}\n",
             fmt::join(of.dims, ","), fmt::join(kept, ","), fmt::join(of.reduced, ","), terms, fmt::join(places, ","));
}

/// Of up to four dimensions, in which large ones, odd ones and those of one element take turns.
Example random_example(Random& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  Example it{below(2) == 0 ? "f32" : "bf16"};
  it.variance = below(2) == 0;
  int64_t elements = 1;
  const int64_t rank = 1 + below(4);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t sizes[] = {1, 3, 10, 32, 64, 256, 1000, 1024, 4096};
    int64_t size = sizes[below(std::size(sizes))];
    if (elements * size > (1 << 18)) size = 2;
    elements *= size;
    it.dims.push_back(size);
    if (below(2) == 0) it.reduced.push_back(d);
  }
  return it;
}

/// Expects that a module's kernels compute on the host what the interpreter does.
void expect_emitted_values(const hlo::Module& module, const Target& target, uint64_t seed, double slack) {
  const auto arguments = hlo::typical_arguments(module.entry_computation(), seed);
  const auto expected = hlo::evaluate(module, arguments);
  ASSERT_TRUE(expected) << expected.error().to_string();
  EmitOptions options;
  options.target = target;
  const auto program = emit_program(module, options);
  ASSERT_TRUE(program) << program.error().to_string();
  const auto run = run_on_cpu(*program, arguments);
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_EQ(hlo::difference(*run, *expected, slack).value_or(""), "");
}

TEST(SplitReductions, ComputeTheSame) {
  const Target target = small_target();
  int split = 0, moments = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(400)); ++seed) {
    Random random(seed);
    const Example example = random_example(random);
    SCOPED_TRACE(text_of(example));
    const auto module = hlo::parse_module(text_of(example));
    ASSERT_TRUE(module) << module.error().to_string();
    const hlo::Module changed = split_reductions(**module, target);
    const std::string text = hlo::print(changed);
    split += text.find("of.parts") != std::string::npos ? 1 : 0;
    moments += text.find("part.squares") != std::string::npos ? 1 : 0;
    hlo::expect_same_values(**module, changed, seed, 16);
    if (seed % 8 == 0) expect_emitted_values(**module, target, seed, 16);
  }
  EXPECT_GE(split, rounds(50));
  EXPECT_GE(moments, rounds(20));
}

/// Columns narrower than a line, of any number of rows: threads read vectors, and rows that no parts have count too.
TEST(SplitReductions, NarrowColumns) {
  const Target target = small_target();
  int left = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(40)); ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    Example example{below(3) == 0 ? "bf16" : "f32"};
    const int64_t columns = 1 + 2 * below(7);  // odd
    example.dims = {10'000 + below(20'000), columns};
    example.reduced = {0};
    if (below(3) == 0) {
      example.dims.insert(example.dims.begin(), 2);
      example.reduced = {1};
    }
    SCOPED_TRACE(text_of(example));
    const auto module = hlo::parse_module(text_of(example));
    ASSERT_TRUE(module) << module.error().to_string();
    const hlo::Module changed = split_reductions(**module, target);
    left += hlo::print(changed).find(".left") != std::string::npos ? 1 : 0;
    hlo::expect_same_values(**module, changed, seed, 64);
    if (seed % 4 == 0) expect_emitted_values(**module, target, seed, 64);
  }
  EXPECT_GE(left, rounds(10));
}

TEST(SplitReductions, NarrowColumnsAreReadInVectors) {
  for (const int64_t rows : {1'000'000, 999'983, 1'000'001}) {
    for (const int64_t columns : {1, 2, 3, 5, 7}) {
      const auto module = hlo::parse_module(
          fmt::format("HloModule m\nplus {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}\n"
                      "ENTRY e {{\n  x = f32[{0},{1}] parameter(0)\n  z = f32[] constant(0)\n  ROOT s = f32[{1}] "
                      "reduce(x, z), dimensions={{0}}, to_apply=plus\n}}\n",
                      rows, columns));
      ASSERT_TRUE(module) << module.error().to_string();
      const auto program = emit_program(**module);
      ASSERT_TRUE(program) << program.error().to_string();
      EXPECT_NE(explain(*program).find("vector           4"), std::string::npos) << explain(*program);
    }
  }
}

/// The variance of columns whose mean is thousands of times their deviation, in parts, is as good as in two passes.
TEST(SplitReductions, VariancesLoseNothingFarFromZero) {
  const Example example{"f32", {4096, 40}, {0}, true};
  const auto module = hlo::parse_module(text_of(example));
  ASSERT_TRUE(module) << module.error().to_string();
  const hlo::Module changed = split_reductions(**module, small_target());
  ASSERT_NE(hlo::print(changed).find("part.squares"), std::string::npos);
  hlo::Literal x((*module)->entry_computation()[(*module)->entry_computation().parameters[0]].shape);
  std::vector<float> values(x.byte_size() / sizeof(float));
  Random random(1);
  for (float& value : values) value = static_cast<float>(30000 + random.uniform(-1, 1));
  std::memcpy(x.mutable_bytes(), values.data(), x.byte_size());
  EmitOptions options;
  options.target = small_target();
  const auto program = emit_program(**module, options);
  ASSERT_TRUE(program) << program.error().to_string();
  const auto found = run_on_cpu(*program, std::vector{x});
  ASSERT_TRUE(found) << found.error().to_string();
  for (size_t column = 0; column < 40; ++column) {
    double sum = 0, squares = 0;
    for (size_t row = 0; row < 4096; ++row) sum += static_cast<double>(values[row * 40 + column]);
    for (size_t row = 0; row < 4096; ++row) {
      const double away = static_cast<double>(values[row * 40 + column]) - sum / 4096;
      squares += away * away;
    }
    float variance = 0;
    std::memcpy(&variance, found->elements()[1].bytes() + column * sizeof(float), sizeof(float));
    EXPECT_NEAR(static_cast<double>(variance) / squares, 1, 1e-4) << column;
  }
}

std::string programs(const std::string& text) {
  const auto module = hlo::parse_module(text);
  if (!module) return module.error().to_string();
  const auto program = emit_program(**module);
  return program ? explain(*program) : program.error().to_string();
}

/// Kernels that go through all of the array: those that have the parameter.
int64_t passes(const std::string& text) {
  const std::string explained = programs(text);
  int64_t count = 0;
  for (size_t at = 0; (at = explained.find("b0 ", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(SplitReductions, LeaveWhatALaunchTakesLongerThan) {
  // The parts of a group norm, and an array that is read for longer.
  for (const auto& [positions, kernels] : {std::pair(81, 1), std::pair(8100, 2)}) {
    const std::string text = text_of({"f32", {3, positions, 8, 15}, {1, 3}});
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    const std::string changed = hlo::print(split_reductions(**module, default_target()));
    EXPECT_EQ(changed.find("of.parts") == std::string::npos, kernels == 1) << changed;
    const auto program = emit_program(**module);
    ASSERT_TRUE(program) << program.error().to_string();
    EXPECT_EQ(std::ssize(program->steps), kernels) << explain(*program);
  }
}

TEST(SplitReductions, GoThroughTheArrayOnce) {
  // Columns, odd ones too, a channel's images, groups of channels, long rows of few channels.
  const Example examples[] = {{"bf16", {65536, 1000}, {0}, true},
                              {"f32", {65536, 77}, {0}, true},
                              {"f32", {64, 56, 56, 128}, {0, 1, 2}, true},
                              {"bf16", {16, 4096, 32, 10}, {1, 3}, true},
                              {"f32", {64, 64, 3136}, {0, 2}, true}};
  for (const Example& example : examples) EXPECT_EQ(passes(text_of(example)), 1) << programs(text_of(example));
}

// What combines the parts' squares needs few elements of the means: they are no reason to write all of them.
TEST(SplitReductions, MeansAreSpreadByEachReader) {
  const auto module = hlo::parse_module(R"(HloModule m
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  zero = f32[] constant(0)
  n = f32[] constant(25088)
  x = bf16[32,256,28,28] parameter(0)
  running = f32[2,256] parameter(1)
  dy = bf16[32,256,28,28] parameter(2)
  d = f32[32,256,28,28] convert(dy)
  f = f32[32,256,28,28] convert(x)
  s = f32[256] reduce(f, zero), dimensions={0,2,3}, to_apply=plus
  ns = f32[256] broadcast(n), dimensions={}
  mean = f32[256] divide(s, ns)
  means = f32[32,256,28,28] broadcast(mean), dimensions={1}
  c = f32[32,256,28,28] subtract(f, means)
  q = f32[32,256,28,28] multiply(c, c)
  squares = f32[256] reduce(q, zero), dimensions={0,2,3}, to_apply=plus
  variance = f32[256] divide(squares, ns)
  first = f32[1,256] reshape(mean)
  second = f32[1,256] reshape(variance)
  both = f32[2,256] concatenate(first, second), dimensions={0}
  then = f32[2,256] add(both, running)
  p = f32[32,256,28,28] multiply(c, d)
  products = f32[256] reduce(p, zero), dimensions={0,2,3}, to_apply=plus
  ROOT t = (f32[2,256], f32[256]) tuple(then, products)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module, {});
  ASSERT_TRUE(program) << program.error().to_string();
  for (const ProgramStep& step : program->steps) {
    if (!step.fusion) continue;
    for (const hlo::Shape& output : step.fusion->outputs()) EXPECT_LE(output.element_count(), 32 * 256);
  }
}

// --- sums of exponentials ---

/// log(Σ exp(x - b)) and softmax of rows, where b is the maximum as JAX has it: 0 where that is not finite.
std::string softmax_text(const std::vector<int64_t>& dims, bool guarded) {
  const std::vector<int64_t> kept(dims.begin(), dims.end() - 1);
  std::vector<int64_t> places(kept.size());
  for (size_t d = 0; d < places.size(); ++d) places[d] = static_cast<int64_t>(d);
  const std::string rows = fmt::format("[{}]", fmt::join(kept, ",")), all = fmt::format("[{}]", fmt::join(dims, ","));
  const std::string guard =
      guarded ? fmt::format(
                    "  fin = pred{0} is-finite(m)\n  zs = f32{0} broadcast(zero), dimensions={{}}\n  b = f32{0} "
                    "select(fin, m, zs)\n",
                    rows)
              : fmt::format("  b = f32{} copy(m)\n", rows);
  return fmt::format(
      "HloModule m\nplus {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}\nmost {{ a = "
      "f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(b, a) }}\nENTRY e {{\n  x = f32{0} "
      "parameter(0)\n  zero = f32[] constant(0)\n  least = f32[] constant(-inf)\n  m = f32{1} reduce(x, least), "
      "dimensions={{{2}}}, to_apply=most\n{3}  bs = f32{0} broadcast(b), dimensions={{{4}}}\n  c = f32{0} subtract(x, "
      "bs)\n  e = f32{0} exponential(c)\n  own = f32[] constant(0)\n  s = f32{1} reduce(e, own), dimensions={{{2}}}, "
      "to_apply=plus\n  l = f32{1} log(s)\n  ss = f32{0} broadcast(s), dimensions={{{4}}}\n  q = f32{0} divide(e, "
      "ss)\n  ROOT t = (f32{1}, f32{0}) tuple(l, q)\n}}\n",
      all, rows, dims.size() - 1, guard, fmt::join(places, ","));
}

/// One whose blocks keep rows of 1000 elements.
Target forgetful_target() {
  Target target = small_target();
  target.registers = 0;
  target.multiprocessor_shared_memory = 6048;
  return target;
}

TEST(SplitReductions, SumsOfExponentials) {
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{3, 40000}, {40000}, {2, 3, 32768}, {5, 20011}, {4, 512}}) {
    for (const bool guarded : {true, false}) {
      const std::string text = softmax_text(dims, guarded);
      SCOPED_TRACE(text);
      const auto module = hlo::parse_module(text);
      ASSERT_TRUE(module) << module.error().to_string();
      const hlo::Module changed = split_reductions(**module, forgetful_target());
      const auto verified = hlo::verify(changed);
      ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
      // Rows that fit, and whose length has no divisor, stay whole.
      const bool split = dims.back() != 512 && dims.back() != 20011;
      EXPECT_EQ(hlo::print(changed).find("part.exponentials") != std::string::npos, split) << hlo::print(changed);
      auto arguments = hlo::typical_arguments((*module)->entry_computation(), 1);
      std::vector<float> values(arguments[0].byte_size() / sizeof(float));
      std::memcpy(values.data(), arguments[0].bytes(), arguments[0].byte_size());
      const auto length = static_cast<size_t>(dims.back());
      Random random(2);
      for (float& value : values) value = static_cast<float>(random.uniform(-30, 30));
      // Masked elements, whole parts of them beside numbers far below 0; and a row without any number.
      constexpr float kNone = -std::numeric_limits<float>::infinity();
      for (size_t i = 0; i < length / 2; ++i) values[i] = kNone;
      for (size_t i = length / 2; i < length; ++i) values[i] -= 500;
      for (size_t i = length; guarded && i < std::min(values.size(), 2 * length); ++i) values[i] = kNone;
      std::memcpy(arguments[0].mutable_bytes(), values.data(), arguments[0].byte_size());
      const auto expected = hlo::evaluate(**module, arguments);
      ASSERT_TRUE(expected) << expected.error().to_string();
      const auto actual = hlo::evaluate(changed, arguments);
      ASSERT_TRUE(actual) << actual.error().to_string();
      EXPECT_EQ(hlo::difference(*actual, *expected, 64).value_or(""), "");
      EmitOptions options;
      options.target.multiprocessor_shared_memory = 6048;  // what a block may have stays as it is
      options.target.registers = 0;
      const auto program = emit_program(**module, options);
      ASSERT_TRUE(program) << program.error().to_string();
      const auto run = run_on_cpu(*program, arguments);
      ASSERT_TRUE(run) << run.error().to_string();
      EXPECT_EQ(hlo::difference(*run, *expected, 64).value_or(""), "");
    }
  }
}

TEST(SplitReductions, LongRowsAreReadTwice) {
  // Once for maxima and sums, once for the softmax.
  const std::string text = softmax_text({1024, 128256}, true);
  EXPECT_EQ(passes(text), 2) << programs(text);
}

}  // namespace
}  // namespace strata::emitters
