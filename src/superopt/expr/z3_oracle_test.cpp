// A_eq and A_sub as quantified axioms in Z3, the way Mirage decides them, against the normal forms.
#include <gtest/gtest.h>
#include <z3++.h>

#include <map>
#include <set>

#include "superopt/expr/normal_forms.h"
#include "superopt/expr/subexpression_oracle.h"
#include "superopt/expr/test_models.h"
#include "superopt/expr/test_trees.h"
#include "support/test_rounds.h"

namespace strata::expr_test {
namespace {

/// Expressions as terms over an uninterpreted sort. Proofs are sound and, within the limit on Z3's work,
/// incomplete: "not proved" says nothing.
class Z3Oracle final : public ExprBuilder {
 public:
  explicit Z3Oracle(unsigned limit) : sort_(c_.uninterpreted_sort("E")), solver_(c_, z3::solver::simple()) {
    z3::params params(c_);
    params.set("rlimit", limit);
    params.set("mbqi", false);
    params.set("auto_config", false);
    params.set("qi.eager_threshold", 20.0);
    solver_.set(params);
    add_equations();
    add_containment();
  }

  ExprId input(std::string_view name) override { return store(c_.constant(std::string(name).c_str(), sort_)); }
  ExprId constant(const Rational& value) override {
    if (value == Rational{1, 1}) return store(one_);
    return store(c_.constant(("constant " + value.to_string()).c_str(), sort_));
  }
  ExprId add(ExprId a, ExprId b) override { return store(add_(at(a), at(b))); }
  ExprId mul(ExprId a, ExprId b) override { return store(mul_(at(a), at(b))); }
  ExprId div(ExprId a, ExprId b) override { return store(div_(at(a), at(b))); }
  ExprId exp(ExprId a) override { return store(exp_(at(a))); }
  ExprId sqrt(ExprId a) override { return store(sqrt_(at(a))); }
  ExprId sum(int64_t k, ExprId a) override { return store(sum_(c_.int_val(k), at(a))); }
  ExprId function(std::string_view name, int64_t parameter, std::span<const ExprId> e, bool) override {
    if (name == "reduce_max") return store(reduce_max_(c_.int_val(parameter), at(e[0])));
    if (name == "max") return store(max_(at(e[0]), at(e[1])));
    return store(silu_(at(e[0])));
  }

  bool proves_equal(ExprId a, ExprId b) { return refutes(at(a) != at(b)); }
  bool proves_contained(ExprId part, ExprId whole) { return refutes(!part_(at(part), at(whole))); }
  /// The axioms without a goal must not be refuted, or everything would be proved.
  bool consistent() { return !refutes(c_.bool_val(true)); }

 private:
  z3::func_decl binary(const char* name) { return c_.function(name, sort_, sort_, sort_); }
  z3::func_decl unary(const char* name) { return c_.function(name, sort_, sort_); }
  z3::func_decl extent(const char* name) { return c_.function(name, c_.int_sort(), sort_, sort_); }
  z3::expr variable(const char* name) { return c_.constant(name, sort_); }
  z3::expr at(ExprId e) { return terms_[e]; }
  ExprId store(const z3::expr& term) {
    terms_.push_back(term);
    return static_cast<ExprId>(terms_.size() - 1);
  }

  /// The terms of `triggers` occurring together makes an instance.
  void axiom(const std::vector<z3::expr>& bound, const std::vector<z3::expr>& triggers, const z3::expr& body) {
    const std::vector<Z3_app> variables(bound.begin(), bound.end());
    const std::vector<Z3_ast> terms(triggers.begin(), triggers.end());
    const z3::ast pattern(c_,
                          Z3_pattern_to_ast(c_, Z3_mk_pattern(c_, static_cast<unsigned>(terms.size()), terms.data())));
    const auto raw = reinterpret_cast<Z3_pattern>(static_cast<Z3_ast>(pattern));
    solver_.add(z3::expr(
        c_, Z3_mk_forall_const(c_, 1, static_cast<unsigned>(variables.size()), variables.data(), 1, &raw, body)));
  }
  void axiom(const std::vector<z3::expr>& bound, const z3::expr& trigger, const z3::expr& body) {
    axiom(bound, std::vector{trigger}, body);
  }
  /// left = right, where either side's occurring makes an instance.
  void equation(const std::vector<z3::expr>& bound, const z3::expr& left, const z3::expr& right) {
    axiom(bound, left, left == right);
    axiom(bound, right, left == right);
  }

