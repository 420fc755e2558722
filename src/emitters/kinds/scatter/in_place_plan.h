// Scatters whose updates meet the operand in place: how, and where they go.
#pragma once

#include <initializer_list>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/plan.h"

namespace strata::emitters {

/// How an update meets what is there.
enum class Write { Replace, Plain, Atomic };

struct ScatterPlan {
  hlo::InstructionId scatter = 0, indices = 0, updates = 0;
  Write write = Write::Atomic;
  Combiner combiner = Combiner::Custom;
  int64_t vector = 1;            ///< updates that lie together, as do their places; all are written or none
  indexing::IndexingMap visits;  ///< (block, thread)[unroll, vector] → index of the updates
  std::vector<indexing::IndexingMap> starts;  ///< index of the updates → of the indices, for each scattered dimension
  indexing::IndexingMap tests;     ///< (index of the updates…, starts…) → nothing, where the whole window fits
  indexing::IndexingMap position;  ///< the same, where it does → position in the output's memory
};

/// Unsupported where the root is no scatter into one array, or one of its operands `read` is an element of a tuple.
Result<void> check_scatter(const hlo::Computation& computation, std::initializer_list<size_t> read);

/// Of a fusion whose root is a scatter into one array, but for `visits`, which is the emitter's choice.
Result<ScatterPlan> plan_in_place(const Fusion& fusion);

/// (block, thread)[unroll] → index of the first element of each vector, of visits_of.
indexing::IndexingMap first_of_vectors(const indexing::IndexingMap& visits);

/// What a copy of so many bytes takes before a kernel, without its launch.
double copy_microseconds(const Target& target, double bytes);

/// What atomic updates take, whatever else their kernel does meanwhile: longer where they have no instructions or
/// vectors, and where many go to few places. 0 where none is atomic.
double atomic_microseconds(const ScatterPlan& plan, const hlo::Computation& computation, const Target& target);

/// What the result holds before, the updates and the places that they change move; atomic updates may take longer.
double microseconds_in_place(const ScatterPlan& plan, const hlo::Computation& computation,
                             const Preparation& preparation, const Target& target);

}  // namespace strata::emitters
