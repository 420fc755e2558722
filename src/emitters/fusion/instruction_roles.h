// What the fusion pass asks of instructions before it looks at costs.
#pragma once

#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// Instructions that have no kernel: they run alone, by the interpreter.
bool is_interpreted(const hlo::Instruction& it);

/// Instructions that run alone: by the interpreter, by a library (calls: library/calls.h), or products and convolutions
/// that stay kernels, but for products of few rows.
bool is_alone(const hlo::Computation& computation, hlo::InstructionId id);

bool is_sort(const hlo::Instruction& it);

/// What a sort may compute while it reads its operands: their elements lie as those of the instruction's operands do.
bool keeps_places(const hlo::Instruction& it);

/// Of each instruction whether its value is known beforehand and costs nothing to have again.
std::vector<bool> known_values(const hlo::Computation& computation);

/// Of each instruction whether the root needs it. Of what a tuple names only what somebody reads is.
std::vector<bool> used_values(const hlo::Computation& computation);

/// Of each instruction whether it is a reshape of a parameter that moves nothing, and whose readers all take it as an
/// index: each has it again, and none waits for a copy.
std::vector<bool> free_reshapes(const hlo::Computation& computation);

/// Whether a computation has a reduction that no single thread should compute, or several inside each other
/// (indexing::serial_terms).
bool sums_many_terms(const hlo::Computation& computation);

/// Of each long reduction (indexing::is_long_reduction) a number, which those have in common that one emitter computes
/// together (dimension_groups); kNoReduction of all others, kOtherReduction of products and scans.
inline constexpr int kNoReduction = -1, kOtherReduction = -2;
std::vector<int> long_reductions(const hlo::Computation& computation);

/// Whether an instruction counts as an operator beside a long reduction: no kernel has both where a thread would sum an
/// element by itself.
bool is_operator(const hlo::Instruction& it);

/// What only names values.
bool is_name(hlo::Opcode opcode);

/// Whether an instruction computes an array (`leaf` of a tuple, else 0) that one other instruction reads, be it as an
/// element of tuples, and nobody else.
bool is_read_once(const hlo::Computation& computation, hlo::InstructionId id, int64_t leaf);

}  // namespace strata::emitters