  void add_equations() {
    const z3::expr x = variable("?x"), y = variable("?y"), z = variable("?z");
    const z3::expr i = c_.int_const("?i"), j = c_.int_const("?j");
    for (const auto& f : {add_, mul_, max_}) {
      axiom({x, y}, f(x, y), f(x, y) == f(y, x));
      equation({x, y, z}, f(f(x, y), z), f(x, f(y, z)));
    }
    equation({x, y, z}, mul_(x, add_(y, z)), add_(mul_(x, y), mul_(x, z)));
    equation({x, y, z}, div_(add_(x, y), z), add_(div_(x, z), div_(y, z)));
    equation({x, y, z}, mul_(x, div_(y, z)), div_(mul_(x, y), z));
    equation({x, y, z}, div_(div_(x, y), z), div_(x, mul_(y, z)));
    equation({x, y, i}, sum_(i, add_(x, y)), add_(sum_(i, x), sum_(i, y)));
    equation({x, y, i}, sum_(i, mul_(x, y)), mul_(sum_(i, x), y));
    equation({x, y, i}, sum_(i, div_(x, y)), div_(sum_(i, x), y));
    equation({x, y}, mul_(exp_(x), exp_(y)), exp_(add_(x, y)));
    equation({x, y}, mul_(sqrt_(x), sqrt_(y)), sqrt_(mul_(x, y)));
    for (const auto& f : {sum_, reduce_max_}) {
      axiom({x, i, j}, f(i, f(j, x)), f(i, f(j, x)) == f(i * j, x));
      const z3::expr reduced = f(i, x);
      for (const int64_t factor : {2, 3}) {
        const z3::expr k = c_.int_val(factor);
        axiom({x, i}, reduced, z3::implies(i > k && z3::mod(i, k) == 0, reduced == f(k, f(i / k, x))));
      }
      axiom({x}, f(c_.int_val(1), x), f(c_.int_val(1), x) == x);
    }
    // Units: where they occur, and for each product's factors a unit's product exists already.
    axiom({x}, mul_(one_, x), mul_(one_, x) == x);
    axiom({x}, div_(x, one_), div_(x, one_) == x);
    axiom({x, y}, div_(x, y), div_(x, y) == mul_(x, div_(one_, y)));
    axiom({x, i}, sum_(i, x), sum_(i, x) == mul_(sum_(i, one_), x));
    solver_.add(sqrt_(one_) == one_);
  }

  void add_containment() {
    const z3::expr x = variable("?x"), y = variable("?y"), z = variable("?z");
    const z3::expr i = c_.int_const("?i");
    axiom({x}, part_(x, x), part_(x, x));
    for (const auto& f : {add_, mul_, div_, max_}) {
      axiom({x, y}, f(x, y), part_(x, f(x, y)) && part_(y, f(x, y)));
    }
    for (const auto& f : {exp_, sqrt_, silu_}) axiom({x}, f(x), part_(x, f(x)));
    for (const auto& f : {sum_, reduce_max_}) axiom({x, i}, f(i, x), part_(x, f(i, x)));
    axiom({x, y, z}, std::vector{part_(x, y), part_(y, z)}, z3::implies(part_(x, y) && part_(y, z), part_(x, z)));
  }

  bool refutes(const z3::expr& claim) {
    solver_.push();
    solver_.add(claim);
    const bool result = solver_.check() == z3::unsat;
    solver_.pop();
    return result;
  }

