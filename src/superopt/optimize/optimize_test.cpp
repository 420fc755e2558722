#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/optimize/cost.h"
#include "superopt/optimize/thread_graphs.h"

namespace strata {
namespace {

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

const char* const kNorm = R"(graph norm {
  input X: f32[8, 64]
  Y = block(X, grid=[8], loop=4) {
    x = in_iter(X, imap=[0], fmap=1)
    q = sqr(x)
    h = scale(q, factor=1/64)
    s = sum(h, dim=1)
    a = accum(s, kind=sum)
    r = sqrt(a)
    e = exp(r)
    d = div(r, e)
    Y = out_saver(d, omap=[0])
  }
  output Y
}
)";

TEST(ThreadGraphs, ChainsStayInTheirStageAndKeepSharedValuesInside) {
  auto formed = form_thread_graphs(*parse(kNorm), 64);
  ASSERT_TRUE(formed) << formed.error().to_string();
  auto valid = validate(**formed, targets().back());
  ASSERT_TRUE(valid) << valid.error().to_string();
  const Graph& body = *(*formed)->operations()[0].body;
  std::vector<std::string> names;
  std::vector<size_t> chain_lengths;
  for (const Operation& op : body.operations()) {
    names.emplace_back(op.name());
    if (op.body) chain_lengths.push_back(op.body->operations().size());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"in_iter", "thread", "sum", "accum", "thread", "out_saver"}));
  // sqr and scale; sqrt, exp and div, where sqrt has two users in the chain. Each with its iterators and saver.
  EXPECT_EQ(chain_lengths, (std::vector<size_t>{4, 5}));
  auto again = form_thread_graphs(**formed, 64);
  ASSERT_TRUE(again);
  EXPECT_EQ(print(**again), print(**formed));
}

TEST(ThreadGraphs, ValuesWithUsersOutsideAreNotHidden) {
  auto formed = form_thread_graphs(*parse(R"(graph g {
  input X: f32[8, 64]
  Y, Z = block(X, grid=[8]) {
    x = in_iter(X, imap=[0])
    e = exp(x)
    s = sum(e, dim=1)
    d = sqr(e)
    Y = out_saver(d, omap=[0])
    Z = out_saver(s, omap=[0])
  }
  output Y, Z
}
)"),
                                   64);
  ASSERT_TRUE(formed) << formed.error().to_string();
  for (const Operation& op : (*formed)->operations()[0].body->operations()) EXPECT_FALSE(op.body);
}

TEST(Cost, CountsLaunchesAndBytes) {
  const Target& target = targets().back();
  const GraphPtr program = parse("graph g {\n input A: f16[64, 32]\n B = exp(A)\n C = add(B, B)\n output C\n}");
  const CostEstimate cost = estimate_cost(*program, target);
  EXPECT_EQ(cost.kernels, 2);
  EXPECT_EQ(cost.device_bytes, 4 * 64 * 32 * 2);  // A, B written; B read once, C written
  EXPECT_GT(cost.seconds, 2 * target.rates.launch);
  EXPECT_LE(cost_lower_bound(*program, 2, target), cost.seconds);
}

TEST(Cost, FillingTheDeviceIsCheaper) {
  const auto product = [](int blocks) {
    return parse(fmt::format(R"(graph g {{
  input A: f16[16, 4096]
  input B: f16[4096, 8192]
  C = block(A, B, grid=[{}], loop=64) {{
    a = in_iter(A, imap=[_], fmap=1)
    b = in_iter(B, imap=[1], fmap=0)
    p = matmul(a, b)
    s = accum(p, kind=sum)
    C = out_saver(s, omap=[1])
  }}
  output C
}}
)",
                             blocks));
  };
  const Target& target = targets().front();  // without clusters, which fill it otherwise
  double last = 1;
  for (int blocks : {8, 32, 128}) {
    const double seconds = estimate_cost(*product(blocks), target).seconds;
    EXPECT_LT(seconds, last) << blocks << " blocks";
    last = seconds;
  }
}

}  // namespace
}  // namespace strata
