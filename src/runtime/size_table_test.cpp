#include "runtime/size_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interpret/interpret.h"
#include "interpret/typical_inputs.h"

namespace strata {
namespace {

using testing::HasSubstr;

SizeTable table_of(const std::string& program, const std::vector<std::pair<DimSizes, double>>& entries) {
  SizeTable table;
  auto parsed = parse_program(program);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().to_string());
  if (!parsed) return table;
  table.program = *parsed;
  for (const auto& [sizes, seconds] : entries) table.entries.push_back({sizes, to_string(sizes), seconds, "searched"});
  return table;
}

const char* const kProduct = R"(graph g {
  dim n = 4
  dim k = 8
  input X: f16[n, k]
  input W: f16[k, 4]
  Y = matmul(X, W)
  output Y
})";

const char* const kSoftmax = R"(graph s {
  dim n = 4
  dim k = 8
  input X: f16[n, k]
  E = exp(X)
  S = sum(E, dim=1)
  output S
})";

TEST(SizeTable, RoundTrips) {
  const SizeTable table = table_of(kProduct, {{{{"k", 8}, {"n", 4}}, 1e-6}, {{{"k", 8}, {"n", 16}}, 2e-6}});
  const std::string text = print(table);
  const auto read = parse_size_table(text, "sizes.json");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(print(*read), text);
}

TEST(SizeTable, WhatIsReadIsChecked) {
  const std::string text = print(table_of(kProduct, {{{{"k", 8}, {"n", 4}}, 1e-6}}));
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    const auto read = parse_size_table(changed, "t/sizes.json");
    return read ? "none" : read.error().to_string();
  };
  EXPECT_THAT(error("\"format\": 1", "\"format\": 2"), HasSubstr("its format is not 1"));
  EXPECT_THAT(error("k=8, n=4", "../x"), HasSubstr("is no name of a folder"));
  EXPECT_THAT(error("k=8, n=4", ".."), HasSubstr("is no name of a folder"));
  EXPECT_THAT(error("\"n\": 4", "\"m\": 4"), HasSubstr("the program has no sizes"));
  EXPECT_THAT(error("matmul", "matmal"), HasSubstr("unknown operator 'matmal'"));
  EXPECT_THAT(error("entries", "entires"), HasSubstr("'t/sizes.json' is no table of sizes"));
}

TEST(SizeTable, DispatchesToTheCheapestThatServes) {
  const SizeTable table = table_of(kProduct, {{{{"k", 8}, {"n", 4}}, 3e-6},
                                              {{{"k", 8}, {"n", 8}}, 2e-6},
                                              {{{"k", 8}, {"n", 16}}, 4e-6},
                                              {{{"k", 16}, {"n", 8}}, 1e-6}});
  const auto entry = [&](int64_t n, int64_t k) {
    const auto chosen = dispatch(table, {{"n", n}, {"k", k}});
    return chosen ? to_string(table.entries[chosen->entry].sizes) + " " + describe(table, *chosen)
                  : chosen.error().message;
  };
  EXPECT_EQ(entry(4, 8), "k=8, n=4 ");
  EXPECT_EQ(entry(16, 8), "k=8, n=16 ");
  EXPECT_EQ(entry(3, 8), "k=16, n=8 k=8 as 16, padded with zeros; n=3 as 8, padded with the last slice");
  EXPECT_EQ(entry(9, 7), "k=8, n=16 k=7 as 8, padded with zeros; n=9 as 16, padded with the last slice");
  EXPECT_THAT(entry(17, 8), HasSubstr("k=8, n=17 is beyond the table of 'g'"));
  EXPECT_THAT(entry(16, 16), HasSubstr("beyond"));
}

