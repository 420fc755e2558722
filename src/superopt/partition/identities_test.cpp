#include "superopt/partition/identities.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace strata {
namespace {

GraphPtr parsed(const std::string& text) {
  auto graph = parse_graph("graph g {\n" + text + "}\n");
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

void expect_becomes(const std::string& before, const std::string& after) {
  const auto simple = without_identities(parsed(before));
  ASSERT_TRUE(simple) << simple.error().to_string();
  EXPECT_EQ(print(**simple), print(*parsed(after)));
}

TEST(Identities, StatementsThatChangeNothingGo) {
  expect_becomes(R"(
  input A: f16[8, 1, 16]
  T = transpose(A, perm=[0, 1, 2])
  R = reshape(T, shape=[8, 1, 16])
  S = slice(R, dim=2, start=0, size=16)
  P = repeat(S, dim=0, times=1)
  Z = sum(P, dim=1)
  M = reduce_max(Z, dim=1)
  F = scale(M, factor=1)
  C = add_constant(F, value=0)
  E = exp(C)
  output E
)",
                 R"(
  input A: f16[8, 1, 16]
  E = exp(A)
  output E
)");
}

TEST(Identities, StatementsThatChangeSomethingStay) {
  const GraphPtr program = parsed(R"(
  input A: f16[8, 1, 8]
  T = transpose(A, perm=[2, 1, 0])
  U = transpose(T, perm=[1, 0, 2])
  R = reshape(A, shape=[1, 8, 8])
  S = slice(A, dim=0, start=1, size=7)
  P = repeat(A, dim=1, times=2)
  Z = sum(A, dim=0)
  F = scale(A, factor=2)
  C = add_constant(A, value=1)
  output U, R, S, P, Z, F, C
)");
  const auto simple = without_identities(program);
  ASSERT_TRUE(simple) << simple.error().to_string();
  EXPECT_EQ((*simple)->operations().size(), program->operations().size() - 1);  // both transposes are one
}

TEST(Identities, TransposesAndReshapesOfTheirLikeBecomeOne) {
  expect_becomes(R"(
  input A: f16[2, 3, 4]
  T = transpose(A, perm=[1, 2, 0])
  U = transpose(T, perm=[1, 2, 0])
  V = transpose(U, perm=[1, 2, 0])
  E = exp(V)
  R = reshape(E, shape=[6, 4])
  S = reshape(R, shape=[4, 6])
  O = sqr(S)
  Q = transpose(T, perm=[1, 0, 2])
  output O, Q
)",
                 R"(
  input A: f16[2, 3, 4]
  E = exp(A)
  S = reshape(E, shape=[4, 6])
  O = sqr(S)
  Q = transpose(A, perm=[2, 1, 0])
  output O, Q
)");
}

TEST(Identities, OutputsKeepTheirNamesAndStayApart) {
  expect_becomes(R"(
  input A: f16[8]
  E = exp(A)
  O = reshape(E, shape=[8])
  P = reshape(O, shape=[8])
  Q = reshape(A, shape=[8])
  R = sqr(O)
  output P, O, R, A, Q
)",
                 R"(
  input A: f16[8]
  P = exp(A)
  O = reshape(P, shape=[8])
  Q = reshape(A, shape=[8])
  R = sqr(P)
  output P, O, R, A, Q
)");
}

TEST(Identities, ProgramsWithoutAnyComeBackAsTheyAre) {
  const GraphPtr program = parsed("  input A: f16[8]\n  E = exp(A)\n  output E, A\n");
  EXPECT_EQ(without_identities(program).value(), program);
}

}  // namespace
}  // namespace strata
