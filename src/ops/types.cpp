#include "ops/types.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace strata {
namespace {

constexpr int64_t kLargestIota = int64_t{1} << 24;

}  // namespace

int64_t size_of(DType type) {
  switch (type) {
    case DType::F16:
    case DType::BF16:
      return 2;
    case DType::F32:
      return 4;
    case DType::F64:
      return 8;
  }
  return 0;
}

std::string_view name_of(DType type) {
  switch (type) {
    case DType::F16:
      return "f16";
    case DType::BF16:
      return "bf16";
    case DType::F32:
      return "f32";
    case DType::F64:
      return "f64";
  }
  return "?";
}

Result<DType> parse_dtype(std::string_view name) {
  for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    if (name == name_of(type)) return type;
  }
  return with_remedy(invalid("unknown element type '{}'; expected f16, bf16, f32 or f64", name),
                     "integers and booleans exist in HLO modules only");
}

tl::unexpected<Error> differing_types(DType a, DType b) {
  return with_remedy(invalid("element types {} and {} differ", name_of(a), name_of(b)),
                     "no operator converts: give all inputs one element type");
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count)) return std::numeric_limits<int64_t>::max();
  }
  return count;
}

Result<int64_t> checked_product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return invalid("{} times {} is no size of a tensor", a, b);
  return product;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return with_remedy(invalid("shapes {} and {} do not broadcast: {} against {} in dimension {} from the right",
                                 to_string(a), to_string(b), x, y, i),
                         "sizes must be equal or 1; reshape, transpose or repeat one of the two");
    }
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::vector<int64_t> broadcast_strides(const Shape& shape, size_t result_rank) {
  std::vector<int64_t> strides(result_rank, 0);
  int64_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t size = shape[shape.size() - 1 - i];
    strides[result_rank - 1 - i] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return strides;
}

std::string to_string(const TensorType& type) {
  std::string text = std::string(name_of(type.dtype)) + to_string(type.shape);
  if (!type.iota) return text;
  std::string attributes = fmt::format("dim={}", type.iota->dim);
  if (type.iota->start != Rational{}) attributes += ", start=" + type.iota->start.to_string();
  if (type.iota->step != 1) attributes += fmt::format(", step={}", type.iota->step);
  return fmt::format("iota({}) : {}", attributes, text);
}

Result<void> check_iota(const TensorType& type) {
  if (!type.iota) return {};
  const Iota& iota = *type.iota;
  if (iota.dim < 0 || iota.dim >= std::ssize(type.shape)) {
    return with_remedy(invalid("dim={} names no dimension of {}", iota.dim, to_string(type.shape)),
                       "the elements count along dimension dim, from 0");
  }
  if (iota.step == 0) return {};
  if (iota.start.den != 1) {
    return with_remedy(invalid("start={} is no integer", iota.start.to_string()),
                       "elements that count are integers; scale and add_constant make others of them");
  }
  const int64_t size = type.shape[static_cast<size_t>(iota.dim)];
  int64_t last = 0;
  const bool fits = !__builtin_mul_overflow(iota.step, size - 1, &last) &&
                    !__builtin_add_overflow(last, iota.start.num, &last) && std::abs(last) < kLargestIota &&
                    iota.start.num > -kLargestIota && iota.start.num < kLargestIota;
  if (!fits) {
    return with_remedy(invalid("the elements from start={} by step={} reach 2^24", iota.start.to_string(), iota.step),
                       "kernels count in f32, which holds integers below 2^24");
  }
  return {};
}

std::string_view name_of(Level level) {
  switch (level) {
    case Level::Kernel:
      return "kernel";
    case Level::Block:
      return "block";
    case Level::Thread:
      return "thread";
  }
  return "?";
}

}  // namespace strata
