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
};

enum class Satisfiable { No, Yes, Unknown };

struct Z3Answer {
  Satisfiable satisfiable = Satisfiable::Unknown;
  std::map<AtomId, double> inputs;  ///< of a solution; exponentials in it may be none of real numbers
  std::string reason;               ///< of Unknown
};

/// `No` is certain. Roots and quotients that occur are taken to be defined.
Z3Answer satisfiable(const Formulas& formulas, const std::vector<Constraint>& constraints, double seconds,
                     const std::stop_token& stop = {});

}  // namespace strata