  z3::context c_;
  z3::sort sort_;
  z3::solver solver_;
  z3::func_decl add_ = binary("add"), mul_ = binary("mul"), div_ = binary("div"), max_ = binary("max");
  z3::func_decl exp_ = unary("exp"), sqrt_ = unary("sqrt"), silu_ = unary("silu");
  z3::func_decl sum_ = extent("sum"), reduce_max_ = extent("reduce_max");
  z3::func_decl part_ = c_.function("part", sort_, sort_, c_.bool_sort());
  z3::expr one_ = c_.constant("one", sort_);
  std::vector<z3::expr> terms_;
};

constexpr unsigned kLimit = 200000;

TEST(Z3, AxiomsAreConsistent) {
  Z3Oracle z3(kLimit);
  build(z3, {Op::Mul, 0, {input(0), input(1)}});
  EXPECT_TRUE(z3.consistent());
}

/// Pairs of trees made independently that have the same form: each is an equation of which the normal form
/// has to convince Z3.
TEST(Z3, ConfirmsEqualFormsOfIndependentTrees) {
  Random random(11);
  NormalForms forms;
  std::map<ExprId, std::set<std::string>> texts;
  std::map<ExprId, Tree> first;
  int pairs = 0;
  int proved = 0;
  for (int i = 0; pairs < rounds(1500) && i < 400000; ++i) {
    const Tree t = random_tree(random, 2 + i % 4, 2, i % 2 == 0 ? Palette::Everything : Palette::Algebra);
    const ExprId form = build(forms, t);
    const auto [at, fresh] = first.try_emplace(form, t);
    if (!texts[form].insert(to_string(t)).second || fresh || texts[form].size() > 4) continue;
    ++pairs;
    Z3Oracle z3(kLimit);
    if (z3.proves_equal(build(z3, at->second), build(z3, t))) {
      ++proved;
    } else if (pairs - proved <= 20) {
      RecordProperty("unproved" + std::to_string(pairs - proved), to_string(at->second) + " = " + to_string(t));
    }
    RingModel ring(i);
    EXPECT_TRUE(ring.same(build(ring, at->second), build(ring, t))) << to_string(at->second) << " = " << to_string(t);
  }
  RecordProperty("pairs", pairs);
  RecordProperty("proved", proved);
  EXPECT_EQ(pairs, rounds(1500));
  EXPECT_GE(proved, pairs * 9 / 10);
}

/// Near misses and rewritings: what Z3 proves equal has equal forms.
TEST(Z3, ProvesNoTwoFormsEqual) {
  Random random(12);
  NormalForms forms;
  int proved = 0;
  int different = 0;
  for (int i = 0; i < rounds(2000); ++i) {
    const Tree t = random_tree(random, 1 + i % 6, 2, i % 2 == 0 ? Palette::Everything : Palette::Algebra);
    const Tree m = rewritten(random, i % 3 == 0 ? t : mutated(random, t), 4, 16);
    const bool same = build(forms, t) == build(forms, m);
    different += !same;
    Z3Oracle z3(same ? kLimit : kLimit / 4);
    if (!z3.proves_equal(build(z3, t), build(z3, m))) continue;
    ++proved;
    EXPECT_TRUE(same) << "Z3 proves " << to_string(t) << " = " << to_string(m);
  }
  RecordProperty("proved", proved);
  RecordProperty("different", different);
  EXPECT_GT(proved, rounds(700));
  EXPECT_GT(different, rounds(700));
}

TEST(Z3, WhatItProvesContainedIsContained) {
  Random random(13);
  NormalForms forms;
  int proved = 0;
  int contained = 0;
  int pairs = 0;
  for (int i = 0; i < rounds(2000); ++i) {
    const Tree t = random_tree(random, 2 + i % 3, 2, i % 2 == 0 ? Palette::Everything : Palette::Algebra);
    const Tree e = random_tree(random, i % 3, 2);
    const bool inside = SubexpressionOracle(forms, {build(forms, t)}).contains(build(forms, e));
    ++pairs;
    contained += inside;
    Z3Oracle z3(inside ? kLimit : kLimit / 4);
    const ExprId whole = build(z3, t);
    if (!z3.proves_contained(build(z3, e), whole)) continue;
    ++proved;
    EXPECT_TRUE(inside) << "Z3 proves " << to_string(e) << " part of " << to_string(t);
  }
  RecordProperty("proved", proved);
  RecordProperty("contained", contained);
  EXPECT_GT(proved, rounds(350));
  EXPECT_GE(proved, contained * 8 / 10);
}

}  // namespace
}  // namespace strata::expr_test
