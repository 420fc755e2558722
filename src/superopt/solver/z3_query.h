// Whether inputs exist that satisfy equations and inequalities between formulas, asked of Z3 (nonlinear arithmetic over
// the reals).
#pragma once

#include <map>
#include <stop_token>

#include "superopt/solver/formulas.h"

namespace strata {

enum class Relation : uint8_t { Zero, NotZero, Negative, NotNegative };

struct Constraint {
  Polynomial f;
  Relation relation;
  Polynomial guard = one();  ///< asked for where this is not 0
};

enum class Satisfiable { No, Yes, Unknown };

struct TimeLimit {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop{};

  double seconds_left() const;
  bool up() const { return stop.stop_requested() || seconds_left() <= 0; }
};

struct Z3Answer {
  Satisfiable satisfiable = Satisfiable::Unknown;
  std::map<AtomId, double> inputs;  ///< of a solution; exponentials in it may be none of real numbers
  std::string reason;               ///< of Unknown
};

std::vector<Constraint> constraints_of(const std::vector<Condition>& conditions);

/// `No` is certain. Roots and quotients are taken to be defined if they are in `defined`; where others are not, they
/// may be any number.
Z3Answer satisfiable(const Formulas& formulas, const std::vector<Constraint>& constraints, const Defined& defined,
                     const TimeLimit& limit);

}  // namespace strata
