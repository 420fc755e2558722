// Values that are other arrays read in another order: no kernel is needed to have them where strides can be given.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// An instruction's value as elements of another instruction's array: strides of its dimensions there, in elements of
/// memory; 0 where elements are repeated.
struct MemoryView {
  hlo::InstructionId memory = 0;
  std::vector<int64_t> strides;
  int64_t offset = 0;   ///< of its first element
  bool inside = false;  ///< through a slice that is looked through because the array is in memory as a whole
};

/// Which slices are looked through.
enum class Slices {
  Filled,   ///< those that leave a little at the end of dimensions
  InMemory  ///< these, and any of parameters, tuples' elements and products, which are in memory as a whole anyway
};

/// All arrays that have the value's elements: through transposes, reshapes, bitcasts, copies, broadcasts and slices,
/// the one that is farthest up first; the last is the value itself.
std::vector<MemoryView> memory_views(const hlo::Computation& computation, hlo::InstructionId id,
                                     Slices slices = Slices::Filled);

/// What a value is followed through to the array that is read for it.
enum class Through {
  Views,     ///< operators that only move elements (memory_views), and conversions
  Elements,  ///< transposes, and what computes elements of elements at their places: of several operands, the first
             ///< that does not repeat its elements
};

/// The array farthest up whose elements a value has, or is computed of, and their strides there. Conversions are
/// passed, so that it may be of another type.
MemoryView source_in_memory(const hlo::Computation& computation, hlo::InstructionId id, Through through);

/// The value's dimensions of more than one element, from the one whose neighbours lie farthest apart in memory to the
/// one whose neighbours are next to each other, where source_in_memory has its elements. A dimension of repeated
/// elements stands outside of the dimensions that stand within it here.
std::vector<int64_t> order_in_memory(const hlo::Computation& computation, hlo::InstructionId id,
                                     Through through = Through::Views);

/// The stride of these dimensions as one, in this order, if they lie as one would; 0 where there is one element.
std::optional<int64_t> merged_stride(std::span<const int64_t> dimensions, const std::vector<int64_t>& sizes,
                                     const std::vector<int64_t>& strides);

}  // namespace strata::emitters
