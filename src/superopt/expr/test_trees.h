// For this folder's tests: expressions as plain trees, and the axioms A_eq as rewrite steps on them. Nothing
// here knows of normal forms.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/expr_builder.h"
#include "support/random.h"

namespace strata::expr_test {

enum class Op { Input, Constant, Add, Mul, Div, Exp, Sqrt, Sum, ReduceMax, Max, Silu };

struct Tree {
  Op op = Op::Input;
  int64_t number = 0;  // of an input, constant; the extent of a sum or reduce_max
  std::vector<Tree> children{};

  friend bool operator==(const Tree&, const Tree&) = default;
};

inline Tree input(int64_t i) { return {Op::Input, i}; }
inline Tree constant(int64_t value) { return {Op::Constant, value}; }
inline Tree unary(Op op, Tree a, int64_t number = 0) { return {op, number, {std::move(a)}}; }
inline Tree binary(Op op, Tree a, Tree b) { return {op, 0, {std::move(a), std::move(b)}}; }

inline size_t size_of(const Tree& t) {
  size_t size = 1;
  for (const Tree& child : t.children) size += size_of(child);
  return size;
}

inline std::string to_string(const Tree& t) {
  static constexpr const char* kNames[] = {"", "", "add", "mul", "div", "exp", "sqrt", "sum", "rmax", "max", "silu"};
  if (t.op == Op::Input) return fmt::format("{}", "xyzw"[t.number]);
  if (t.op == Op::Constant) return fmt::format("{}", t.number);
  std::vector<std::string> parts;
  if (t.number != 0) parts.push_back(fmt::format("{}", t.number));
  for (const Tree& child : t.children) parts.push_back(to_string(child));
  return fmt::format("{}({})", kNames[static_cast<int>(t.op)], fmt::join(parts, ","));
}

inline ExprId build(ExprBuilder& b, const Tree& t) {
  std::vector<ExprId> c;
  for (const Tree& child : t.children) c.push_back(build(b, child));
  switch (t.op) {
    case Op::Input:
      return b.input(std::string(1, "xyzw"[t.number]));
    case Op::Constant:
      return b.constant({t.number, 1});
    case Op::Add:
      return b.add(c[0], c[1]);
    case Op::Mul:
      return b.mul(c[0], c[1]);
    case Op::Div:
      return b.div(c[0], c[1]);
    case Op::Exp:
      return b.exp(c[0]);
    case Op::Sqrt:
      return b.sqrt(c[0]);
    case Op::Sum:
      return b.sum(t.number, c[0]);
    case Op::ReduceMax:
      return b.function("reduce_max", t.number, c, false);
    case Op::Max:
      return b.function("max", 0, c, true);
    case Op::Silu:
      return b.function("silu", 0, c, false);
  }
  return 0;
}

/// What random trees are made of. Everything: all operators, four inputs or fewer, constants. Algebra: sums,
/// products, quotients, exp and sqrt of inputs alone, so that terms meet and merge often.
enum class Palette { Everything, Algebra };

/// A tree of `operations` operations over `inputs` inputs.
inline Tree random_tree(Random& random, int operations, int inputs, Palette palette = Palette::Everything) {
  if (operations == 0) {
    const uint64_t leaf = palette == Palette::Algebra ? 2 : random.below(10);
    return leaf == 0 ? constant(1) : leaf == 1 ? constant(2) : input(static_cast<int64_t>(random.below(inputs)));
  }
  static constexpr int64_t kExtents[] = {2, 3, 4, 6};
  static constexpr Op kOps[] = {Op::Add, Op::Add, Op::Add,  Op::Add, Op::Mul,       Op::Mul, Op::Mul,  Op::Mul,
                                Op::Div, Op::Div, Op::Sqrt, Op::Exp, Op::ReduceMax, Op::Max, Op::Silu, Op::Sum};
  const Op op = kOps[random.below(palette == Palette::Algebra ? 12 : std::size(kOps))];
  if (op == Op::Add || op == Op::Mul || op == Op::Div || op == Op::Max) {
    const auto left = static_cast<int>(random.below(operations));
    Tree a = random_tree(random, left, inputs, palette);
    return binary(op, std::move(a), random_tree(random, operations - 1 - left, inputs, palette));
  }
  const int64_t number = op == Op::Sum || op == Op::ReduceMax ? kExtents[random.below(4)] : 0;
  return unary(op, random_tree(random, operations - 1, inputs, palette), number);
}

inline void for_each_subtree(const Tree& t, const std::function<void(const Tree&)>& visit) {
  visit(t);
  for (const Tree& child : t.children) for_each_subtree(child, visit);
}

/// Every tree that one axiom, in either direction, makes of `t` at its root. The directions that can split a
/// number do so by 2 and 3; those that bring in a unit fit everywhere, and are left out unless asked for.
inline std::vector<Tree> rewrites_at_root(const Tree& t, bool bring_units) {
  std::vector<Tree> out;
  const auto is = [](const Tree& a, Op op) { return a.op == op; };
  const auto c = [&](size_t i) -> const Tree& { return t.children[i]; };
  const auto cc = [&](size_t i, size_t j) -> const Tree& { return t.children[i].children[j]; };
  const Tree one = constant(1);
  // Units.
  if (bring_units) {
    out.push_back(binary(Op::Mul, one, t));
    out.push_back(binary(Op::Div, t, one));
    out.push_back(unary(Op::Sum, t, 1));
    out.push_back(unary(Op::ReduceMax, t, 1));
  }
  if (t == one) out.push_back(unary(Op::Sqrt, one));
  if (is(t, Op::Mul) && c(0) == one) out.push_back(c(1));
  if (is(t, Op::Div) && c(1) == one) out.push_back(c(0));
  if (is(t, Op::Sqrt) && c(0) == one) out.push_back(one);
  // Commutativity and associativity.
  for (const Op op : {Op::Add, Op::Mul, Op::Max}) {
    if (!is(t, op)) continue;
    out.push_back(binary(op, c(1), c(0)));
    if (is(c(0), op)) out.push_back(binary(op, cc(0, 0), binary(op, cc(0, 1), c(1))));
    if (is(c(1), op)) out.push_back(binary(op, binary(op, c(0), cc(1, 0)), cc(1, 1)));
  }
  // Distribution over add.
  if (is(t, Op::Mul) && is(c(1), Op::Add)) {
    out.push_back(binary(Op::Add, binary(Op::Mul, c(0), cc(1, 0)), binary(Op::Mul, c(0), cc(1, 1))));
  }
  if (is(t, Op::Div) && is(c(0), Op::Add)) {
    out.push_back(binary(Op::Add, binary(Op::Div, cc(0, 0), c(1)), binary(Op::Div, cc(0, 1), c(1))));
  }
  if (is(t, Op::Sum) && is(c(0), Op::Add)) {
    out.push_back(binary(Op::Add, unary(Op::Sum, cc(0, 0), t.number), unary(Op::Sum, cc(0, 1), t.number)));
  }
  if (is(t, Op::Add) && is(c(0), Op::Mul) && is(c(1), Op::Mul) && cc(0, 0) == cc(1, 0)) {
    out.push_back(binary(Op::Mul, cc(0, 0), binary(Op::Add, cc(0, 1), cc(1, 1))));
  }
  if (is(t, Op::Add) && is(c(0), Op::Div) && is(c(1), Op::Div) && cc(0, 1) == cc(1, 1)) {
    out.push_back(binary(Op::Div, binary(Op::Add, cc(0, 0), cc(1, 0)), cc(0, 1)));
  }
  if (is(t, Op::Add) && is(c(0), Op::Sum) && is(c(1), Op::Sum) && c(0).number == c(1).number) {
    out.push_back(unary(Op::Sum, binary(Op::Add, cc(0, 0), cc(1, 0)), c(0).number));
  }
  // Division.
  if (is(t, Op::Mul) && is(c(1), Op::Div)) {
    out.push_back(binary(Op::Div, binary(Op::Mul, c(0), cc(1, 0)), cc(1, 1)));
  }
  if (is(t, Op::Div) && is(c(0), Op::Mul)) {
    out.push_back(binary(Op::Mul, cc(0, 0), binary(Op::Div, cc(0, 1), c(1))));
  }
  if (is(t, Op::Div) && is(c(0), Op::Div)) {
    out.push_back(binary(Op::Div, cc(0, 0), binary(Op::Mul, cc(0, 1), c(1))));
  }
  if (is(t, Op::Div) && is(c(1), Op::Mul)) {
    out.push_back(binary(Op::Div, binary(Op::Div, c(0), cc(1, 0)), cc(1, 1)));
  }
  // Sums and reduce_max.
  for (const Op op : {Op::Sum, Op::ReduceMax}) {
    if (!is(t, op)) continue;
    if (t.number == 1) out.push_back(c(0));
    if (is(c(0), op)) out.push_back(unary(op, cc(0, 0), t.number * c(0).number));
    for (const int64_t factor : {2, 3}) {
      if (t.number % factor == 0) out.push_back(unary(op, unary(op, c(0), t.number / factor), factor));
    }
  }
  for (const Op op : {Op::Mul, Op::Div}) {
    if (is(t, Op::Sum) && is(c(0), op)) out.push_back(binary(op, unary(Op::Sum, cc(0, 0), t.number), cc(0, 1)));
    if (is(t, op) && is(c(0), Op::Sum)) out.push_back(unary(Op::Sum, binary(op, cc(0, 0), c(1)), c(0).number));
  }
  // exp and sqrt.
  if (is(t, Op::Mul) && is(c(0), Op::Exp) && is(c(1), Op::Exp)) {
    out.push_back(unary(Op::Exp, binary(Op::Add, cc(0, 0), cc(1, 0))));
  }
  if (is(t, Op::Exp) && is(c(0), Op::Add)) {
    out.push_back(binary(Op::Mul, unary(Op::Exp, cc(0, 0)), unary(Op::Exp, cc(0, 1))));
  }
  if (is(t, Op::Mul) && is(c(0), Op::Sqrt) && is(c(1), Op::Sqrt)) {
    out.push_back(unary(Op::Sqrt, binary(Op::Mul, cc(0, 0), cc(1, 0))));
  }
  if (is(t, Op::Sqrt) && is(c(0), Op::Mul)) {
    out.push_back(binary(Op::Mul, unary(Op::Sqrt, cc(0, 0)), unary(Op::Sqrt, cc(0, 1))));
  }
  return out;
}

/// Every tree one axiom away, at any position.
inline std::vector<Tree> rewrites(const Tree& t, bool bring_units) {
  std::vector<Tree> out = rewrites_at_root(t, bring_units);
  for (size_t i = 0; i < t.children.size(); ++i) {
    for (Tree& child : rewrites(t.children[i], bring_units)) {
      Tree copy = t;
      copy.children[i] = std::move(child);
      out.push_back(std::move(copy));
    }
  }
  return out;
}

/// `t` after up to `steps` random axioms that keep it within `max_size`.
inline Tree rewritten(Random& random, Tree t, int steps, size_t max_size) {
  for (int i = 0; i < steps; ++i) {
    std::vector<Tree> next = rewrites(t, random.below(8) == 0);
    if (next.empty()) continue;
    Tree& choice = next[random.below(next.size())];
    if (size_of(choice) <= max_size) t = std::move(choice);
  }
  return t;
}

/// `t` with one small change, seldom one that an axiom allows; `mutated_once` may find nothing to change.
inline Tree mutated_once(Random& random, Tree t) {
  std::vector<Tree*> nodes{&t};
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (Tree& child : nodes[i]->children) nodes.push_back(&child);
  }
  Tree& node = *nodes[random.below(nodes.size())];
  switch (random.below(4)) {
    case 0:
      if (node.children.size() == 2) std::swap(node.children[0], node.children[1]);
      break;
    case 1:
      if (node.op == Op::Input) node.number = (node.number + 1) % 3;
      if (node.op == Op::Sum || node.op == Op::ReduceMax) node.number = node.number % 6 + 1;
      if (node.op == Op::Constant) node.number = 3 - node.number;
      break;
    case 2:
      if (node.op == Op::Add || node.op == Op::Mul || node.op == Op::Div) {
        node.op = node.op == Op::Add ? Op::Mul : node.op == Op::Mul ? Op::Div : Op::Add;
      } else if (node.op == Op::Exp || node.op == Op::Sqrt || node.op == Op::Silu) {
        node.op = node.op == Op::Exp ? Op::Sqrt : node.op == Op::Sqrt ? Op::Silu : Op::Exp;
      }
      break;
    default:
      if (node.children.size() == 2 && !node.children[0].children.empty()) {
        std::swap(node.children[1], node.children[0].children.back());
      }
  }
  return t;
}
inline Tree mutated(Random& random, const Tree& t) {
  Tree result = t;
  for (int tries = 0; tries < 10 && result == t; ++tries) result = mutated_once(random, t);
  return result;
}

}  // namespace strata::expr_test
