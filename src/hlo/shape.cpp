#include "hlo/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace strata::hlo {
namespace {

std::string text(const Shape& shape, bool layouts) {
  if (shape.is_tuple()) {
    std::string result = "(";
    for (size_t i = 0; i < shape.elements.size(); ++i)
      result += (i == 0 ? "" : ", ") + text(shape.elements[i], layouts);
    return result + ")";
  }
  std::string result = fmt::format("{}[{}]", name(shape.type), fmt::join(shape.dims, ","));
  if (layouts && shape.rank() > 0) result += fmt::format("{{{}}}", fmt::join(shape.minor_to_major, ","));
  return result;
}

}  // namespace

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

Shape tuple_shape(std::vector<Shape> elements) { return {ElementType::Tuple, {}, {}, std::move(elements)}; }
Shape token_shape() { return {ElementType::Token, {}, {}, {}}; }

bool same_shape(const Shape& a, const Shape& b) {
  if (a.type != b.type || a.dims != b.dims || a.elements.size() != b.elements.size()) return false;
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
