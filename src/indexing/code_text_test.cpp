#include "indexing/code_text.h"

#include <gtest/gtest.h>

namespace strata::indexing {
namespace {

Result<std::string> text_of(const std::string& map_text) {
  const IndexingMap map = parse_indexing_map(map_text).value();
  return code_text(map.results[0], map, [](ExprKind kind, int number) {
    return (kind == ExprKind::Dimension ? "block_" : "i") + std::to_string(number);
  });
}

TEST(CodeText, IsTheExpression) {
  const std::string domain = ", domain: d0 in [0, 9], d1 in [0, 9], s0 in [0, 3]";
  EXPECT_EQ(text_of("(d0, d1)[s0] -> (7)" + domain), "7");
  EXPECT_EQ(text_of("(d0, d1)[s0] -> (d0 * 64 + d1 * 4 + s0)" + domain), "block_0 * 64 + block_1 * 4 + i0");
  EXPECT_EQ(text_of("(d0, d1)[s0] -> (d0 - d1 * 2 - 3)" + domain), "block_0 - block_1 * 2 - 3");
  EXPECT_EQ(text_of("(d0, d1)[s0] -> (((d0 * 3 + d1) floordiv 4) * 5)" + domain), "((block_0 * 3 + block_1) / 4) * 5");
  EXPECT_EQ(text_of("(d0, d1)[s0] -> (d0 mod 4 + s0)" + domain), "i0 + (block_0 % 4)");
  EXPECT_EQ(text_of("(d0, d1)[s0] -> ((d0 * d1) floordiv 2)" + domain), "block_0 * block_1 / 2");
}

TEST(CodeText, MultipliesBy64BitsWhereNeeded) {
  EXPECT_EQ(text_of("(d0) -> (d0 * 1048576), domain: d0 in [0, 2047]"), "block_0 * 1048576");
  EXPECT_EQ(text_of("(d0) -> (d0 * 1048576), domain: d0 in [0, 2048]"), "block_0 * 1048576LL");
}

TEST(CodeText, RefusesWhatCAndMapsDivideDifferently) {
  EXPECT_FALSE(text_of("(d0) -> ((d0 - 1) floordiv 2), domain: d0 in [0, 9]"));
  EXPECT_FALSE(text_of("(d0)[s0] -> (d0 mod s0), domain: d0 in [0, 9], s0 in [1, 9]"));
  EXPECT_FALSE(text_of("(d0) -> (d0 * d0 * d0), domain: d0 in [0, 4611686018427387904]"));
}

}  // namespace
}  // namespace strata::indexing
