// Products of 16-bit numbers whose rows are no multiples of 16 bytes.
#include "emitters/library/padded_products.h"

#include <gtest/gtest.h>

#include "emitters/library/test_library_calls.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

template <typename T>
T any_of(Random& random, std::initializer_list<T> of) {
  return std::data(of)[random.below(of.size())];
}

class PaddedProductsTest : public LibraryCallsTest {
 protected:
  void SetUp() override {
    LibraryCallsTest::SetUp();
    // Where copies cost nothing, and kernels of products too much.
    cheap_.rates.overlapped_kernel = cheap_.rates.kernel = 0;
    cheap_.rates.copy_bandwidth *= 1e6;
    cheap_.rates.scalar_rate *= 1e-4;
  }

  /// Makes a module's products longer, and compares it with the interpreter; counts products that are.
  void check(const std::string& text, uint64_t seed, double slack = 4) {
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr);
    const hlo::Module changed = with_padded_products(*module, cheap_, LibraryUse::WherePossible);
    for (const hlo::Instruction& it : changed.entry_computation().instructions) {
      if (it.opcode != hlo::Opcode::Dot) continue;
      const auto& operand = changed.entry_computation().operand_shape(it, 0);
      const auto is_whole = [](const hlo::Shape& shape) { return shape.dims.back() % 8 == 0; };
      filled_ += is_whole(operand) && is_whole(changed.entry_computation().operand_shape(it, 1)) && is_whole(it.shape);
      ++products_;
    }
    const auto arguments = hlo::typical_arguments(module->entry_computation(), seed);
    const auto expected = hlo::evaluate(*module, arguments), actual = hlo::evaluate(changed, arguments);
    ASSERT_TRUE(expected && actual);
    ASSERT_EQ(hlo::difference(*actual, *expected, 1), std::nullopt) << text << hlo::print(changed);
    ASSERT_EQ(checked(changed, seed, slack), "") << text << explained_;
    all_libraries_ += libraries_;
  }

  Target cheap_ = targets().back();
  int64_t filled_ = 0, products_ = 0, all_libraries_ = 0;
};

/// Of more rows and columns than the kernels of few rows take.
std::string odd_product(Random& random) {
  const std::string type = any_of<const char*>(random, {"bf16", "f16"});
  const std::string result_type = random.below(2) == 0 ? "f32" : type;
  const auto batch = any_of<int64_t>(random, {1, 5}), m = any_of<int64_t>(random, {68, 72, 71}),
             n = any_of<int64_t>(random, {72, 73, 75}), k = any_of<int64_t>(random, {64, 67, 77});
  const bool by_terms = random.below(2) == 0, by_columns = random.below(2) == 0, is_last = random.below(3) == 0;
  std::string text = "HloModule m\n\nENTRY e {\n";
  text += fmt::format("  x = {}[{},{},{}] parameter(0)\n", type, batch, by_terms ? k : m, by_terms ? m : k);
  text += fmt::format("  y = {}[{},{},{}] parameter(1)\n", type, batch, by_columns ? n : k, by_columns ? k : n);
  text += fmt::format(
      "  {}d = {}[{},{},{}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{{}}}, "
      "rhs_contracting_dims={{{}}}\n",
      is_last ? "ROOT " : "", result_type, batch, m, n, by_terms ? 1 : 2, by_columns ? 2 : 1);
  if (!is_last) text += fmt::format("  ROOT e = {}[{},{},{}] exponential(d)\n", result_type, batch, m, n);
  return text + "}\n";
}

TEST_F(PaddedProductsTest, RandomOnesAreThoseOfTheInterpreter) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Random random(seed);
    ASSERT_NO_FATAL_FAILURE(check(odd_product(random), seed));
  }
  EXPECT_GE(filled_, 6);
  EXPECT_EQ(all_libraries_, 8);
}

