// Values of HLO: what a constant holds and what the interpreter computes with.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "hlo/shape.h"

namespace strata::hlo {

/// A value of a shape. Elements lie in row-major order whatever the shape's layout, each in byte_width(type) bytes in
/// the machine's order (integers narrower than a byte are sign- or zero-extended to one, pred is 0 or 1, small floats
/// are their bits in the low end). Copies share the bytes, or the tuple's elements, until one is written.
class Literal {
 public:
  Literal() : Literal(token_shape()) {}
  /// Zeros; of a tuple: zeros in every element.
  explicit Literal(const Shape& shape);
  static Literal tuple(std::vector<Literal> elements);

  const Shape& shape() const { return shape_; }
  ElementType type() const { return shape_.type; }
  int64_t size() const { return shape_.element_count(); }
  /// Of a tuple; none otherwise.
  const std::vector<Literal>& elements() const;
  /// To write to; takes a copy first where another literal shares them.
  std::vector<Literal>& mutable_elements();

  const std::byte* bytes() const { return bytes_ ? bytes_->data() : nullptr; }
  /// To write to; takes a copy first where another literal shares the bytes.
  std::byte* mutable_bytes();
  size_t byte_size() const { return bytes_ ? bytes_->size() : 0; }

  /// The same elements, in row-major order, under another shape of the same type and number of elements.
  Literal with_shape(const Shape& shape) const;

  /// One element: T is of the class that the type is computed in (compute.h).
  template <class T>
  T get(int64_t index) const;
  template <class T>
  void set(int64_t index, T value);
  /// An integer or pred element, sign- or zero-extended.
  int64_t get_integer(int64_t index) const;

 private:
  Shape shape_;
  std::shared_ptr<std::vector<std::byte>> bytes_;
  std::shared_ptr<std::vector<Literal>> elements_;
};

/// The leaf of a literal (leaf_of of shape.h).
const Literal& leaf_of(const Literal& literal, int64_t leaf);

/// Equal shapes except for layouts, and bit-identical elements.
bool identical(const Literal& a, const Literal& b);

}  // namespace strata::hlo
