#include "superopt/solver/z3_query.h"

#include <z3++.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "ops/op_def.h"
#include "support/child_process.h"
#include "support/deadline.h"

namespace strata {
namespace {

/// Pairs of exponentials beyond which the axiom that they grow with their arguments is left out.
constexpr size_t kMostMonotone = 6;
constexpr int64_t kMostExponent = 64;
/// Seconds of a tactic's first turn.
constexpr double kFirstTurn = 0.25;
/// Memory that one query may take.
constexpr int kMostMegabytes = 4096;
constexpr const char* kExponent = "an exponent is above 64";

class Encoder {
 public:
  Encoder(const Formulas& formulas, const Defined& defined, const char* tactic)
      : formulas_(formulas), defined_(defined), solver_(z3::tactic(context_, tactic).mk_solver()) {}

  Z3Answer run(const std::vector<Constraint>& constraints) {
    Z3Answer answer;
    try {
      for (const Constraint& constraint : constraints) {
        find_exponents(constraint.f);
        find_exponents(constraint.guard);
      }
      for (const Constraint& constraint : constraints) add(constraint);
      state_monotony();
      switch (solver_.check()) {
        case z3::unsat:
          answer.satisfiable = Satisfiable::No;
          break;
        case z3::sat:
          answer.satisfiable = Satisfiable::Yes;
          read_model(answer);
          break;
        case z3::unknown:
          answer.reason = solver_.reason_unknown();
      }
    } catch (const z3::exception& error) {
      answer.satisfiable = Satisfiable::Unknown;
      answer.reason = error.msg();
    }
    return answer;
  }

 private:
  z3::expr number(const Number& n) { return context_.real_val(n.num) / context_.real_val(n.den); }
  z3::expr fresh() { return context_.real_const(fmt::format("v{}", fresh_++).c_str()); }

  /// Exponentials occur with fractions as exponents: what is encoded is the root by which all are whole.
  void find_exponents(const Polynomial& f) {
    for (const Term& term : f) {
      for (const Factor& factor : term.monomial) {
        auto [it, first] = roots_.try_emplace(factor.atom, 1);
        const int64_t more = factor.exponent.den / std::gcd(it->second, factor.exponent.den);
        if (more > kMostExponent || (it->second *= more) > kMostExponent) throw z3::exception(kExponent);
        if (!first) continue;
        for (const Polynomial& argument : formulas_.atom(factor.atom).arguments) find_exponents(argument);
      }
    }
  }

  z3::expr power(const z3::expr& base, int64_t exponent) {
    z3::expr result = base;
    for (int64_t i = 1; i < exponent; ++i) result = result * base;
    return result;
  }

  z3::expr factor(const Factor& f) {
    const z3::expr base = atom(f.atom);
    if (std::abs(f.exponent.num) > kMostExponent) throw z3::exception(kExponent);
    const int64_t exponent = f.exponent.num * (roots_.at(f.atom) / f.exponent.den);
    if (std::abs(exponent) > kMostExponent) throw z3::exception(kExponent);
    if (exponent > 0) return power(base, exponent);
    auto it = inverses_.find(f.atom);
    if (it == inverses_.end()) {
      it = inverses_.emplace(f.atom, fresh()).first;
      const bool nonzero = formulas_.positive_atom(f.atom) || defined_.nonzero.count(f.atom) != 0;
      define(nonzero, base != 0, it->second * base == 1);
    }
    return power(it->second, -exponent);
  }

  z3::expr encode(const Polynomial& f) {
    z3::expr sum = context_.real_val(0);
    bool first = true;
    for (const Term& term : f) {
      z3::expr product = number(term.coefficient);
      for (const Factor& x : term.monomial) product = product * factor(x);
      sum = first ? product : sum + product;
      first = false;
    }
    return sum;
  }

  /// What is true of a root or reciprocal, where it is defined.
  void define(bool always, const z3::expr& where, const z3::expr& truth) {
    solver_.add(always ? truth : z3::implies(where, truth));
  }

  z3::expr atom(AtomId id) {
    if (const auto it = atoms_.find(id); it != atoms_.end()) return it->second;
    const Atom& of = formulas_.atom(id);
    std::vector<z3::expr> arguments;
    for (const Polynomial& f : of.arguments) arguments.push_back(encode(f));
    z3::expr value = of.kind == AtomKind::Input ? context_.real_const(fmt::format("x{}", id).c_str()) : fresh();
    atoms_.emplace(id, value);
    switch (of.kind) {
      case AtomKind::Input:
        break;
      case AtomKind::Exp:
        describe_exponential(id, value, arguments[0]);
        break;
      case AtomKind::Root:
        define(defined_.atoms.count(id) != 0 || formulas_.nonnegative(of.arguments[0]), arguments[0] >= 0,
               value >= 0 && value * value == arguments[0]);
        break;
      case AtomKind::Abs:
        solver_.add(value == z3::ite(arguments[0] >= 0, arguments[0], -arguments[0]));
        break;
      case AtomKind::Max: {
        z3::expr_vector equal(context_);
        for (const z3::expr& argument : arguments) {
          solver_.add(value >= argument);
          equal.push_back(value == argument);
        }
        solver_.add(z3::mk_or(equal));
        break;
      }
      case AtomKind::Positive:
        solver_.add(value == z3::ite(arguments[0] > 0, context_.real_val(1), context_.real_val(0)));
        break;
      case AtomKind::Inverse:
        define(defined_.atoms.count(id) != 0 || formulas_.positive(of.arguments[0]), arguments[0] != 0,
               value * arguments[0] == 1);
        break;
    }
    return value;
  }

