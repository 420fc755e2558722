// Each pruning rule against plain enumeration, off alone and on alone: what it removes is what it says.
#include <gtest/gtest.h>

#include "superopt/optimize/cost.h"
#include "superopt/search/test_enumeration.h"

namespace strata {
namespace {

using Launches = std::vector<LaunchShape>;
using Texts = std::set<std::string>;
/// Graphs whose text has all of these; where it is empty, none.
using Parts = std::vector<std::string>;

constexpr PruningRules kNone{false, false, false, false, false, false, false};

struct Rule {
  const char* name;
  bool PruningRules::*on;
  std::vector<bool PruningRules::*> goes_by;  ///< other rules, without which it does nothing
};

/// All but `sizes`, which has a test below, and `expression`: without it a search of three operators has more values
/// than memory, so it is off in a search of two.
std::vector<Rule> rules_to_turn() {
  using R = PruningRules;
  return {{"maps", &R::maps, {}},
          {"axes", &R::axes, {&R::maps}},
          {"products", &R::products, {&R::maps, &R::axes}},
          {"cost", &R::cost, {}},
          {"stability", &R::stability, {}}};
}

struct NamedRules {
  std::string name;
  PruningRules rules;
};

std::vector<NamedRules> each_off_and_on_alone() {
  PruningRules all;
  all.sizes = false;
  PruningRules none = kNone;
  none.expression = true;
  std::vector<NamedRules> sets{{"all on", all}, {"all off", none}};
  for (const Rule& rule : rules_to_turn()) {
    PruningRules off = all;
    off.*rule.on = false;
    sets.push_back({fmt::format("{} off", rule.name), off});
    PruningRules on = none;
    on.*rule.on = true;
    for (bool PruningRules::*other : rule.goes_by) on.*other = true;
    sets.push_back({fmt::format("{} on", rule.name), on});
  }
  return sets;
}

/// With what each rule removes.
struct RuleCase {
  SmallCase small;
  Parts unprovable{};     ///< `expression`
  Parts two_axes{};       ///< `maps`
  Parts term_by_term{};   ///< `products`
  Parts overflowing{};    ///< `stability`
  bool one_axis = false;  ///< which is all that values can have, so that `axes` tells nothing apart
  bool every_map = true;  ///< whether there are few enough maps to try them all
};

void remove(const Parts& parts, Texts& from) {
  if (parts.empty()) return;
  const size_t removed = std::erase_if(from, [&](const std::string& text) {
    return std::all_of(parts.begin(), parts.end(), [&](auto& part) { return text.find(part) != std::string::npos; });
  });
  EXPECT_GT(removed, 0U) << "nothing has " << parts.front();
}

void expect_same(const Texts& expected, const Texts& found) {
  for (const std::string& graph : expected) EXPECT_TRUE(found.count(graph)) << "lost: " << graph;
  for (const std::string& graph : found) EXPECT_TRUE(expected.count(graph)) << "should not be there: " << graph;
}

class AgainstEnumeration : public testing::TestWithParam<RuleCase> {
 protected:
  Texts left_by(const PruningRules& rules) const {
    Texts left = all_;
    if (rules.expression) remove(GetParam().unprovable, left);
    if (rules.maps) remove(GetParam().two_axes, left);
    if (rules.products && rules.axes && rules.maps && rules.expression) remove(GetParam().term_by_term, left);
    if (rules.stability) remove(GetParam().overflowing, left);
    return left;
  }
  const Texts all_ = GetParam().small.enumerated();
};

TEST_P(AgainstEnumeration, EachRuleRemovesWhatItSays) {
  std::map<std::string, int64_t> tried;
  for (const auto& [name, rules] : each_off_and_on_alone()) {
    if (!rules.maps && !GetParam().every_map) continue;
    SCOPED_TRACE(name);
    const auto found = GetParam().small.searched(rules);
    expect_same(left_by(rules), found.graphs);
    tried[name] = found.statistics.generated;
  }
  // What loses nothing has to save something.
  if (!GetParam().one_axis) {
    EXPECT_LT(tried.at("all on"), tried.at("axes off"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, AgainstEnumeration,
    testing::Values(
        RuleCase{
            .small = {.name = "scaled_product",
                      .text = "graph g {\n input A: f32[4, 6]\n input B: f32[6, 10]\n P = matmul(A, B)\n O = scale(P, "
                              "factor=1/3)\n output O\n}",
                      .max_ops = 3,
                      .launches = {{{2}, 1, 0}, {{2}, 2, 0}, {{1}, 2, 0}, {{2, 2}, 1, 0}}}},
        RuleCase{
            .small =
                {.name = "normalise",
                 .text =
                     "graph g {\n input X: f32[4, 6]\n E = exp(X)\n S = sum(E, dim=1)\n O = div(E, S)\n output O\n}",
                 .max_ops = 4,
                 .launches = {{{2}, 1, 0}, {{4}, 1, 0}, {{2}, 2, 0}}}},
        RuleCase{
            .small =
                {.name = "gate",
                 .text =
                     "graph g {\n input X: f32[4, 6]\n input Y: f32[4, 6]\n S = silu(X)\n O = mul(S, Y)\n output O\n}",
                 .max_ops = 3,
                 .launches = {{{2}, 1, 0}, {{2}, 2, 0}, {{2, 3}, 1, 0}}}},
        RuleCase{
            .small = {.name = "distribute",
                      .text =
                          "graph g {\n input A: f32[4, 6]\n input B: f32[4, 6]\n input C: f32[4, 6]\n S = add(A, B)\n"
                          " O = mul(S, C)\n output O\n}",
                      .max_ops = 3,
                      .launches = {{{2}, 1, 0}, {{3}, 1, 0}}},
            .every_map = false},
        RuleCase{
            .small = {.name = "two_sums",
                      .text = "graph g {\n input X: f32[8]\n input Y: f32[12]\n S = sum(X, dim=0)\n T = sum(Y, dim=0)\n"
                              " O = add(S, T)\n output O\n}",
                      .max_ops = 4,
                      .launches = {{{1}, 1, 0}, {{1}, 2, 0}}},
            .two_axes = {"X fmap=0", "Y fmap=0"}},
        RuleCase{
            .small = {.name = "product_of_sums",
                      .text = "graph g {\n input A: f32[12]\n input B: f32[12]\n input C: f32[12]\n S = add(A, B)\n"
                              " T = add(A, C)\n O = mul(S, T)\n output O\n}",
                      .max_ops = 4,
                      .launches = {{{2}, 1, 0}}},
            .term_by_term = {"add(mul("}},
        RuleCase{
            .small = {.name = "below_maximum",
                      .text = "graph g {\n input X: f32[4, 6]\n M = reduce_max(X, dim=1)\n D = sub(X, M)\n O = exp(D)\n"
                              " output O\n}",
                      .max_ops = 4,
                      .launches = {{{2}, 1, 0}, {{4}, 1, 0}},
                      .more_kinds = {OpKind::Div}},
            .unprovable = {"div(exp(in_iter(X))"}},  // exp(X) / exp(M): the axioms cancel nothing
        RuleCase{.small = {.name = "above_negated_maximum",
                           .text = "graph g {\n input X: f32[6]\n M = reduce_max(X, dim=0)\n N = scale(M, factor=-1)\n"
                                   " D = add(X, N)\n O = exp(D)\n output O\n}",
                           .max_ops = 5,
                           .launches = {{{1}, 1, 0}},
                           .more_kinds = {OpKind::Mul}},
                 .unprovable = {"scale(in_iter(X)"},  // −(M − X): to the axioms −1 is an atom
                 .overflowing = {"exp(in_iter(X))"},
                 .one_axis = true}),
    [](const auto& one) { return std::string(one.param.small.name); });

TEST(AgainstEnumerationOfTwo, WithoutExpressions) {
  PruningRules but_expression;
  but_expression.sizes = but_expression.expression = false;
  PruningRules expression = kNone;
  expression.expression = true;
  const SmallCase sum_of_squares{
      .name = "sum_of_squares",
      .text = "graph g {\n input X: f32[4, 6]\n Q = sqr(X)\n O = sum(Q, dim=1)\n output O\n}",
      .max_ops = 2,
      .launches = {{{2}, 1, 0}, {{4}, 1, 0}}};
  const SmallCase twice{.name = "twice",
                        .text = "graph g {\n input X: f32[12]\n O = scale(X, factor=2)\n output O\n}",
                        .max_ops = 2,
                        .launches = {{{2}, 1, 0}, {{3}, 1, 0}},
                        .more_kinds = {OpKind::Add, OpKind::Mul}};
  const Texts squares = sum_of_squares.enumerated();
  expect_same(squares, sum_of_squares.searched(but_expression).graphs);
  expect_same(squares, sum_of_squares.searched(expression).graphs);
  Texts doubles = twice.enumerated();
  expect_same(doubles, twice.searched(but_expression).graphs);
  expect_same(doubles, twice.searched(kNone).graphs);
  remove({"add("}, doubles);  // to the axioms 2 is an atom
  expect_same(doubles, twice.searched(expression).graphs);
}

/// Grids of fewer than 60 % of the multiprocessors and innermost tiles narrower than 8 go, and nothing else.
TEST(Sizes, RemoveSmallGridsAndNarrowTiles) {
  const LaunchShape plain{{128}, 1, 0}, looped{{128}, 2, 0}, small_grid{{64}, 1, 0}, narrow_tile{{128}, 4, 0};
  const SmallCase good{"kept", "graph g {\n input X: f32[128, 16]\n E = exp(X)\n O = sum(E, dim=1)\n output O\n}", 3,
                       Launches{plain, looped}};
  SmallCase both = good;
  both.launches.push_back(small_grid);
  both.launches.push_back(narrow_tile);
  const Texts kept = good.enumerated();
  PruningRules alone = kNone;
  alone.expression = alone.sizes = true;
  PruningRules without;
  without.sizes = false;
  expect_same(kept, both.searched(PruningRules{}).graphs);
  expect_same(kept, both.searched(alone).graphs);
  expect_same(both.enumerated(), both.searched(without).graphs);
}

/// Of each number of kernels the cheapest graphs are kept, unless all are wanted.
TEST(KeepAll, KeepsWhatIsOtherwiseCut) {
  const auto program = parse_graph(
      "graph g {\n input A: f32[64, 64]\n input B: f32[64, 64]\n P = matmul(A, B)\n O = silu(P)\n output O\n}");
  ASSERT_TRUE(program);
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
  options.max_kernel_ops = 1;
  options.max_block_ops = 3;
  options.time_limit = 0;
  options.rules.sizes = false;
  const auto cut = search(*program, options);
  options.keep_all = true;
  const auto all = search(*program, options);
  ASSERT_TRUE(cut && all);
  ASSERT_GT(all->graphs.size(), 512U);
  ASSERT_EQ(cut->graphs.size(), 512U);
  const auto seconds = [&](const GraphPtr& graph) { return estimate_cost(*graph, *options.target).seconds; };
  for (size_t i = 0; i < cut->graphs.size(); ++i) EXPECT_EQ(seconds(cut->graphs[i]), seconds(all->graphs[i])) << i;
}

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