/// Two products, and between them what one kernel or several compute: normalised rows, sums along rows and columns, in
/// dimensions that are one in memory, and perhaps also read otherwise.
std::string products_around_kernels(Random& random) {
  const std::string type = any_of<const char*>(random, {"bf16", "f16", "f32"});
  const std::string precision = type == "f32" ? ", algorithm=dot_tf32_tf32_f32" : "";
  const bool two = random.below(2) == 0;  // dimensions of keys
  const auto b = any_of<int64_t>(random, {1, 3}), q = any_of<int64_t>(random, {40, 41});
  const std::vector<int64_t> keys =
      two ? std::vector<int64_t>{7, 11} : std::vector<int64_t>{any_of<int64_t>(random, {77, 79, 80})};
  const auto sizes = [&](std::vector<int64_t> before, std::vector<int64_t> after = {}) {
    before.insert(before.end(), keys.begin(), keys.end());
    before.insert(before.end(), after.begin(), after.end());
    return fmt::format("[{}]", fmt::join(before, ","));
  };
  const std::string scores = sizes({b, q}), key_dims = two ? "2,3" : "2";
  std::string text =
      "HloModule m\n\nmost {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT m = f32[] maximum(a, "
      "b)\n}\n\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
      "ENTRY e {\n";
  const auto line = [&](const std::string& name, const std::string& shape, const std::string& of) {
    text += fmt::format("  {} = {} {}\n", name, shape, of);
    return name;
  };
  line("x", fmt::format("{}[{},{},24]", type, b, q), "parameter(0)");
  line("k", type + sizes({b}, {24}), "parameter(1)");
  line("v", type + sizes({b}, {24}), "parameter(2)");
  const std::string terms = two ? "3" : "2";
  std::string last =
      line("d", "f32" + scores,
           fmt::format("dot(x, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
                       "rhs_contracting_dims={{{}}}{}",
                       terms, precision));
  line("low", "f32[]", "constant(-inf)");
  line("zero", "f32[]", "constant(0)");
  const std::string rows = fmt::format("f32[{},{}]", b, q);
  if (random.below(2) == 0) {
    line("mask", "f32" + sizes({q}), "parameter(3)");
    line("masks", "f32" + scores, fmt::format("broadcast(mask), dimensions={{1,{}}}", key_dims));
    last = line("masked", "f32" + scores, "add(" + last + ", masks)");
  }
  if (random.below(2) == 0) {
    line("top", rows, fmt::format("reduce({}, low), dimensions={{{}}}, to_apply=most", last, key_dims));
    line("tops", "f32" + scores, "broadcast(top), dimensions={0,1}");
    last = line("less", "f32" + scores, "subtract(" + last + ", tops)");
  }
  last = line("exp", "f32" + scores, "tanh(" + last + ")");
  if (random.below(2) == 0) {
    line("rows", rows, fmt::format("reduce({}, zero), dimensions={{{}}}, to_apply=sum", last, key_dims));
    line("all", "f32" + scores, "broadcast(rows), dimensions={0,1}");
    last = line("part", "f32" + scores, "multiply(" + last + ", all)");
  }
  if (random.below(2) == 0) {  // sums along the other dimension
    line("columns", "f32" + sizes({b}), fmt::format("reduce({}, zero), dimensions={{1}}, to_apply=sum", last));
    line("each", "f32" + scores, fmt::format("broadcast(columns), dimensions={{0,{}}}", key_dims));
    last = line("both", "f32" + scores, "add(" + last + ", each)");
  }
  if (type != "f32") last = line("p", type + scores, "convert(" + last + ")");
  const std::string other = random.below(3) == 0 ? last : "";
  const std::string contracted = two ? "1,2" : "1";
  line("o", fmt::format("{}[{},{},24]", type, b, q),
       fmt::format("dot({}, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{{}}}, "
                   "rhs_contracting_dims={{{}}}{}",
                   last, key_dims, contracted, precision));
  const std::string result = fmt::format("{}[{},{},24]", type, b, q);
  if (other.empty()) return text + fmt::format("  ROOT n = {} negate(o)\n}}\n", result);
  return text + fmt::format("  ROOT r = ({}, {}) tuple(o, {})\n}}\n", result, type + scores, other);
}

TEST_F(PaddedProductsTest, RandomKernelsBetweenThemAreThoseOfTheInterpreter) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    const std::string text = products_around_kernels(random);
    // TF32 has 13 bits fewer than f32, to which results are rounded.
    const double slack = text.find("tf32") == std::string::npos ? 4 : 4 << 13;
    ASSERT_NO_FATAL_FAILURE(check(text, seed, slack)) << seed;
  }
  EXPECT_EQ(products_, 20);
  EXPECT_GE(filled_, 14);
  EXPECT_EQ(all_libraries_, 20);
}

std::string scores(const std::string& type, int64_t positions) {
  return fmt::format(
      "HloModule m\n\nENTRY e {{\n  q = {0}[36,{1},128] parameter(0)\n  k = {0}[36,{1},128] parameter(1)\n"
      "  s = {0}[36,{1},{1}] dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
      "rhs_contracting_dims={{2}}\n  ROOT e = {0}[36,{1},{1}] exponential(s)\n}}\n",
      type, positions);
}

/// What the model finds worth a copy: scores of an odd number of positions, read by a kernel; and products by weights
/// of an odd number of columns, whose other operand is large and lies well.
TEST_F(PaddedProductsTest, WhereItIsWorthACopy) {
  EXPECT_EQ(explained_work(scores("bf16", 777)), "kernel; 36 of bf16 777×784×128, algorithm 0; kernel; ");
  // A matrix for all of many, of whose columns there is an odd number, is filled up once.
  EXPECT_EQ(explained_work(R"(HloModule m

ENTRY e {
  x = bf16[5,97,131,64] parameter(0)
  w = bf16[131,300] parameter(1)
  d = bf16[300,5,97,64] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={2}
  t = bf16[5,97,300,64] transpose(d), dimensions={1,2,0,3}
  ROOT e = bf16[5,97,300,64] exponential(t)
}
)"),
            "kernel; 485 of bf16 304×64×131, algorithm 0; kernel; ");
}

