// Where the values of a while loop lie in each of its iterations, so that they are not copied from one to the next.
#pragma once

#include <cstdint>
#include <vector>

namespace strata {

/// What an iteration makes of the state's arrays (its leaves, hlo::leaf_of).
struct LoopFlow {
  struct Leaf {
    enum class Next : uint8_t {
      Carried,  ///< the value of leaf `from` of the same iteration
      Written,  ///< the body's array `from`
      Constant  ///< the body's array `from`, which is never written
    };
    int64_t bytes = 0;
    Next next = Next::Carried;
    int from = 0;
    int in_place_of = -1;  ///< Written: it may lie where the value of this leaf lies, which nothing reads any more then
    bool wanted = true;    ///< the loop has a result for it
    bool fresh = false;  ///< of an in_place_of: its first value lies where the result is to lie, and may be written to
    bool counter = false;  ///< its values are known beforehand, and lie one after the other
  };
  std::vector<Leaf> leaves;
  int64_t count = 0;  ///< iterations
};

struct LoopPlace {
  enum class Kind : uint8_t {
    Initial,   ///< of leaf `number`: read only
    Result,    ///< of leaf `number`
    Scratch,   ///< array `number` of LoopBuffers::scratch_bytes
    Constant,  ///< array `number` of the body
    Counter    ///< number `number` of the counter's values
  };
  Kind kind = Kind::Initial;
  int number = 0;
  bool operator==(const LoopPlace&) const = default;
};

struct LoopBuffers {
  std::vector<int64_t> scratch_bytes;
  /// By iteration, then by leaf: where the value lies that iteration k reads; states[k + 1] is where it writes those
  /// that it writes. The last is the result: where it is not in Result of its own leaf, it is to be copied there.
  std::vector<std::vector<LoopPlace>> states;
};

/// Values are given places from the last iteration back, so that results are written where they are to lie. A value
/// shares its place with another only where no iteration reads the one after the other was written.
LoopBuffers plan_loop_buffers(const LoopFlow& flow);

}  // namespace strata
