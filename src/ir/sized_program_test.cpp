#include "ir/sized_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/padding.h"
#include "ir/text.h"

namespace strata {
namespace {

using testing::HasSubstr;

const char* const kHeads = R"(graph heads {
  # the length of a prompt
  dim tokens = 16
  dim heads = 4  # of 64 each
  input X: f16[tokens, 64*heads]
  input W: f16[64*heads, 2*tokens + 1]
  Y = matmul(X, W) : f16[tokens, 2*tokens + 1]
  H = reshape(X, shape=[tokens, heads, 64]) : f16[tokens, heads, 64]
  T = transpose(H, perm=[1, 0, 2]) : f16[heads, tokens, 64]
  S = sum(T, dim=1, every=tokens) : f16[heads, 1, 64]
  M = scale(S, factor=1/tokens) : f16[heads, 1, 64]
  G = sum(X, dim=1, every=64) : f16[tokens, heads]
  L = slice(Y, dim=1, start=tokens, size=tokens + 1) : f16[tokens, tokens + 1]
  C = concat(X, G, dim=1) : f16[tokens, 65*heads]
  R = repeat(G, dim=0, times=heads) : f16[heads*tokens, heads]
  output M, L, C, R
}
)";

SizedProgram parsed(const std::string& text) {
  auto program = parse_program(text, "p");
  EXPECT_TRUE(program) << (program ? "" : program.error().to_string());
  return program.value_or(SizedProgram{});
}

TEST(SizedProgram, RoundTripsByteForByte) {
  const SizedProgram program = parsed(kHeads);
  EXPECT_EQ(print(program), kHeads);
  const std::string numbers = print(*program.graph);
  EXPECT_THAT(numbers, HasSubstr("L = slice(Y, dim=1, start=16, size=17) : f16[16, 17]"));
  EXPECT_EQ(print(parsed(numbers)), numbers);
}

TEST(SizedProgram, IsMadeAtOtherSizes) {
  const SizedProgram program = parsed(kHeads);
  for (const int64_t tokens : {1, 3, 16, 200}) {
    for (const int64_t heads : {1, 2, 5}) {
      const auto made = program.at({{"tokens", tokens}, {"heads", heads}});
      ASSERT_TRUE(made) << made.error().to_string();
      // The text with numbers in the place of the dims is the same program.
      std::string text = kHeads;
      text.replace(text.find("dim tokens = 16"), 15, fmt::format("dim tokens = {}", tokens));
      text.replace(text.find("dim heads = 4"), 13, fmt::format("dim heads = {}", heads));
      EXPECT_EQ(print(**made), print(*parsed(text).graph));
    }
  }
}

TEST(SizedProgram, ExpressionsAreExact) {
  const auto sizes = [](const std::string& expression) {
    return print(parsed("graph g {\n dim a = 8\n dim b = 4\n input X: f16[" + expression + "]\n output X\n}"));
  };
  EXPECT_THAT(sizes("a*2 - 3"), HasSubstr("[2*a - 3]"));
  EXPECT_THAT(sizes("a -1+b"), HasSubstr("[a + b - 1]"));
  EXPECT_THAT(sizes("a/2/4"), HasSubstr("[a/8]"));
  EXPECT_THAT(sizes("(a + b)*(a - b)"), HasSubstr("[a*a - b*b]"));
  EXPECT_THAT(sizes("a*b/b"), HasSubstr("[a]"));
  EXPECT_THAT(sizes("3/4*a"), HasSubstr("[3*a/4]"));
  EXPECT_THAT(sizes("64/b"), HasSubstr("[64/b]"));
}

