// A loop as a block function: all its iterations, by blocks that stay and wait for each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/error.h"

namespace llvm {
class Module;
}

namespace strata::emitters {

/// Where an array of a work lies.
struct LoopSlot {
  enum class Kind : uint8_t {
    Buffer,   ///< buffer `number` of the function
    Current,  ///< the value `number` that an iteration reads
    Next      ///< the one that it makes
  };
  Kind kind = Kind::Buffer;
  int number = 0;
  auto operator<=>(const LoopSlot&) const = default;
};

/// What a step of the loop's body does.
struct LoopWork {
  enum class Kind : uint8_t { Call, Copy, Fill };
  Kind kind = Kind::Call;
  std::string function{};  ///< Call: the module has the block function NAME_block
  int64_t blocks = 0;      ///< Call
  int threads = 0;         ///< Call: of a block; whole warps where the function has barriers
  int64_t shared_bytes = 0;
  std::vector<LoopSlot> slots{};  ///< Call: its buffers. Copy: from, to. Fill: to
  int64_t bytes = 0;              ///< Copy, Fill
  std::string pattern{};          ///< Fill: 1, 2, 4, 8 or 16 bytes
};

/// Works that need not wait for each other.
struct LoopStage {
  bool serial = false;  ///< the block that comes last to the barrier before does it alone, and the others wait for it
  std::vector<LoopWork> works;
};

struct LoopFunction {
  /// An array of the state: buffers of the function, or none (-1).
  struct Value {
    /// Where the value lies that an iteration reads: the first ones one after the other, then those from `repeats` on
    /// by turns. It writes the next value where the next iteration reads it.
    std::vector<int> places;
    int before = -1;     ///< what is copied to the first place before all iterations
    int result = -1;     ///< where the last value is to lie
    int64_t stride = 0;  ///< of values that are known: all lie in the first place, at so many bytes from each other
    int64_t bytes = 0;
  };
  std::string name;
  int buffers = 0;  ///< the last has two counters of 32 bits, 0 before a run and after it
  std::vector<Value> values;
  int places = 3;  ///< of each value
  int repeats = 1;
  std::optional<int64_t> count;   ///< of iterations
  int answer = 0;                 ///< else the value, one byte, whose lowest bit says whether there is another one
  std::vector<LoopStage> stages;  ///< of an iteration; the first is not serial
  /// What an iteration begins with, as serial stages: it is done in the last barrier of the iteration before.
  std::vector<LoopStage> ahead;
  int64_t blocks = 1;  ///< 1: there are no others to wait for; else a launch may have fewer
  int threads = 0;
  int64_t shared_bytes = 0;  ///< of the function: see shared_bytes_of
};

/// Blocks of a work that one block of `threads` threads computes at the same time, in `shared_memory` bytes at most.
int64_t parts_of(const LoopWork& work, int threads, int64_t shared_memory);
/// Bytes of shared memory that the function takes for the works.
int64_t shared_bytes_of(const LoopFunction& loop, int64_t shared_memory);

/// Adds NAME_block to a module that has the works' block functions; each of these becomes a part of it. With more than
/// one block all have to run at the same time. Error where a block function is missing or not of that form
/// (InvalidInput), or waits in functions that it calls (Unsupported).
Result<void> add_loop_function(llvm::Module& module, const LoopFunction& loop);

}  // namespace strata::emitters
