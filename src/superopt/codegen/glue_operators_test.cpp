#include "superopt/codegen/glue_operators.h"

#include <gmock/gmock.h>

#include "ir/text.h"

namespace strata {
namespace {

using testing::ElementsAre;

TEST(GlueOperators, AreNeitherProductsNorViewsNorALibrarys) {
  const auto graph = parse_graph(R"(graph g {
  input A: f16[64, 64]
  input B: f16[64, 64]
  C = concat(A, B, dim=0)
  T = transpose(C, perm=[1, 0])
  M = matmul(C, T)
  R = relu(M)
  S = sum(C, dim=1)
  output R, S
})");
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_THAT(glue_operations(**graph, {}), ElementsAre(0, 1, 3, 4));
  // A library reads the transposed array as it lies, and applies the activation itself.
  Schedules schedules(5);
  schedules[2] = BlockSchedule{.algorithm = 0};
  EXPECT_THAT(glue_operations(**graph, schedules), ElementsAre(0, 4));
}

}  // namespace
}  // namespace strata
