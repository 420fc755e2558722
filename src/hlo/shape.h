// Shapes of HLO values: arrays with a layout, tuples, tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hlo/element_type.h"

namespace strata::hlo {

struct Shape;

/// The shapes of a tuple's elements, which copies share: tuples of tuples cost no more to pass on than one list.
class ElementShapes {
 public:
  ElementShapes() = default;
  ElementShapes(std::vector<Shape> shapes);  // NOLINT(google-explicit-constructor): a list of shapes is one

  const std::vector<Shape>& list() const;
  const Shape* begin() const;
  const Shape* end() const;
  size_t size() const;
  bool empty() const { return list_ == nullptr; }
  const Shape& operator[](size_t i) const;
  const Shape& front() const;
  const Shape& back() const;
  /// Whether they are the same list, and so equal without a look at it.
  bool is(const ElementShapes& other) const { return list_ == other.list_; }
  /// How deep tuples are nested in each other, 0 where there is none; and the shapes in all of them, which is 2^n where
  /// n tuples have the one before twice (no more than kManyShapes is told).
  int depth() const;
  int64_t total() const;
  /// The arrays and tokens in all of them, and in those before element i.
  int64_t leaves() const;
  int64_t first_leaf(size_t i) const;

  friend bool operator==(const ElementShapes& a, const ElementShapes& b);

 private:
  struct List;
  std::shared_ptr<const List> list_;  ///< null where empty
};

/// What tuples may be: deeper or larger ones are errors of the text, since shapes are printed and compared as a whole.
constexpr int kMaxTupleDepth = 1000;
constexpr int64_t kManyShapes = int64_t{1} << 22;

/// An array (type, dimensions, layout), a tuple (elements) or a token.
struct Shape {
  ElementType type = ElementType::F32;
  std::vector<int64_t> dims;            ///< sizes, outermost first in logical order
  std::vector<int64_t> minor_to_major;  ///< the dimensions from the innermost in memory; always of the rank's length
  ElementShapes elements;               ///< of a tuple

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

inline const Shape* ElementShapes::begin() const { return list().data(); }
inline const Shape* ElementShapes::end() const { return begin() + size(); }
inline const Shape& ElementShapes::operator[](size_t i) const { return begin()[i]; }
inline const Shape& ElementShapes::front() const { return *begin(); }
inline const Shape& ElementShapes::back() const { return *(end() - 1); }

/// An array in the default layout.
Shape array_shape(ElementType type, std::vector<int64_t> dims);
Shape array_shape(ElementType type, std::vector<int64_t> dims, std::vector<int64_t> minor_to_major);

/// A batch of matrices, each transposed: the last two of at least two dimensions exchanged, row-major.
Shape with_transposed_matrices(const Shape& shape);
/// The permutation of a transpose that does so.
std::vector<int64_t> transposed_matrices_order(int64_t rank);
Shape tuple_shape(std::vector<Shape> elements);
Shape token_shape();
/// {rank - 1, …, 1, 0}.
std::vector<int64_t> default_layout(size_t rank);

/// The arrays and tokens of a shape, in order through tuples of tuples: 1 where it is none.
int64_t leaf_count(const Shape& shape);
const Shape& leaf_of(const Shape& shape, int64_t leaf);
/// The element of a tuple that has the leaf.
size_t element_with_leaf(const Shape& shape, int64_t leaf);

/// Equal except for layouts.
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
