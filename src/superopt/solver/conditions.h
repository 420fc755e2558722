// What programs need to be defined: which conditions bear on a formula, and whether some follow from others.
#pragma once

#include "superopt/solver/z3_query.h"

namespace strata {

/// Adds the atoms of f and of their arguments.
void find_atoms(const Formulas& formulas, const Polynomial& f, std::set<AtomId>& atoms);

std::vector<Condition> together(const Formulas& formulas, std::vector<Condition> a, const std::vector<Condition>& b);

/// The conditions that read an input of f. Without the others a proof is one as well, and sooner found.
std::vector<Condition> about(const Formulas& formulas, const std::vector<Condition>& conditions, const Polynomial& f);

/// The first of `needed` that is not shown to hold wherever all of `assumed` do, except for a set without volume.
std::optional<Condition> not_implied(Formulas& formulas, const std::vector<Condition>& assumed,
                                     const std::vector<Condition>& needed, const TimeLimit& limit);

}  // namespace strata
