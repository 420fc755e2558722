// Static checks of the maps that a kernel writes and reads by, cheap enough for every compilation.
#pragma once

#include "indexing/indexing_map.h"

namespace strata::indexing {

struct Verdict {
  enum class Kind {
    ProvedByStructure,    ///< from ranges and the form of the expressions
    ProvedByEnumeration,  ///< by trying all points of the domain
    Refuted,              ///< `reason` has a counterexample
    Unknown,              ///< too many points to try
  };
  Kind kind = Kind::Unknown;
  std::string reason;

  bool proved() const { return kind == Kind::ProvedByStructure || kind == Kind::ProvedByEnumeration; }
};

/// As many points as are tried where nothing follows from structure: about a millisecond.
inline constexpr int64_t kMaxPoints = 1 << 14;

/// Whether every element of `shape` is written by exactly one point of the domain and nothing outside of it is. Proved
/// by structure where the results, or their row-major position, are sums of multiples of independent digits of the
/// variables (v, v floordiv a, v mod b, (v floordiv a) mod b) that count through an interval without gaps or
/// repetition, and each constraint cuts such a sum off. The map must have no runtime variables, else Unknown.
Verdict writes_bijectively(const IndexingMap& map, const std::vector<int64_t>& shape, int64_t max_points = kMaxPoints);

/// Whether no point of the domain reads outside of `shape`, whatever the runtime variables are.
Verdict reads_in_bounds(const IndexingMap& map, const std::vector<int64_t>& shape, int64_t max_points = kMaxPoints);

}  // namespace strata::indexing
