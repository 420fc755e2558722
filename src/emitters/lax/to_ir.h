// A part of an HLO module as a program for the superoptimizer.
#pragma once

#include <vector>

#include "hlo/hlo.h"
#include "ir/graph.h"

namespace strata::emitters {

/// A program of predefined operators that computes what a computation does. All its tensors have one type: the
/// computation's 16-bit float type, if it has one, else its only type.
struct LaxProgram {
  GraphPtr graph;
  /// By argument of the graph, the computation's parameter whose memory it is: its elements, row-major.
  std::vector<int> inputs;
  /// By output of the graph, how the dimensions of the computation's result must be permuted for its elements to lie
  /// row-major as the output's do: dimension i is the result's dimension permutations[…][i].
  std::vector<std::vector<int64_t>> permutations;
  /// Whether values of 16-bit programs are f32 in HLO, and not only inputs or outputs that were converted: such a value
  /// must not lie between two kernels in the program's type.
  bool wide_values = false;
};

/// What becomes of results that no program has: reciprocals, repeated elements, inputs, the same tensor twice. Some
/// part that goes on with them may be a program. Unfinished: the tensor that they are made of is the result, or
/// nothing.
enum class LaxResults { Finished, Unfinished };

/// `computation` has no calls; its root is an array or a tuple of them. Error (Unsupported), naming an instruction:
/// what is no operator of src/ir, or has another type, another layout or no elements; products of f32 values that are
/// not exactly of the 16-bit type; results that are inputs, or that repeat elements.
///
/// Conversions between the 16-bit type and f32 are left out. To f32 they change no value. From f32 they round, and what
/// is left out is a rounding: src/ir computes in f32 within a kernel. Only what comes out of the program, what a matrix
/// product reads and what lies between kernels is rounded; of the first two HLO has the same roundings, and the third
/// is forbidden where `wide_values` says so.
Result<LaxProgram> lax_program(const hlo::Module& module, const hlo::Computation& computation,
                               LaxResults results = LaxResults::Finished);

}  // namespace strata::emitters