  /// exp is no polynomial: a variable with what the operator table says of it, and its tangent at 0.
  void describe_exponential(AtomId id, const z3::expr& value, const z3::expr& argument) {
    const Algebra& algebra = op_def(OpKind::Exp).traits.algebra;
    if (algebra.positive) solver_.add(value > 0);
    if (algebra.increasing) {
      solver_.add((argument > 0) == (value > 1));
      solver_.add((argument < 0) == (value < 1));
    }
    const z3::expr whole = power(value, roots_.at(id));
    solver_.add(whole >= argument + 1);
    exponentials_.emplace_back(argument, whole);
  }

  void state_monotony() {
    if (!op_def(OpKind::Exp).traits.algebra.increasing || exponentials_.size() > kMostMonotone) return;
    for (size_t i = 0; i < exponentials_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const auto& [x, ex] = exponentials_[i];
        const auto& [y, ey] = exponentials_[j];
        solver_.add((x < y) == (ex < ey));
        solver_.add((x > y) == (ex > ey));
      }
    }
  }

  z3::expr relation(const Constraint& constraint) {
    const z3::expr f = encode(constraint.f);
    switch (constraint.relation) {
      case Relation::Zero:
        return f == 0;
      case Relation::NotZero:
        return f != 0;
      case Relation::Negative:
        return f < 0;
      case Relation::NotNegative:
        return f >= 0;
    }
    return context_.bool_val(true);
  }

  void add(const Constraint& constraint) {
    const z3::expr holds = relation(constraint);
    if (constraint.guard == one()) return solver_.add(holds);
    solver_.add(z3::implies(encode(constraint.guard) != 0, holds));
  }

  void read_model(Z3Answer& answer) {
    const z3::model model = solver_.get_model();
    for (const auto& [id, value] : atoms_) {
      if (formulas_.atom(id).kind != AtomKind::Input) continue;
      std::string text = model.eval(value, true).get_decimal_string(17);
      if (!text.empty() && text.back() == '?') text.pop_back();
      answer.inputs[id] = std::strtod(text.c_str(), nullptr);
    }
  }

  const Formulas& formulas_;
  const Defined& defined_;
  z3::context context_;
  z3::solver solver_;
  std::map<AtomId, int64_t> roots_;
  std::map<AtomId, z3::expr> atoms_;
  std::map<AtomId, z3::expr> inverses_;
  std::vector<std::pair<z3::expr, z3::expr>> exponentials_;
  int fresh_ = 0;
};

/// An answer as text, for the way from one process to another.
std::string written(const Z3Answer& answer) {
  std::string text = fmt::format("{}\n{}\n", static_cast<int>(answer.satisfiable), answer.inputs.size());
  for (const auto& [id, value] : answer.inputs) text += fmt::format("{} {:a}\n", id, value);
  return text + answer.reason;
}

Z3Answer read(const std::string& text) {
  Z3Answer answer;
  std::istringstream stream(text);
  int satisfiable = 0;
  size_t inputs = 0;
  stream >> satisfiable >> inputs;
  answer.satisfiable = static_cast<Satisfiable>(satisfiable);
  for (; inputs > 0; --inputs) {
    AtomId id{};
    std::string value;  // a stream reads no hexadecimal number
    stream >> id >> value;
    answer.inputs[id] = std::strtod(value.c_str(), nullptr);
  }
  std::getline(stream >> std::ws, answer.reason, '\0');
  return answer;
}

}  // namespace

double TimeLimit::seconds_left() const {
  if (deadline == std::chrono::steady_clock::time_point::max()) return HUGE_VAL;
  return std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count();
}

std::vector<Constraint> constraints_of(const std::vector<Condition>& conditions) {
  std::vector<Constraint> constraints;
  for (const Condition& c : conditions) {
    constraints.push_back({c.f, c.nonzero ? Relation::NotZero : Relation::NotNegative, c.guard});
  }
  return constraints;
}

Z3Answer satisfiable(const Formulas& formulas, const std::vector<Constraint>& constraints, const Defined& defined,
                     const TimeLimit& limit) {
  // Z3's own strategy for real arithmetic limits the time of its tactics by timers that now and then block for ever in
  // the version of Debian 12, and its algebraic numbers cannot always be interrupted. So its tactics are chosen here,
  // and each runs in a process that can be killed. Nothing else uses Z3 in this one: no lock of it is held at a fork.
  // Which tactic is the faster is not known: they take turns, each with more time than before.
  Z3Answer answer{Satisfiable::Unknown, {}, "time is up"};
  std::vector<const char*> tactics{"qfnra-nlsat", "smt"};
  for (double seconds = kFirstTurn; !tactics.empty(); seconds *= 4) {
    for (auto tactic = tactics.begin(); tactic != tactics.end();) {
      if (limit.up()) return answer;
      const Deadline deadline(std::min(seconds, limit.seconds_left()), limit.stop);
      const auto text = in_child_process(deadline.token(), [&] {
        z3::set_param("memory_max_size", kMostMegabytes);
        return written(Encoder(formulas, defined, *tactic).run(constraints));
      });
      if (text) answer = read(*text);
      if (answer.satisfiable != Satisfiable::Unknown) return answer;
      const bool gave_up = text || !deadline.token().stop_requested();
      tactic = gave_up ? tactics.erase(tactic) : std::next(tactic);
    }
  }
  return answer;
}

}  // namespace strata
