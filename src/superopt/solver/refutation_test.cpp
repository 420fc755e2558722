// What formulas call equal, float64 must not tell apart: programs with hidden kinks (roots of squares), quotients by
// what is 0 on a region, and branches that are not taken.
#include <gtest/gtest.h>

#include "superopt/solver/cases.h"
#include "superopt/solver/conditions.h"
#include "superopt/solver/random_programs.h"
#include "support/test_rounds.h"

namespace strata {
namespace {

constexpr size_t kInputs = 3;
constexpr int kNearby = 8;

using Program = std::vector<Instruction>;

/// Builds a program value by value.
class Writer {
 public:
  explicit Writer(Random& random) : random_(random) {}

  size_t add(ScalarOp op, size_t a, size_t b = 0, size_t c = 0, Rational constant = {}) {
    program.push_back({op, {a, b, c}, constant});
    return kInputs + program.size() - 1;
  }
  size_t constant(int64_t n) { return add(ScalarOp::Constant, 0, 0, 0, {n, 1}); }
  size_t any() { return random_.below(kInputs + program.size()); }
  size_t scaled(size_t a, Rational by) { return add(ScalarOp::Scale, a, 0, 0, by); }
  size_t square(size_t a) { return add(ScalarOp::Mul, a, a); }
  size_t relu(size_t a) { return add(ScalarOp::Max, a, constant(0)); }
  size_t magnitude(size_t a) { return add(ScalarOp::Max, a, scaled(a, {-1, 1})); }
  /// √(a² + 2ab + b²)
  size_t root_of_square(size_t a, size_t b) {
    const size_t squares = add(ScalarOp::Add, square(a), square(b));
    return add(ScalarOp::Sqrt, add(ScalarOp::Add, squares, scaled(add(ScalarOp::Mul, a, b), {2, 1})));
  }

  void piece() {
    const size_t a = any();
    const size_t b = any();
    switch (random_.below(12)) {
      case 0:
        root_of_square(a, b);
        return;
      case 1:
        add(ScalarOp::Sqrt, square(a));
        return;
      case 2:
        magnitude(a);
        return;
      case 3:
        relu(a);
        return;
      case 4:
        add(ScalarOp::Max, a, b);
        return;
      case 5:
        add(ScalarOp::Greater, a, random_.below(2) == 0 ? b : constant(0));
        return;
      case 6:
        add(ScalarOp::Select, any(), a, b);
        return;
      case 7:
        add(ScalarOp::Div, a, b);
        return;
      case 8:
        add(random_.below(2) == 0 ? ScalarOp::Add : ScalarOp::Sub, a, b);
        return;
      case 9:
        add(ScalarOp::Mul, a, b);
        return;
      case 10:
        add(random_.below(3) == 0 ? ScalarOp::Exp : ScalarOp::Sqrt, a);
        return;
      default:
        scaled(a, {static_cast<int64_t>(random_.below(5)) - 2, 1 + static_cast<int64_t>(random_.below(2))});
    }
  }

