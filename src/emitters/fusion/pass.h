// Which instructions of a module become one kernel.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "emitters/decision.h"
#include "hlo/hlo.h"
#include "support/error.h"

namespace strata::emitters {

/// An array: the value of an instruction, or a leaf of its tuple (hlo::leaf_of; 0 otherwise).
struct ArrayValue {
  hlo::InstructionId instruction = 0;
  int element = 0;
  auto operator<=>(const ArrayValue&) const = default;
};

/// A part of the entry as a module of its own, whose parameters are arrays.
struct ProgramPart {
  hlo::Module module;               ///< its entry is the fusion
  std::vector<ArrayValue> inputs;   ///< what its parameters are, by number; of the whole module's entry
  std::vector<ArrayValue> outputs;  ///< what the arrays of its root are
  bool interpreted = false;         ///< one instruction that has no kernel: the interpreter runs it
  double microseconds = 0;          ///< by the model
};

/// Estimated time of a module's entry as one kernel: bytes of its inputs and outputs over the bandwidth of memory, or
/// its operators, each as often as it is evaluated, over the rate of arithmetic, whichever is more; and the launch. How
/// often an instruction is evaluated follows from the indexing maps of its users: one element of a result reads so many
/// of the operand. What the emitter that would take the fusion computes once (Decision::heroes) counts once.
double estimated_microseconds(const hlo::Module& module, const Device& device);

/// The array that a leaf of an instruction's value is: through get-tuple-element and tuple. Nothing for tokens, and
/// where there is no such leaf.
std::optional<ArrayValue> resolve(const hlo::Computation& computation, hlo::InstructionId id, int leaf = 0);

/// What fuse() has done, for tests that count it.
struct FusionWork {
  int64_t instructions_rated = 0;  ///< of all groups whose time was estimated
};

/// Cuts the entry of a module without calls (hlo/inline_calls.h) into parts in an order in which they can run.
/// Groups begin as single instructions; while some pair of a producer and a consumer saves time as one kernel (bytes
/// that are neither written nor read, against what is computed again), the pair that saves most is joined. Constants,
/// iota and broadcasts of constants belong to every group that uses them.
/// Time is nearly linear: of an array that very many instructions read, only readers near each other are joined.
std::vector<ProgramPart> fuse(const hlo::Module& module, const Device& device, FusionWork* work = nullptr);

}  // namespace strata::emitters
