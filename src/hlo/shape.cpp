#include "hlo/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace strata::hlo {
namespace {

void append(std::string& text, const Shape& shape, bool layouts) {
  if (shape.is_tuple()) {
    text += '(';
    for (size_t i = 0; i < shape.elements.size(); ++i) {
      if (i > 0) text += ", ";
      append(text, shape.elements[i], layouts);
    }
    text += ')';
    return;
  }
  text += fmt::format("{}[{}]", name(shape.type), fmt::join(shape.dims, ","));
  if (layouts && shape.rank() > 0) text += fmt::format("{{{}}}", fmt::join(shape.minor_to_major, ","));
}

std::string text(const Shape& shape, bool layouts) {
  std::string result;
  append(result, shape, layouts);
  return result;
}

}  // namespace

struct ElementShapes::List {
  std::vector<Shape> shapes;
  int depth = 1;
  int64_t total = 0;
  std::vector<int64_t> first_leaves;  ///< of each, and all of them
};

ElementShapes::ElementShapes(std::vector<Shape> shapes) {
  if (shapes.empty()) return;
  List list;
  list.shapes = std::move(shapes);
  list.first_leaves = {0};
  for (const Shape& shape : list.shapes) {
    list.first_leaves.push_back(std::min(list.first_leaves.back() + leaf_count(shape), kManyShapes));
    list.depth = std::max(list.depth, shape.elements.depth() + 1);
    list.total = std::min(list.total + 1 + shape.elements.total(), kManyShapes);
  }
  list_ = std::make_shared<const List>(std::move(list));
}

const std::vector<Shape>& ElementShapes::list() const {
  static const std::vector<Shape> kNone;
  return list_ ? list_->shapes : kNone;
}

size_t ElementShapes::size() const { return list().size(); }
int ElementShapes::depth() const { return list_ ? list_->depth : 0; }
int64_t ElementShapes::total() const { return list_ ? list_->total : 0; }
int64_t ElementShapes::leaves() const { return list_ ? list_->first_leaves.back() : 0; }
int64_t ElementShapes::first_leaf(size_t i) const { return list_ ? list_->first_leaves[i] : 0; }

int64_t leaf_count(const Shape& shape) { return shape.is_tuple() ? shape.elements.leaves() : 1; }

size_t element_with_leaf(const Shape& shape, int64_t leaf) {
  // The last element that begins at the leaf or before: empty tuples before it have none.
  size_t low = 0;
  size_t high = shape.elements.size();
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (shape.elements.first_leaf(middle) <= leaf ? low : high) = middle;
  }
  return low;
}

const Shape& leaf_of(const Shape& shape, int64_t leaf) {
  const Shape* at = &shape;
  while (at->is_tuple()) {
    const size_t i = element_with_leaf(*at, leaf);
    leaf -= at->elements.first_leaf(i);
    at = &at->elements[i];
  }
  return *at;
}

bool operator==(const ElementShapes& a, const ElementShapes& b) {
  return a.is(b) || std::equal(a.begin(), a.end(), b.begin(), b.end());
}

int64_t Shape::element_count() const {
  int64_t count = 1;
  for (int64_t size : dims) count *= size;
  return count;
}

bool Shape::has_default_layout() const { return minor_to_major == default_layout(dims.size()); }

std::vector<int64_t> default_layout(size_t rank) {
  std::vector<int64_t> layout(rank);
  for (size_t i = 0; i < rank; ++i) layout[i] = static_cast<int64_t>(rank - 1 - i);
  return layout;
}

Shape array_shape(ElementType type, std::vector<int64_t> dims) {
  auto layout = default_layout(dims.size());
  return {type, std::move(dims), std::move(layout), {}};
}

Shape array_shape(ElementType type, std::vector<int64_t> dims, std::vector<int64_t> minor_to_major) {
  return {type, std::move(dims), std::move(minor_to_major), {}};
}

Shape with_transposed_matrices(const Shape& shape) {
  std::vector<int64_t> dims = shape.dims;
  std::swap(dims[dims.size() - 2], dims.back());
  return array_shape(shape.type, std::move(dims));
}

std::vector<int64_t> transposed_matrices_order(int64_t rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 2], order.back());
  return order;
}

Shape tuple_shape(std::vector<Shape> elements) { return {ElementType::Tuple, {}, {}, std::move(elements)}; }
Shape token_shape() { return {ElementType::Token, {}, {}, {}}; }

bool same_shape(const Shape& a, const Shape& b) {
  if (a.type != b.type || a.dims != b.dims || a.elements.size() != b.elements.size()) return false;
  if (a.elements.is(b.elements)) return true;
  for (size_t i = 0; i < a.elements.size(); ++i) {
    if (!same_shape(a.elements[i], b.elements[i])) return false;
  }
  return true;
}

bool same_dims(const Shape& a, const Shape& b) { return a.is_array() && b.is_array() && a.dims == b.dims; }

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

std::vector<int64_t> memory_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.dims.size(), 1);
  int64_t stride = 1;
  for (int64_t d : shape.minor_to_major) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= shape.dim(d);
  }
  return strides;
}

std::string to_string(const Shape& shape) { return text(shape, true); }
std::string to_string_without_layout(const Shape& shape) { return text(shape, false); }

}  // namespace strata::hlo
