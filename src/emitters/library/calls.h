// Products, convolutions, Fourier transforms, factors and solves of a module that CUDA's libraries compute.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hlo/hlo.h"
#include "machine/target.h"
#include "runtime/library_work.h"

namespace strata::emitters {

/// Which products and convolutions of a module are steps of CUDA's libraries: none, those that are faster than kernels
/// by the model, or all that the libraries take.
enum class LibraryUse { Never, WhereFaster, WherePossible };

/// Whether cuSOLVER and cuBLAS compute factors and solves of matrices, where they take less time than loops: never, as
/// on the CPU; where they are on this machine; or as if they were where the program will run.
enum class Solvers : uint8_t { None, WhereFound, Assumed };

/// What one launch of a library computes.
struct LibraryCall {
  LibraryWork work;
  /// Which of the call's operands each argument of the work but its result is.
  std::vector<int> arguments;
  double microseconds = 0;  ///< by the model
  std::string reason;
};

/// A module whose entry calls what libraries compute: calls by name, and for products and convolutions that stay
/// kernels why.
struct LibraryCalls {
  hlo::Module module;
  std::map<std::string, LibraryCall> calls;
  std::map<std::string, std::string> kept;
};

/// Puts each product and convolution of the entry that a library takes, and computes sooner than a kernel of the
/// emitters would (or any, if `use` says so), into a computation of its own that the entry calls; with it views of its
/// operands (memory_views.h) and what the library does behind it: a bias, relu, gelu. Operands that lie in no order
/// which the library takes are transposed by the entry before. Of Fourier transforms there are no kernels; nor of the
/// factors and solves that are there still, as hlo::expand_linear_algebra has left them (solvers.h). The entry has no
/// calls yet (hlo/inline_calls.h).
LibraryCalls find_library_calls(const hlo::Module& module, const Target& target, LibraryUse use);

/// Products on the types that libraries multiply fastest (narrow_products.h); products of vectors and of single terms
/// as products of elements and their sums, which fuse with what is around them; convolutions whose windows no library
/// has (padding of two kinds, dilated or reversed operands, one dimension) with the same done before them, where a
/// library takes them then; Fourier transforms that divide by their lengths with that undone behind them, and those of
/// several dimensions that stand one after the other as one; products in the order, and with rows of the length, that
/// libraries are fastest for (ordered_products.h, padded_products.h); convolutions with channels and filters of such
/// lengths (padded_convolutions.h).
hlo::Module prepare_for_libraries(const hlo::Module& module, const Target& target, LibraryUse use);

}  // namespace strata::emitters
