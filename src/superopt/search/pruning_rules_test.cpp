// The pruning rules against plain enumeration: what they remove is what they say.
#include <gtest/gtest.h>

#include "superopt/search/test_enumeration.h"

namespace strata {
namespace {

using Texts = std::set<std::string>;

struct RuleCase : SmallCase {
  bool every_map = true;  ///< whether there are few enough maps to try them all
  /// Parts of the texts of what the rules products and stability remove; what the others remove is nothing.
  const char* term_by_term = nullptr;
  const char* overflowing = nullptr;
};

class AgainstEnumeration : public testing::TestWithParam<RuleCase> {
 protected:
  Texts left_by(const PruningRules& rules) const {
    Texts left = all_;
    const auto remove = [&](const char* part) {
      if (part != nullptr) std::erase_if(left, [&](const auto& text) { return text.find(part) != std::string::npos; });
    };
    if (rules.products && rules.axes && rules.expression) remove(GetParam().term_by_term);  // which axes find
    if (rules.stability) remove(GetParam().overflowing);
    return left;
  }
  void expect_found(const PruningRules& rules, const std::string& which) const {
    if (!rules.maps && !GetParam().every_map) return;
    SCOPED_TRACE(which);
    const Texts expected = left_by(rules);
    const Texts found = GetParam().searched(rules);
    for (const std::string& graph : expected) EXPECT_TRUE(found.count(graph)) << "lost: " << graph;
    for (const std::string& graph : found) EXPECT_TRUE(expected.count(graph)) << "should not be there: " << graph;
  }
  const Texts all_ = GetParam().enumerated();
};

TEST_P(AgainstEnumeration, AllRulesOn) {
  PruningRules rules;
  rules.sizes = false;
  expect_found(rules, "all on");
  for (const char* part : {GetParam().term_by_term, GetParam().overflowing}) {
    if (part != nullptr) {
      EXPECT_LT(left_by(rules).size(), all_.size()) << "nothing has " << part;
    }
  }
}

using Launches = std::vector<LaunchShape>;

INSTANTIATE_TEST_SUITE_P(
    Programs, AgainstEnumeration,
    testing::Values(
        RuleCase{{"scaled_product",
                  "graph g {\n input A: f32[4, 6]\n input B: f32[6, 10]\n P = matmul(A, B)\n O = scale(P, "
                  "factor=1/3)\n output O\n}",
                  3, Launches{{{2}, 1, 0}, {{2}, 2, 0}, {{1}, 2, 0}, {{2, 2}, 1, 0}}}},
        RuleCase{{"normalise",
                  "graph g {\n input X: f32[4, 6]\n E = exp(X)\n S = sum(E, dim=1)\n O = div(E, S)\n output O\n}", 4,
                  Launches{{{2}, 1, 0}, {{4}, 1, 0}, {{2}, 2, 0}}}},
        RuleCase{{"gate",
                  "graph g {\n input X: f32[4, 6]\n input Y: f32[4, 6]\n S = silu(X)\n O = mul(S, Y)\n output O\n}", 3,
                  Launches{{{2}, 1, 0}, {{2}, 2, 0}, {{2, 3}, 1, 0}}}},
        RuleCase{{"distribute",
                  "graph g {\n input A: f32[4, 6]\n input B: f32[4, 6]\n input C: f32[4, 6]\n S = add(A, B)\n O = "
                  "mul(S, C)\n output O\n}",
                  3, Launches{{{2}, 1, 0}, {{3}, 1, 0}}},
                 false},
        RuleCase{{"product_of_sums",
                  "graph g {\n input A: f32[12]\n input B: f32[12]\n input C: f32[12]\n S = add(A, B)\n T = add(A, C)\n"
                  " O = mul(S, T)\n output O\n}",
                  4, Launches{{{2}, 1, 0}}},
                 true,
                 "add(mul("},
        RuleCase{{"below_maximum",
                  "graph g {\n input X: f32[4, 6]\n M = reduce_max(X, dim=1)\n D = sub(X, M)\n O = exp(D)\n output "
                  "O\n}",
                  4,
                  Launches{{{2}, 1, 0}, {{4}, 1, 0}},
                  {OpKind::Div}},
                 true,
                 nullptr,
                 "exp(in_iter(X))"}),
    [](const auto& small) { return std::string(small.param.name); });

/// Graphs of more kernels than can pay are not searched, and the cheapest is the same.
TEST(Cost, NeverLosesTheCheapestGraph) {
  int64_t more = 0;
  for (const char* text :
       {"graph g {\n input X: f32[256, 32]\n E = exp(X)\n S = sum(E, dim=1)\n O = div(E, S)\n output O\n}",
        "graph g {\n input A: f16[256, 128]\n input B: f16[128, 256]\n P = matmul(A, B)\n O = silu(P)\n output O\n}",
        "graph g {\n input A: f16[16, 64]\n input B: f16[64, 64]\n input C: f16[64, 64]\n P = matmul(A, B)\n"
        " O = matmul(P, C)\n output O\n}",
        "graph g {\n input X: f32[4096, 8]\n S = sum(X, dim=0)\n O = sqrt(S)\n output O\n}"}) {
    SCOPED_TRACE(text);
    const auto program = parse_graph(text);
    ASSERT_TRUE(program) << program.error().to_string();
    SearchOptions options;
    options.target = &targets().back();
    options.threads = 2;
    options.max_kernel_ops = 3;
    options.max_block_ops = 5;
    options.time_limit = 0;
    const auto on = search(*program, options);
    options.rules.cost = false;
    const auto off = search(*program, options);
    ASSERT_TRUE(on && off);
    ASSERT_FALSE(on->graphs.empty());
    EXPECT_EQ(print(*on->graphs.front()), print(*off->graphs.front()));
    EXPECT_LE(on->statistics.spaces_searched, off->statistics.spaces_searched);
    more += off->statistics.spaces_searched - on->statistics.spaces_searched;
  }
  EXPECT_GT(more, 0);
}

}  // namespace
}  // namespace strata