  /// The last value by another way, which is wrong for some values of d and e.
  void rewrite(size_t value) {
    const size_t d = any();
    const size_t e = any();
    switch (random_.below(14)) {
      case 0:  // value·d / d
        add(ScalarOp::Div, add(ScalarOp::Mul, value, d), d);
        return;
      case 1: {  // by √((d+e)²) − d − e, which is 0 where d + e > 0
        const size_t by = add(ScalarOp::Sub, add(ScalarOp::Sub, root_of_square(d, e), d), e);
        add(ScalarOp::Div, add(ScalarOp::Mul, value, by), by);
        return;
      }
      case 2: {
        const size_t by = relu(d);
        add(ScalarOp::Mul, add(ScalarOp::Div, value, by), by);
        return;
      }
      case 3:  // where d ≠ 0 alone
        add(ScalarOp::Select, d, add(ScalarOp::Div, add(ScalarOp::Mul, value, d), d), value);
        return;
      case 4: {
        const size_t step = add(ScalarOp::Greater, d, e);
        add(ScalarOp::Select, step, add(ScalarOp::Div, value, step), value);
        return;
      }
      case 5: {
        const size_t step = add(ScalarOp::Greater, d, e);
        add(ScalarOp::Select, step, add(ScalarOp::Div, value, step), constant(0));
        return;
      }
      case 6: {  // x·√d / √d
        const size_t root = add(ScalarOp::Sqrt, d);
        add(ScalarOp::Div, add(ScalarOp::Mul, value, root), root);
        return;
      }
      case 7:
        add(ScalarOp::Sqrt, square(value));
        return;
      case 8:
        add(ScalarOp::Sub, relu(value), relu(scaled(value, {-1, 1})));
        return;
      case 9:
        add(ScalarOp::Select, add(ScalarOp::Greater, d, e), value, value);
        return;
      case 10: {  // safe or not: [d > 0]·√d
        const size_t step = add(ScalarOp::Greater, d, constant(0));
        const size_t zero = add(ScalarOp::Sub, value, value);
        const size_t root = add(ScalarOp::Select, step, add(ScalarOp::Sqrt, d), zero);
        const size_t other = add(ScalarOp::Sqrt, relu(d));
        add(ScalarOp::Add, value, add(ScalarOp::Sub, root, other));
        return;
      }
      case 11: {  // |d| by two ways
        add(ScalarOp::Add, value, add(ScalarOp::Sub, magnitude(d), add(ScalarOp::Sqrt, square(d))));
        return;
      }
      case 12: {  // relu(d)/relu(d)
        const size_t by = relu(d);
        add(ScalarOp::Mul, value, add(ScalarOp::Div, by, by));
        return;
      }
      default: {  // √d·√e − √(d·e) is 0 everywhere
        const size_t roots = add(ScalarOp::Mul, add(ScalarOp::Sqrt, d), add(ScalarOp::Sqrt, e));
        const size_t by = add(ScalarOp::Sub, roots, add(ScalarOp::Sqrt, add(ScalarOp::Mul, d, e)));
        add(ScalarOp::Div, add(ScalarOp::Mul, value, by), by);
      }
    }
  }

  Program program;