TEST(SizedProgram, InputsTellTheSizes) {
  const SizedProgram program = parsed(kHeads);
  const Shape x{3, 128}, w{128, 7};
  const auto sizes = program.sizes_of(std::vector<Shape>{x, w});
  ASSERT_TRUE(sizes) << sizes.error().to_string();
  EXPECT_EQ(*sizes, (DimSizes{{"heads", 2}, {"tokens", 3}}));
  const auto error = [&](std::vector<Shape> shapes) {
    const auto found = program.sizes_of(shapes);
    return found ? "none" : found.error().message;
  };
  EXPECT_THAT(error({{3, 128}, {128, 9}}), HasSubstr("dimension 1 of input 'W' is 2*tokens + 1; got 9, and tokens=3"));
  EXPECT_THAT(error({{3, 100}, {100, 7}}), HasSubstr("no heads makes it 100"));
  EXPECT_THAT(error({{3, 128}}), HasSubstr("takes 2 inputs; got 1"));
  EXPECT_THAT(error({{3, 128}, {128, 7, 1}}), HasSubstr("input 'W' is [64*heads, 2*tokens + 1]"));
  // A product with a size that another input tells.
  const SizedProgram product =
      parsed("graph g {\n dim a = 8\n dim b = 4\n input X: f16[a*b]\n input Y: f16[b]\n output X, Y\n}");
  EXPECT_EQ(product.sizes_of(std::vector<Shape>{{12}, {3}}).value(), (DimSizes{{"a", 4}, {"b", 3}}));
}

struct BadProgram {
  const char* text;
  const char* message;
};

const BadProgram kBadPrograms[] = {
    {"dim n = 0\n input A: f16[n]", "2:10: error: n=0 is below 1"},
    {"dim n = 4\n dim n = 5\n input A: f16[n]", "3:6: error: the dim 'n' is named twice"},
    {"input A: f16[4]\n dim n = 4", "3:6: error: the dim 'n' comes after an input"},
    {"input A: f16[n]", "2:15: error: expected a dimension's size, found 'n'"},
    {"dim tokens = 4\n input A: f16[token]", "3:15: error: 'token' is no dim; did you mean 'tokens'?"},
    {"dim n = 5\n input A: f16[n/2]", "3:15: error: n/2 is 5/2, no whole number, where n=5"},
    {"dim n = 5\n input A: f16[1/(n + 1)]", "a size is divided by n + 1"},
    {"dim n = 4\n input A: f16[n]\n input B: f16[4]\n C = add(A, B)",
     "5:2: error: C = add: the sizes n and 4 are equal for some sizes only"},
    {"dim n = 4\n dim m = 4\n input A: f16[n, m]\n B = matmul(A, A)",
     "the sizes m and n are equal for some sizes only"},
    {"dim n = 4\n input A: f16[n]\n B = exp(A) : f16[4]", "4:15: error: 'B' is [n], not [4]"},
    {"dim n = 4\n input A: f16[n, 2]\n B = reshape(A, shape=[8])", "equal for some sizes only"},
    {"dim n = 4\n input A: f16[n]\n B = block(A, grid=[2]) {", "a program with dims has operators only"},
    {"dim n = 4\n input A: f16[((((((((((((((((((((((((((((((((((((((((n", "nested too deeply"},
    {"dim a = 1\n dim b = 1\n dim c = 1\n input A: f16[(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*"
     "(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)*(a+b+c)]",
     "a size has more than 128 terms"},
    {"dim n = 4\n input A: f16[9223372036854775807*n*n]", "a size does not fit 63 bits"},
};

TEST(SizedProgram, ErrorsNamePlaceAndExpectation) {
  for (const BadProgram& bad : kBadPrograms) {
    const auto program = parse_program(fmt::format("graph g {{\n {}\n output A\n}}", bad.text));
    ASSERT_FALSE(program) << bad.text;
    EXPECT_THAT(program.error().to_string(), HasSubstr(bad.message)) << bad.text;
    EXPECT_TRUE(program.error().location.known()) << bad.text;
    EXPECT_FALSE(program.error().remedy.empty()) << bad.text;
  }
}

