#include "ir/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace strata {
namespace {

using testing::HasSubstr;

/// Attention of `rows` queries a block, 64 keys an iteration.
GraphPtr attention(int rows) {
  const auto parsed = parse_graph(fmt::format(R"(graph g {{
  input Q: f16[{0}, 128]
  input K: f16[128, 1024]
  input V: f16[1024, 128]
  O = block(Q, K, V, grid=[2], loop=16) {{
    q = in_iter(Q, imap=[0])
    k = in_iter(K, imap=[_], fmap=1)
    v = in_iter(V, imap=[_], fmap=0)
    a = matmul(q, k)
    c = scale(a, factor=1/8)
    m = reduce_max(c, dim=1)
    s = sub(c, m)
    e = exp(s)
    z = sum(e, dim=1)
    p = matmul(e, v)
    o = accum_rescale(p, m)
    d = accum_rescale(z, m)
    r = div(o, d)
    O = out_saver(r, omap=[0])
  }}
  output O
}})",
                                              2 * rows));
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return *parsed;
}

const Graph& body(const GraphPtr& graph) { return *graph->operations().front().body; }

TEST(BlockBytes, CountWhatOneOperatorNeedsAndAccumulators) {
  const GraphPtr graph = attention(128);
  const BlockBytes bytes = block_bytes(body(graph));
  EXPECT_EQ(bytes.tiles, 2 * (128 * 128 + 2 * 64 * 128));
  // o and d; e and p of the second product.
  EXPECT_EQ(bytes.computed, 4 * (128 * 128 + 128) + 4 * (128 * 64 + 128 * 128));
  EXPECT_GT(shared_memory_bytes(body(graph)), bytes.tiles + bytes.computed);
}

TEST(BlockBytes, LetPassWhatStaysInRegisters) {
  const Target& h200 = targets().back();
  EXPECT_GT(shared_memory_bytes(body(attention(128))), h200.shared_memory);
  EXPECT_TRUE(block_bytes(body(attention(128))).fits_registers(h200));
  EXPECT_TRUE(validate(*attention(128), h200));
}

TEST(BlockBytes, RefuseWhatNothingHolds) {
  const Target& h200 = targets().back();
  EXPECT_FALSE(block_bytes(body(attention(256))).fits_registers(h200));
  const auto refused = validate(*attention(1024), h200);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_string(), HasSubstr("for its inputs' tiles and"));
  EXPECT_THAT(refused.error().to_string(), HasSubstr("use a larger grid or more loop iterations"));
}

}  // namespace
}  // namespace strata
