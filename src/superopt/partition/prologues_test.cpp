#include "superopt/partition/prologues.h"

#include <gmock/gmock.h>

#include "ir/text.h"
#include "superopt/verify/test_graphs.h"
#include "superopt/verify/verify.h"

namespace strata {
namespace {

constexpr const char* kProgram =
    "input q: f32[4, 8];input k: f32[8, 16];input v: f32[16, 8];"
    "qq = sqr(q);qs = sum(qq, dim=1);qr = sqrt(qs);nq = div(q, qr);"
    "kk = sqr(k);ks = sum(kk, dim=0);kr = sqrt(ks);nk = div(k, kr);"
    "a = matmul(nq, nk);o = matmul(a, v);output o";

/// The core as one block with a loop over the keys, or over what the norms reduce.
GraphPtr fused(bool cut_norm) {
  return graph_of(std::string("input v: f32[16, 8];input nq: f32[4, 8];input nk: f32[8, 16];") +
                  (cut_norm ? "o = block(v, nq, nk, grid=[2], loop=4) {;vt = in_iter(v, imap=[_]);"
                              "qt = in_iter(nq, imap=[0], fmap=1);kt = in_iter(nk, imap=[_], fmap=0);"
                              "p = matmul(qt, kt);s = accum(p, kind=sum);r = matmul(s, vt);"
                              "o = out_saver(r, omap=[0]);};output o"
                            : "o = block(v, nq, nk, grid=[2], loop=4) {;vt = in_iter(v, imap=[_], fmap=0);"
                              "qt = in_iter(nq, imap=[0]);kt = in_iter(nk, imap=[_], fmap=1);"
                              "p = matmul(qt, kt);r = matmul(p, vt);s = accum(r, kind=sum);"
                              "o = out_saver(s, omap=[0]);};output o"));
}

TEST(Prologues, CoreHasTheNormsAsInputs) {
  const GraphPtr program = graph_of(kProgram);
  const auto peeled = peel_prologues(*program);
  ASSERT_TRUE(peeled);
  EXPECT_EQ(peeled->values.size(), 2U);
  EXPECT_EQ(peeled->core->operations().size(), 2U);
  EXPECT_TRUE(peeled->core->find_tensor("nq"));
  EXPECT_FALSE(peeled->core->find_tensor("k"));
}

TEST(Prologues, AreNothingWithoutReductions) {
  EXPECT_FALSE(peel_prologues(*graph_of("input a: f32[4, 8];input b: f32[8, 4];s = sqr(a);y = matmul(s, b);output y")));
  // The norm of a product is no prologue.
  EXPECT_FALSE(
      peel_prologues(*graph_of("input a: f32[4, 8];input b: f32[8, 4];p = matmul(a, b);s = sum(p, dim=1);"
                               "d = div(p, s);y = matmul(d, a);output y")));
}

TEST(Prologues, GoBackIntoBlocksInBothForms) {
  const GraphPtr program = graph_of(kProgram);
  const auto peeled = peel_prologues(*program);
  ASSERT_TRUE(peeled);
  for (const PrologueForm form : {PrologueForm::InPlace, PrologueForm::BehindProducts}) {
    const auto whole = with_prologues(*program, *peeled, *fused(false), form);
    ASSERT_TRUE(whole) << whole.error().to_string();
    EXPECT_EQ((*whole)->operations().size(), 1U);
    EXPECT_EQ(verify(*program, **whole)->verdict, Verdict::Equivalent) << print(**whole);
    const bool divided_tile = print(**whole).find("nk = div") != std::string::npos;
    EXPECT_EQ(divided_tile, form == PrologueForm::InPlace) << print(**whole);
  }
}

TEST(Prologues, AreRefusedWhereABlockCutsWhatTheyReduce) {
  const GraphPtr program = graph_of(kProgram);
  const auto peeled = peel_prologues(*program);
  const auto whole = with_prologues(*program, *peeled, *fused(true), PrologueForm::InPlace);
  ASSERT_FALSE(whole);
  EXPECT_THAT(whole.error().message, testing::HasSubstr("cuts what"));
}

TEST(Prologues, AreComputedInMemoryForPredefinedOperators) {
  const GraphPtr program = graph_of(kProgram);
  const auto peeled = peel_prologues(*program);
  const auto whole = with_prologues(*program, *peeled, *peeled->core, PrologueForm::InPlace);
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_EQ(verify(*program, **whole)->verdict, Verdict::Equivalent);
}

TEST(Prologues, TakeTheirInputsBroadcast) {
  const GraphPtr program = graph_of(
      "input x: f32[4, 8];input g: f32[8];input w: f32[8, 16];"
      "s = sum(x, dim=1);d = div(x, s);n = mul(d, g);y = matmul(n, w);output y");
  const auto peeled = peel_prologues(*program);
  ASSERT_TRUE(peeled);
  const GraphPtr core = graph_of(
      "input w: f32[8, 16];input n: f32[4, 8];"
      "y = block(w, n, grid=[2]) {;wt = in_iter(w, imap=[1]);nt = in_iter(n, imap=[_]);p = matmul(nt, wt);"
      "y = out_saver(p, omap=[1]);};output y");
  const auto whole = with_prologues(*program, *peeled, *core, PrologueForm::BehindProducts);
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_EQ(verify(*program, **whole)->verdict, Verdict::Equivalent);
}

TEST(Prologues, MasksAreInputsOfTheCoreAndTilesOfBlocks) {
  const std::string mask =
      "I = iota(dim=0) : f32[4, 1];J = iota(dim=1) : f32[1, 8];C = iota(dim=0, start=-7, step=0) : f32[1];";
  const GraphPtr program = graph_of("input x: f32[4, 8];" + mask +
                                    "p = add_constant(I, value=1);m = greater(J, p);s = select(m, C, x);e = exp(s);"
                                    "y = sum(e, dim=1);output y");
  const auto peeled = peel_prologues(*program, false);
  ASSERT_TRUE(peeled);
  EXPECT_EQ(peeled->values, (std::vector<TensorId>{*program->find_tensor("m")}));
  EXPECT_EQ(peeled->core->arguments().size(), 3U);  // x, C, m
  const GraphPtr core = graph_of(
      "input x: f32[4, 8];input C: f32[1];input m: f32[4, 8];y = block(x, C, m, grid=[2], loop=4) {;"
      "xt = in_iter(x, imap=[0], fmap=1);ct = in_iter(C, imap=[_]);mt = in_iter(m, imap=[0], fmap=1);"
      "s = select(mt, ct, xt);e = exp(s);t = sum(e, dim=1);a = accum(t, kind=sum);y = out_saver(a, omap=[0]);};output "
      "y");
  const auto whole = with_prologues(*program, *peeled, *core, PrologueForm::InPlace);
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_EQ((*whole)->operations().size(), 1U);
  EXPECT_EQ(verify(*program, **whole)->verdict, Verdict::Equivalent) << print(**whole);
}

// A sum over a dimension of 1 is its operand, so a search may find that an output is the core's input as it is.
TEST(Prologues, AMaskMayBeAnOutputOfTheCore) {
  const GraphPtr program = graph_of(
      "input x: f32[1, 8];I = iota(dim=1) : f32[1, 8];C = iota(dim=1, start=3, step=0) : f32[1, 8];"
      "m = greater(I, C);n = sum(m, dim=0);y = mul(x, m);output n, y");
  const auto peeled = peel_prologues(*program, false);
  ASSERT_TRUE(peeled);
  const GraphPtr core = graph_of("input x: f32[1, 8];input m: f32[1, 8];y = mul(x, m);output m, y");
  const auto whole = with_prologues(*program, *peeled, *core, PrologueForm::InPlace);
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_EQ(verify(*program, **whole)->verdict, Verdict::Equivalent) << print(**whole);
}

}  // namespace
}  // namespace strata