/// A gradient of weights with an odd number of columns, as JAX writes it: the product of its operands exchanged.
TEST_F(PaddedProductsTest, ResultsLieAsTheyAreRead) {
  const auto gradient = [](std::string_view read) {
    return fmt::format(R"(HloModule m

ENTRY e {{
  x = bf16[1167,4780] parameter(0)
  y = bf16[1167,896] parameter(1)
  n = bf16[1167,4780] negate(x)
  d = bf16[4780,896] dot(n, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  {}
}}
)",
                       read);
  };
  EXPECT_EQ(explained_work(gradient("t = bf16[896,4780] transpose(d), dimensions={1,0}\n"
                                    "  ROOT e = bf16[896,4780] negate(t)")),
            "kernel; bf16 896×4784×1167, algorithm 0; kernel; ");
  EXPECT_EQ(explained_work(gradient("ROOT e = bf16[4780,896] negate(d)")),
            "kernel; bf16 4784×896×1167, algorithm 0; kernel; ");
}

TEST_F(PaddedProductsTest, OthersStay) {
  EXPECT_EQ(explained_work(scores("bf16", 776)), "36 of bf16 776×776×128, algorithm 0; kernel; ");
  EXPECT_EQ(explained_work(scores("f32", 777)), "36 of f32 777×777×128, algorithm 0; kernel; ");
  for (const auto& text : {scores("bf16", 776), scores("f32", 777), scores("bf16", 9)}) {
    const hlo::ModulePtr module = parsed(text);
    EXPECT_EQ(hlo::print(with_padded_products(*module, targets().front(), LibraryUse::WhereFaster)),
              hlo::print(*module));
  }
}

/// The kernel that normalises scores writes rows of 784 for the second product, whose result is no longer than before.
TEST_F(PaddedProductsTest, KernelsWriteLongRows) {
  const auto attention = [](int64_t positions) {
    return fmt::format(R"(HloModule m

most {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}}

sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

ENTRY e {{
  q = bf16[36,{0},128] parameter(0)
  k = bf16[36,{0},128] parameter(1)
  v = bf16[36,{0},128] parameter(2)
  s = f32[36,{0},{0}] dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{2}}
  low = f32[] constant(-inf)
  top = f32[36,{0}] reduce(s, low), dimensions={{2}}, to_apply=most
  tops = f32[36,{0},{0}] broadcast(top), dimensions={{0,1}}
  less = f32[36,{0},{0}] subtract(s, tops)
  exp = f32[36,{0},{0}] exponential(less)
  zero = f32[] constant(0)
  all = f32[36,{0}] reduce(exp, zero), dimensions={{2}}, to_apply=sum
  alls = f32[36,{0},{0}] broadcast(all), dimensions={{0,1}}
  part = f32[36,{0},{0}] divide(exp, alls)
  p = bf16[36,{0},{0}] convert(part)
  ROOT o = bf16[36,{0},128] dot(p, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{1}}
}}
)",
                       positions);
  };
  EXPECT_EQ(explained_work(attention(776)),
            "36 of bf16 to f32 776×776×128, algorithm 0; kernel; 36 of bf16 776×128×776, algorithm 0; ");
  EXPECT_EQ(
      explained_work(attention(777)),
      "kernel; 36 of bf16 to f32 777×784×128, algorithm 0; kernel; kernel; 36 of bf16 777×128×784, algorithm 0; ");
}

/// What is computed of a product's longer rows stays the library's; weights are copied.
TEST_F(PaddedProductsTest, EpiloguesStay) {
  EXPECT_EQ(explained_work(R"(HloModule m

ENTRY e {
  x = bf16[1803,1152] parameter(0)
  up = bf16[1152,4001] parameter(1)
  down = bf16[4001,1152] parameter(2)
  h = bf16[1803,4001] dot(x, up), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = bf16[] constant(0)
  zeros = bf16[1803,4001] broadcast(zero), dimensions={}
  r = bf16[1803,4001] maximum(h, zeros)
  s = bf16[1803,4001] multiply(r, r)
  ROOT o = bf16[1803,1152] dot(s, down), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)"),
            "kernel; bf16 1803×4008×1152 and relu, algorithm 0; kernel; kernel; bf16 1803×1152×4008, algorithm 0; ");
}

}  // namespace
}  // namespace strata::emitters
