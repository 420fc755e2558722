#include "superopt/verify/domains.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/roots.h"
#include "superopt/verify/verify.h"
#include "support/random.h"

namespace strata {
namespace {

GraphPtr graph_of(const std::string& body) {
  auto graph = parse_graph("graph g {\n  input X: f32[4]\n  input Y: f32[4]\n" + body + "}\n");
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

std::string unread(const std::string& body, std::optional<size_t> output = std::nullopt) {
  const GraphPtr graph = graph_of(body);
  const auto free = free_operators(*graph);
  return unread_domain(*graph, free ? &*free : nullptr, output).value_or("");
}

TEST(UnreadDomain, WhatResultsAreMadeOfIsRead) {
  EXPECT_EQ(unread("R = sqrt(X)\n O = mul(R, Y)\n output O\n"), "");
  EXPECT_EQ(unread("R = sqrt(X)\n G = greater(R, Y)\n output G\n"), "");
  EXPECT_EQ(unread("R = sqrt(X)\n O = select(R, X, Y)\n output O\n"), "");
}

TEST(UnreadDomain, ABranchOfSelectMayBeDropped) {
  EXPECT_EQ(unread("R = sqrt(X)\n O = select(X, R, Y)\n output O\n"), "'R' = sqrt");
  EXPECT_EQ(unread("L = relu(X)\n D = div(Y, L)\n O = select(X, D, Y)\n output O\n"), "'D' = div");
  // Neither is ever undefined on a region.
  EXPECT_EQ(unread("S = sqr(X)\n R = sqrt(S)\n O = select(X, R, Y)\n output O\n"), "");
  EXPECT_EQ(unread("D = div(Y, X)\n O = select(X, D, Y)\n output O\n"), "");
  // It is read elsewhere.
  EXPECT_EQ(unread("R = sqrt(X)\n S = select(X, R, Y)\n O = add(S, R)\n output O\n"), "");
}

TEST(UnreadDomain, SlicesMustCoverWhatTheyAreOf) {
  const std::string low = "R = sqrt(X)\n A = slice(R, dim=0, start=0, size=2)\n";
  EXPECT_EQ(unread(low + "output A\n"), "'R' = sqrt");
  EXPECT_EQ(unread(low + "B = slice(R, dim=0, start=2, size=2)\n O = concat(B, A, dim=0)\n output O\n"), "");
  EXPECT_EQ(unread(low + "B = slice(R, dim=0, start=1, size=2)\n O = concat(B, A, dim=0)\n output O\n"), "'R' = sqrt");
}

TEST(UnreadDomain, AnOutputMayReadLessThanAll) {
  const std::string two = "R = sqrt(X)\n O = scale(Y, factor=2)\n output O, R\n";
  EXPECT_EQ(unread(two), "");
  EXPECT_EQ(unread(two, 0), "'R' = sqrt");
  EXPECT_EQ(unread(two, 1), "");
}

TEST(UnreadDomain, EachOutputIsVerifiedWhereItIsDefined) {
  const GraphPtr a = graph_of("R = sqrt(X)\n O = scale(Y, factor=2)\n output O, R\n");
  // |X| is X where the other output is defined, and nowhere else.
  const GraphPtr b = graph_of(
      "R = sqrt(X)\n S = sqr(X)\n T = sqrt(S)\n U = mul(Y, T)\n V = div(U, X)\n O = scale(V, factor=2)\n output O, "
      "R\n");
  const auto result = verify(*a, *b);
  ASSERT_TRUE(result);
  EXPECT_NE(result->verdict, Verdict::Equivalent);
  EXPECT_EQ(verify(*a, *a)->verdict, Verdict::Equivalent);
}

TEST(RootMatch, GivesUpWhereLookingTakesTooLong) {
  const GraphPtr graph = graph_of("R = sqrt(X)\n output R\n");
  const FieldSample sample = draw_sample(*graph, kVerifierPrimes, 1);
  constexpr int64_t kEntries = 8000;  // pairs of which would take minutes
  FieldTensor known({kEntries}), others({kEntries});
  Random random(2);
  fill_uniformly(known, sample.arithmetic, random);
  fill_uniformly(others, sample.arithmetic, random);
  RootMatch match(known.data, sample.arithmetic);
  for (const auto& value : others.data) EXPECT_FALSE(match.matches(value));
  // One factor serves all.
  const auto three = sample.arithmetic.constant({3, 1});
  FieldArithmetic arithmetic = sample.arithmetic;
  for (const auto& value : known.data) EXPECT_TRUE(match.matches(value)) << value.p;
  RootMatch scaled(known.data, sample.arithmetic);
  for (const auto& value : known.data) ASSERT_TRUE(scaled.matches(arithmetic.mul(three, value)));
}

TEST(Verify, SaysThatTimeIsUp) {
  const auto large =
      parse_graph("graph g {\n input A: f32[8192, 8192]\n input B: f32[8192, 8192]\n O = matmul(A, B)\n output O\n}\n");
  ASSERT_TRUE(large);
  VerifyOptions options;
  options.time_limit = 1;
  const auto result = verify(**large, **large, options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->verdict, Verdict::Undecided);
  EXPECT_NE(result->reason.find("the 1 s that they may"), std::string::npos) << result->reason;
}

}  // namespace
}  // namespace strata