TEST(SizedProgram, SizesThatDoNotFitAreErrors) {
  const SizedProgram program =
      parsed("graph g {\n dim n = 4\n input A: f16[n]\n B = sum(A, dim=0, every=2)\n output B\n}");
  EXPECT_THAT(program.at({{"n", 5}}).error().to_string(), HasSubstr("4:2: error: with n=5: B = sum"));
  EXPECT_THAT(program.at({{"m", 5}}).error().to_string(), HasSubstr("'g' has no dim 'm'"));
  EXPECT_THAT(program.at({{"n", 0}}).error().to_string(), HasSubstr("n=0 is below 1"));
}

std::string padding(const std::string& statements, const std::string& dim = "n") {
  const auto found = padding_of(parsed("graph g {\n dim n = 4\n dim k = 8\n " + statements + "\n}"), dim);
  return found ? std::string(name_of(*found)) : found.error().message;
}

TEST(Padding, IsByTheLastSliceWhereNothingIsReducedAlongTheSize) {
  EXPECT_EQ(padding("input X: f16[n, k]\n M = reduce_max(X, dim=1)\n S = div(X, M)\n output S"), "last");
  EXPECT_EQ(padding("input X: f16[n, k]\n input W: f16[k, 4]\n Y = matmul(X, W)\n output Y"), "last");
  EXPECT_EQ(padding("input X: f16[n, 2*k]\n R = reshape(X, shape=[n, 2, k])\n output R"), "last");
  EXPECT_EQ(padding("input X: f16[n, k]\n S = slice(X, dim=0, start=1, size=2)\n output S"), "last");
  EXPECT_EQ(padding("input X: f16[n, k]\n input Y: f16[n, 3]\n S = concat(X, Y, dim=1)\n output S"), "last");
}

TEST(Padding, IsByZerosInSumsOfProducts) {
  const std::string product = "input X: f16[n, k]\n input W: f16[k, 4]\n Y = matmul(X, W)\n output Y";
  EXPECT_EQ(padding(product, "k"), "zeros");
  EXPECT_EQ(padding("input X: f16[n, k]\n Q = sqr(X)\n S = sum(Q, dim=1)\n output S", "k"), "zeros");
  EXPECT_EQ(padding("input X: f16[n, k]\n input Y: f16[n, 1]\n D = div(X, Y)\n S = sum(D, dim=1)\n output S", "k"),
            "zeros");
  EXPECT_EQ(padding("input X: f16[n, k]\n input Y: f16[k]\n D = mul(X, Y)\n S = sum(D, dim=1)\n output S", "k"),
            "zeros");
}

TEST(Padding, ZerosStayThroughWhatKeepsThem) {
  const auto sum_of = [](const std::string& op) {
    return padding("input X: f16[n, k]\n F = " + op + "\n S = sum(F, dim=1)\n output S", "k");
  };
  for (const char* op : {"relu(X)", "gelu(X)", "silu(X)", "sqr(X)", "sqrt(X)", "scale(X, factor=3)", "add(X, X)"})
    EXPECT_EQ(sum_of(op), "zeros") << op;
  for (const char* op : {"exp(X)", "rsqrt(X)", "add_constant(X, value=1)", "div(X, X)"})
    EXPECT_THAT(sum_of(op), HasSubstr("cannot be padded")) << op;
}

