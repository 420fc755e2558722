// Which instructions of a module become one kernel.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "emitters/decision.h"
#include "hlo/hlo.h"
#include "support/error.h"

namespace strata::emitters {

/// An array: the value of an instruction, or an element of its tuple (element is 0 otherwise).
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

/// The array that an instruction's value is: through get-tuple-element and tuple. Nothing for other tuples.
std::optional<ArrayValue> resolve(const hlo::Computation& computation, hlo::InstructionId id, int element = 0);

/// Cuts the entry of a module without calls (hlo/inline_calls.h) into parts in an order in which they can run.
/// Groups begin as single instructions; while some pair of a producer and a consumer saves time as one kernel (bytes
/// that are neither written nor read, against what is computed again), the pair that saves most is joined. Constants,
/// iota and broadcasts of constants belong to every group that uses them.
std::vector<ProgramPart> fuse(const hlo::Module& module, const Device& device);

}  // namespace strata::emitters
