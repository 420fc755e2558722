// The generator (Mirage, OSDI'25, Algorithm 1): enumerates µGraphs in canonical order, prunes with shapes, memory and
// abstract expressions, and compares what computes the program's expressions on random field inputs.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "machine/target.h"

namespace strata {

class Checkpoint;

/// What is not searched, and which graphs that loses. Each rule can be turned off; pruning_rules_test.cpp holds the
/// search with each off and each on alone against plain enumeration.
struct PruningRules {
  /// Abstract expressions that are no subexpression of the program's: loses what the axioms do not prove. Values
  /// between kernels always keep to it.
  bool expression = true;
  /// Grid and loop dimensions that cut more than one axis: loses kernels that walk two axes at once which nothing in
  /// the program ties to each other, as the two of sum(X) + sum(Y).
  bool maps = true;
  /// Values whose index sets cannot become the program's: loses nothing more. Without `maps` or `expression` it has
  /// nothing to go by.
  bool axes = true;
  /// Products of sums, taken element by element, computed term by term: loses these, which are slower. A part of
  /// `axes`.
  bool products = true;
  /// Grids that leave the device empty, tiles too narrow for its units: loses these, which are slower.
  bool sizes = true;
  /// Kernel graphs that cannot be faster than the best found with fewer kernels: never loses the cheapest.
  bool cost = true;
  /// Exponentials without the maximum that the program subtracts: loses these, which overflow.
  bool stability = true;
};

struct SearchOptions {
  const Target* target = nullptr;
  int threads = 1;
  int max_kernel_ops = 5;
  /// Operators of a block graph, not counting input iterators and output savers.
  int max_block_ops = 11;
  double time_limit = 50;  ///< seconds, which leaves ten of a minute for proofs and code; 0: none
  uint64_t seed = 1;
  std::shared_ptr<Checkpoint> checkpoint;  ///< to resume from and to keep finished work in; null: none
  /// A slice of the space: of the units of work, those whose name hashes to shard_index modulo shard_count. Their
  /// results are in the checkpoint; merge_checkpoints (checkpoint.h) joins slices, and a search of all units reads
  /// them.
  int shard_index = 0;
  int shard_count = 1;
  PruningRules rules;
  /// All graphs of one kernel, where otherwise of each number of kernels the 512 cheapest are kept, and of the ways to
  /// make a value the shortest are looked at. For small programs: the number is exponential.
  bool keep_all = false;
  std::stop_token stop{};
};

struct SearchStatistics {
  double seconds = 0;
  int threads = 1;
  int64_t generated = 0;  ///< operators tried: states of the enumeration
  int64_t pruned_shape = 0;
  int64_t pruned_memory = 0;
  int64_t pruned_expression = 0;
  int64_t pruned_axes = 0;
  int64_t pruned_stability = 0;
  int64_t verified = 0;      ///< complete graphs, sizes apart, that equal the program on the search's random test
  int64_t rejected = 0;      ///< layouts of a value with the right expression that differ from it on that test
  int64_t spaces_total = 0;  ///< units of work: (kernel prefix, grid, loop) spaces
  int64_t spaces_searched = 0;
};

/// Sums of all but the number of threads.
SearchStatistics& operator+=(SearchStatistics& total, const SearchStatistics& more);

/// Why the search ended; a limit never reads as "none exists".
enum class StopReason { Exhausted, TimeLimit, Interrupted };
std::string_view name_of(StopReason reason);

struct SearchProgress {
  SearchStatistics statistics;
  double best_seconds = 0;  ///< estimated time of the best so far; 0: none yet
};

struct SearchResult {
  std::vector<GraphPtr> graphs;  ///< screened, canonical, without duplicates; cheapest first, ties by text
  SearchStatistics statistics;
  StopReason stop_reason = StopReason::Exhausted;
  std::string left_out;  ///< one line: which part of the space was skipped, and why that loses nothing or may
};

/// Deterministic in its result for any number of threads, unless a time limit or stop ends it.
Result<SearchResult> search(const GraphPtr& program, const SearchOptions& options,
                            const std::function<void(const SearchProgress&)>& progress = {});

}  // namespace strata
