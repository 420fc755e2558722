// Shapes of HLO values: arrays with a layout, tuples, tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hlo/element_type.h"

namespace strata::hlo {

/// An array (type, dimensions, layout), a tuple (elements) or a token.
struct Shape {
  ElementType type = ElementType::F32;
  std::vector<int64_t> dims;            ///< sizes, outermost first in logical order
  std::vector<int64_t> minor_to_major;  ///< the dimensions from the innermost in memory; always of the rank's length
  std::vector<Shape> elements;          ///< of a tuple

  bool is_tuple() const { return type == ElementType::Tuple; }
  bool is_array() const { return hlo::is_array(type); }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t dim(int64_t i) const { return dims[static_cast<size_t>(i)]; }
  /// The product of the sizes, 1 for a scalar. The parser refuses arrays where it does not fit 63 bits.
  int64_t element_count() const;
  /// Whether the last dimension is the innermost, and so on: the layout that text without one means.
  bool has_default_layout() const;

  /// Layouts too; see same_shape().
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// An array in the default layout.
Shape array_shape(ElementType type, std::vector<int64_t> dims);
Shape array_shape(ElementType type, std::vector<int64_t> dims, std::vector<int64_t> minor_to_major);
Shape tuple_shape(std::vector<Shape> elements);
Shape token_shape();
/// {rank - 1, …, 1, 0}.
std::vector<int64_t> default_layout(size_t rank);

/// Equal but for layouts.
bool same_shape(const Shape& a, const Shape& b);
/// Arrays of the same sizes, of whatever types and layouts.
bool same_dims(const Shape& a, const Shape& b);
/// Strides in elements of each dimension in row-major order, whatever the layout: how a Literal stores its elements.
std::vector<int64_t> row_major_strides(const std::vector<int64_t>& dims);
/// Strides in elements of each dimension in memory, from the layout.
std::vector<int64_t> memory_strides(const Shape& shape);

/// "f32[2,3]{1,0}", "(f32[], s32[4]{0})", "token[]"; layouts of scalars are left out.
std::string to_string(const Shape& shape);
/// Without layouts: "f32[2,3]".
std::string to_string_without_layout(const Shape& shape);

}  // namespace strata::hlo