TEST(Padding, IsRefusedWhereItWouldChangeResults) {
  // Softmax over padded keys.
  EXPECT_THAT(padding("input X: f16[n, k]\n E = exp(X)\n S = sum(E, dim=1)\n output S", "k"),
              HasSubstr("'k' cannot be padded at S = sum: it adds up what is computed of the padding"));
  EXPECT_THAT(padding("input X: f16[n, k]\n M = reduce_max(X, dim=1)\n output M", "k"),
              HasSubstr("could be the largest"));
  EXPECT_THAT(padding("input X: f16[n, k]\n S = sum(X, dim=1)\n M = scale(S, factor=1/k)\n output M", "k"),
              HasSubstr("its factor depends on the size"));
  EXPECT_THAT(padding("input X: f16[n, k]\n R = reshape(X, shape=[n*k])\n output R"), HasSubstr("regroups"));
  EXPECT_THAT(padding("input X: f16[n, k]\n C = concat(X, X, dim=0)\n output C"), HasSubstr("behind the padding"));
  EXPECT_THAT(padding("input X: f16[n, k]\n R = repeat(X, dim=0, times=2)\n output R"), HasSubstr("repeats"));
  EXPECT_THAT(padding("input X: f16[2*n, k]\n S = slice(X, dim=0, start=n, size=n)\n output S"), HasSubstr("depends"));
  EXPECT_THAT(padding("input X: f16[n, k]\n A = add_constant(X, value=1)\n S = sum(A, dim=1)\n output S", "k"),
              HasSubstr("not 0"));
  EXPECT_THAT(padding("input X: f16[n, k]\n S = sum(X, dim=1)\n D = div(S, X)\n Q = sum(D, dim=1)\n output Q", "k"),
              HasSubstr("divides by the padding"));
}

const char* const kCausal = R"(graph causal {
  dim tokens = 4
  dim heads = 2
  I = iota(dim=1, start=1) : f32[1, tokens, 1]
  input A: f32[heads, tokens, tokens]
  J = iota(dim=0) : f32[tokens]
  C = iota(dim=0, start=-9, step=0) : f32[heads, 1, 1]
  M = greater(I, J) : f32[1, tokens, tokens]
  S = select(M, A, C) : f32[heads, tokens, tokens]
  output S
}
)";

TEST(SizedProgram, IotasCountToTheEndOfASize) {
  const SizedProgram program = parsed(kCausal);
  EXPECT_EQ(print(program), kCausal);
  const auto larger = program.at({{"tokens", 6}});
  ASSERT_TRUE(larger) << larger.error().to_string();
  const TensorType& rows = (*larger)->type(*(*larger)->find_tensor("I"));
  EXPECT_EQ(to_string(rows), "iota(dim=1, start=1) : f32[1, 6, 1]");
  // They are no arguments, so they tell no sizes.
  EXPECT_EQ(program.sizes_of(std::vector<Shape>{{3, 5, 5}}).value(), (DimSizes{{"tokens", 5}, {"heads", 3}}));
  EXPECT_FALSE(program.sizes_of(std::vector<Shape>{{3, 5, 4}}));
  EXPECT_FALSE(program.at({{"tokens", 1 << 24}}));  // beyond what f32 counts
}

TEST(SizedProgram, IotasDependOnNoDimElse) {
  std::string text = kCausal;
  text.replace(text.find("start=1"), 7, "start=tokens");
  const auto refused = parse_program(text, "p");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_string(), HasSubstr("an iota's start depends on dims"));
}

// What a mask says of elements behind a size is nobody's result, but it may be undefined.
TEST(Padding, NothingIsPaddedAlongWhatCounts) {
  const auto counted = padding_of(parsed(kCausal), "tokens");
  ASSERT_FALSE(counted);
  EXPECT_THAT(counted.error().to_string(), HasSubstr("the iota 'I' goes on counting behind the size"));
  const auto repeated = padding_of(parsed(kCausal), "heads");
  ASSERT_TRUE(repeated) << repeated.error().to_string();
  EXPECT_EQ(*repeated, Fill::Last);
  // A constant is not 0 where an argument is filled with zeros: neither is its sum.
  const auto summed = [](const std::string& op) {
    return parsed("graph g {\n dim n = 4\n input A: f32[n, 8]\n C = iota(dim=1, start=3, step=0) : f32[n, 8]\n B = " +
                  op + "(A, C)\n S = sum(B, dim=0)\n output S\n}");
  };
  EXPECT_FALSE(padding_of(summed("add"), "n"));
}

}  // namespace
}  // namespace strata