TEST(SizeTable, PaddingThatChangesResultsIsRefused) {
  const SizeTable table = table_of(kSoftmax, {{{{"k", 8}, {"n", 4}}, 3e-6}});
  EXPECT_TRUE(dispatch(table, {{"n", 3}, {"k", 8}}));
  const auto refused = dispatch(table, {{"n", 3}, {"k", 7}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_string(), HasSubstr("adds up what is computed of the padding"));
  EXPECT_THAT(refused.error().to_string(), HasSubstr("its entries are k=8, n=4"));
}

/// A program of random operators over [n, k], of which each padding is right or refused.
class RandomProgram {
 public:
  explicit RandomProgram(Random& random) : random_(random) {
    text_ =
        "graph r {\n dim n = 4\n dim k = 8\n input X: f64[n, k]\n input Y: f64[n, k]\n input G: f64[k]\n "
        "input C: f64[n, 1]\n input W: f64[k, 3]\n";
    values_ = {{"X", "nk"}, {"Y", "nk"}, {"G", "k"}, {"C", "n1"}};
    const size_t operators = 2 + random.below(5);
    for (size_t i = 0; i < operators; ++i) add();
    text_ += " output " + values_.back().first + "\n}\n";
  }
  const std::string& text() const { return text_; }

 private:
  using Named = std::pair<std::string, std::string>;  // a value, and what its dimensions are
  const Named& any() { return values_[values_.size() - 1 - random_.below(std::min<size_t>(values_.size(), 4))]; }
  void let(const std::string& shape, const std::string& value) {
    const std::string name = fmt::format("v{}", values_.size());
    text_ += fmt::format(" {} = {}\n", name, value);
    values_.emplace_back(name, shape);
  }
  void add() {
    const Named x = any();
    const std::array<const char*, 9> unary{"exp({})",
                                           "sqr({})",
                                           "relu({})",
                                           "gelu({})",
                                           "silu({})",
                                           "scale({}, factor=1/3)",
                                           "add_constant({}, value=1/2)",
                                           "scale({}, factor=1/k)",
                                           "scale({}, factor=-1)"};
    switch (random_.below(8)) {
      case 0:
      case 1:
        return let(x.second, fmt::format(fmt::runtime(unary[random_.below(unary.size())]), x.first));
      case 2:
      case 3: {
        const std::array<const char*, 4> binary{"add", "mul", "sub", "max"};
        const Named y = any();
        if (x.second != y.second && x.second != "nk" && y.second != "nk") return;
        return let(x.second == y.second ? x.second : "nk",
                   fmt::format("{}({}, {})", binary[random_.below(binary.size())], x.first, y.first));
      }
      case 4:
        if (x.second == "nk") let("n1", fmt::format("sum({}, dim=1)", x.first));
        return;
      case 5:
        if (x.second == "nk") let("n1", fmt::format("reduce_max({}, dim=1)", x.first));
        return;
      case 6: {
        if (x.second != "nk") return;
        const std::string moved = fmt::format("t{}", values_.size());
        text_ += fmt::format(" {} = transpose({}, perm=[1, 0])\n", moved, x.first);
        text_ += fmt::format(" {}r = reshape({}, shape=[k, n, 1])\n {}q = reshape({}r, shape=[k, n])\n", moved, moved,
                             moved, moved);
        return let("nk", fmt::format("transpose({}q, perm=[1, 0])", moved));
      }
      default: {
        if (x.second != "nk") return;
        const std::string product = fmt::format("p{}", values_.size());
        text_ += fmt::format(" {} = matmul({}, W)\n", product, x.first);
        return let("n1", fmt::format("slice({}, dim=1, start=1, size=1)", product));
      }
    }
  }

  Random& random_;
  std::string text_;
  std::vector<Named> values_;
};

std::vector<Tensor<double>> run(const GraphPtr& graph, const std::vector<Tensor<double>>& inputs) {
  Float64Arithmetic arithmetic{};
  return execute(*graph, arithmetic, inputs).value();
}

TEST(SizeTable, RandomProgramsGiveTheSameResultsWherePaddingIsAllowed) {
  Random random(7);
  std::map<std::string, int> counts;
  for (int i = 0; i < 600; ++i) {
    const std::string text = RandomProgram(random).text();
    const SizeTable table = table_of(text, {{{{"k", 8}, {"n", 8}}, 1e-6}});
    for (const std::string dim : {"n", "k"}) {
      const auto fill = padding_of(table.program, dim);
      ++counts[dim + " " + (fill ? std::string(name_of(*fill)) : "refused")];
      if (!fill) continue;
      DimSizes sizes{{"k", 8}, {"n", 8}};
      sizes[dim] = 1 + static_cast<int64_t>(random.below(7));
      const auto chosen = dispatch(table, sizes);
      ASSERT_TRUE(chosen) << chosen.error().to_string();
      const GraphPtr small = table.program.at(sizes).value();
      const GraphPtr large = table.program.at(table.entries[0].sizes).value();
      std::vector<Tensor<double>> inputs = typical_inputs(*small, 3);
      std::vector<Tensor<double>> wide;
      for (size_t n = 0; n < inputs.size(); ++n)
        wide.push_back(padded(table, *chosen, small->inputs()[n], inputs[n]).value());
      const Tensor<double> expected = run(small, inputs)[0];
      const Tensor<double> found = cut(table, *chosen, small->outputs()[0], run(large, wide)[0]).value();
      ASSERT_EQ(found.shape, expected.shape) << text;
      for (int64_t e = 0; e < found.size(); ++e)
        ASSERT_NEAR(found[e], expected[e], 1e-9 * (1 + std::abs(expected[e])))
            << text << dim << " " << to_string(sizes);
    }
  }
  // Each answer is given often.
  for (const char* answer : {"n last", "k last", "k zeros", "k refused"}) EXPECT_GT(counts[answer], 10) << answer;
}

}  // namespace
}  // namespace strata