 private:
  Random& random_;
};

template <class A>
std::vector<typename A::Value> executed(A& arithmetic, const Program& program, std::vector<typename A::Value> values) {
  for (const Instruction& i : program) values.push_back(apply(arithmetic, i, values));
  return values;
}

using Point = std::array<double, kInputs>;

std::optional<std::pair<TrackedArithmetic::Value, TrackedArithmetic::Value>> compared(const Program& program,
                                                                                      const Point& point, size_t a,
                                                                                      size_t b) {
  TrackedArithmetic arithmetic;
  std::vector<TrackedArithmetic::Value> inputs;
  for (const double x : point) inputs.push_back({x});
  const auto values = executed(arithmetic, program, inputs);
  if (!values[a].defined || values[a].close || values[b].close || !std::isfinite(values[a].x)) return std::nullopt;
  return std::pair{values[a], values[b]};
}

bool differs(const Program& program, const Point& point, size_t a, size_t b) {
  const auto found = compared(program, point, a, b);
  if (!found) return false;
  const auto& [x, y] = *found;
  // A result that overflows tells nothing.
  return !y.defined || (std::isfinite(y.x) && std::fabs(x.x - y.x) > 1e-6 * (1 + std::fabs(x.x)));
}

/// Inputs at which the values differ, and near which they do. Numbers of few digits, so that squares and their roots
/// are exact in float64 and what is 0 over the reals is so there.
std::optional<Point> refuted(const Program& program, size_t a, size_t b, Random& random) {
  for (int test = 0; test < 24; ++test) {
    const double size = std::ldexp(1, static_cast<int>(random.below(7)) - 3);
    Point point{};
    for (double& x : point) x = size * (static_cast<double>(random.below(33)) - 16);
    if (!differs(program, point, a, b)) continue;
    bool everywhere = true;
    for (int n = 0; n < kNearby && everywhere; ++n) {
      Point nearby = point;
      for (double& x : nearby) x += size * std::ldexp(static_cast<double>(random.below(9)) - 4, -12);
      everywhere = differs(program, nearby, a, b);
    }
    if (everywhere) return point;
  }
  return std::nullopt;
}

/// As the solver decides, without its random tests.
bool equal(Formulas& formulas, SymbolicValue a, SymbolicValue b) {
  const TimeLimit limit{std::chrono::steady_clock::now() + std::chrono::milliseconds(50)};
  const auto assumed = formulas.conditions_of({&a, 1});
  const auto needed = formulas.conditions_of({&b, 1});
  const auto both = together(formulas, assumed, needed);
  const Polynomial difference = formulas.without_denominators(formulas[a] - formulas[b], formulas.defined_by(both));
  if (!formulas.failure().empty()) return false;
  if (!difference.empty() && !Cases(formulas, limit).vanishes(difference, both)) return false;
  return !not_implied(formulas, assumed, needed, limit);
}

std::string to_string(const Program& program, const Formulas& formulas, SymbolicValue a, SymbolicValue b,
                      const Point& at) {
  std::string text;
  size_t id = kInputs;
  for (const Instruction& i : program) {
    text += fmt::format("v{} = op{}({}, {}, {}; {})\n", id++, static_cast<int>(i.op), i.from[0], i.from[1], i.from[2],
                        i.constant.to_string());
  }
  return text + formulas.to_string(formulas[a]).substr(0, 500) + "\n" + formulas.to_string(formulas[b]).substr(0, 500) +
         fmt::format("\nat {}, {}, {}", at[0], at[1], at[2]);
}

TEST(Refutation, RewrittenProgramsThatFormulasCallEqualAreSo) {
  Random random(11);
  int equivalent = 0;
  for (int test = 0; test < rounds(2000); ++test) {
    Writer writer(random);
    for (size_t n = 1 + random.below(3); n > 0; --n) writer.piece();
    const size_t a = kInputs + writer.program.size() - 1;
    writer.rewrite(a);
    const size_t b = kInputs + writer.program.size() - 1;
    Formulas formulas({.terms = 200});
    SymbolicArithmetic symbolic{formulas};
    std::vector<SymbolicValue> values;
    for (size_t i = 0; i < kInputs; ++i) values.push_back(formulas.input(std::string(1, static_cast<char>('x' + i))));
    values = executed(symbolic, writer.program, values);
    if (!formulas.failure().empty()) continue;
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      // What float64 refutes is asked about as well: nothing is left out.
      if (!equal(formulas, values[from], values[to])) continue;
      ++equivalent;
      const auto at = refuted(writer.program, from, to, random);
      ASSERT_FALSE(at) << "v" << from << " and v" << to << "\n"
                       << to_string(writer.program, formulas, values[from], values[to], *at);
    }
  }
  RecordProperty("equivalent", equivalent);
  EXPECT_GT(equivalent, rounds(300));
}

/// Many values over the same inputs: whatever two have one formula.
TEST(Refutation, ProgramsOfOneFormulaAreEqual) {
  Random random(12);
  int equivalent = 0;
  for (int pool = 0; pool < 60; ++pool) {
    Writer writer(random);
    Formulas formulas({.terms = 200});
    SymbolicArithmetic symbolic{formulas};
    std::vector<SymbolicValue> values;
    for (size_t i = 0; i < kInputs; ++i) values.push_back(formulas.input(std::string(1, static_cast<char>('x' + i))));
    size_t valid = 0;
    while (writer.program.size() < 40 && formulas.failure().empty()) {
      valid = writer.program.size();
      writer.piece();
      while (values.size() < kInputs + writer.program.size()) {
        values.push_back(apply(symbolic, writer.program[values.size() - kInputs], values));
      }
    }
    if (!formulas.take_failure().empty()) writer.program.resize(valid);
    values.resize(kInputs + writer.program.size());
    std::map<Polynomial, size_t> first;
    for (size_t b = 0; b < values.size(); ++b) {
      const auto [it, added] = first.emplace(formulas[values[b]], b);
      if (added) continue;
      for (const auto& [from, to] : {std::pair{it->second, b}, std::pair{b, it->second}}) {
        if (!equal(formulas, values[from], values[to])) continue;
        ++equivalent;
        const auto at = refuted(writer.program, from, to, random);
        ASSERT_FALSE(at) << "v" << from << " and v" << to << "\n"
                         << to_string(writer.program, formulas, values[from], values[to], *at);
      }
    }
  }
  RecordProperty("equivalent", equivalent);
  EXPECT_GT(equivalent, 300);
}

}  // namespace
}  // namespace strata
