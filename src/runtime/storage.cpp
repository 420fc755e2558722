#include "runtime/storage.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "ops/arithmetic.h"
#include "support/half.h"
#include "support/parallel.h"

namespace strata {
namespace {

template <class Stored, class Convert>
void put_all(std::string& bytes, const Tensor<double>& tensor, const Convert& convert) {
  bytes.resize(tensor.data.size() * sizeof(Stored));
  for_pieces(tensor.data.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const Stored stored = convert(tensor.data[i]);
      std::memcpy(bytes.data() + i * sizeof stored, &stored, sizeof stored);
    }
  });
}

template <class Stored>
Stored get(const std::string& bytes, size_t i) {
  Stored value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

}  // namespace

std::string encode(const Tensor<double>& tensor, DType type) {
  std::string bytes;
  switch (type) {
    case DType::F16:
      put_all<uint16_t>(bytes, tensor, [&](double value) { return double_to_half(round_to(value, type)); });
      break;
    case DType::BF16:
      put_all<uint16_t>(bytes, tensor, [&](double value) {
        return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(round_to(value, type))) >> 16);
      });
      break;
    case DType::F32:
      put_all<float>(bytes, tensor, [](double value) { return static_cast<float>(value); });
      break;
    case DType::F64:
      put_all<double>(bytes, tensor, [](double value) { return value; });
      break;
  }
  return bytes;
}

Tensor<double> decode(const std::string& bytes, const TensorType& type) {
  Tensor<double> tensor(type.shape);
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    switch (type.dtype) {
      case DType::F16:
        tensor.data[i] = half_to_double(get<uint16_t>(bytes, i));
        break;
      case DType::BF16:
        tensor.data[i] = std::bit_cast<float>(static_cast<uint32_t>(get<uint16_t>(bytes, i)) << 16);
        break;
      case DType::F32:
        tensor.data[i] = get<float>(bytes, i);
        break;
      case DType::F64:
        tensor.data[i] = get<double>(bytes, i);
        break;
    }
  }
  return tensor;
}

double tolerance(DType type) {
  switch (type) {
    case DType::F16:
      return 5e-3;
    case DType::BF16:
      return 3e-2;
    case DType::F32:
      return 1e-4;
    case DType::F64:
      return 1e-10;
  }
  return 0;
}

double relative_error(const Tensor<double>& found, const Tensor<double>& expected) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < expected.data.size(); ++i) {
    difference += (found.data[i] - expected.data[i]) * (found.data[i] - expected.data[i]);
    size += expected.data[i] * expected.data[i];
  }
  return std::sqrt(size > 0 ? difference / size : difference);
}

}  // namespace strata
