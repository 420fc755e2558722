#include "emitters/buffers.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "hlo/strided.h"

namespace strata::emitters {

Buffer::Buffer(size_t bytes) : size_(bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  bytes_.reset(memory);
  std::memset(memory, 0xff, rounded);
}

void Buffer::Free::operator()(std::byte* bytes) const { std::free(bytes); }

Buffer to_buffer(const hlo::Literal& literal, const hlo::Shape& shape) {
  const auto width = static_cast<size_t>(hlo::byte_width(shape.type));
  Buffer buffer(static_cast<size_t>(shape.element_count()) * width);
  if (shape.element_count() == 0) return buffer;
  hlo::copy_strided(shape.dims, buffer.data(), {0, hlo::memory_strides(shape)}, literal.bytes(),
                    {0, hlo::row_major_strides(shape.dims)}, width);
  return buffer;
}

hlo::Literal from_buffer(const Buffer& buffer, const hlo::Shape& shape) {
  hlo::Literal literal(shape);
  if (shape.element_count() == 0) return literal;
  const auto width = static_cast<size_t>(hlo::byte_width(shape.type));
  std::byte* bytes = literal.mutable_bytes();
  hlo::copy_strided(shape.dims, bytes, {0, hlo::row_major_strides(shape.dims)}, buffer.data(),
                    {0, hlo::memory_strides(shape)}, width);
  const int bits = hlo::bit_width(shape.type);
  if (bits < 8) {
    for (int64_t i = 0; i < literal.size(); ++i) {
      const auto low = static_cast<uint8_t>(static_cast<uint8_t>(bytes[i]) << (8 - bits));
      bytes[i] = hlo::is_signed(shape.type) && hlo::kind(shape.type) == hlo::TypeKind::Signed
                     ? static_cast<std::byte>(static_cast<int8_t>(low) >> (8 - bits))
                     : static_cast<std::byte>(low >> (8 - bits));
    }
  }
  return literal;
}

}  // namespace strata::emitters
