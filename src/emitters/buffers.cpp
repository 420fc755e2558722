#include "emitters/buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "hlo/strided.h"

namespace strata::emitters {
namespace {

size_t rounded(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
}

}  // namespace

Buffer::Buffer(size_t bytes) {
  *this = unfilled(bytes);
  std::memset(bytes_.get(), 0xff, rounded(bytes));
}

Buffer Buffer::unfilled(size_t bytes) {
  Buffer made;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded(bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  made.bytes_.reset(memory);
  made.size_ = bytes;
  return made;
}

void Buffer::Free::operator()(std::byte* bytes) const { std::free(bytes); }

size_t byte_count(const hlo::Shape& shape) {
  return static_cast<size_t>(shape.element_count()) * static_cast<size_t>(hlo::byte_width(shape.type));
}

Buffer to_buffer(const hlo::Literal& literal, const hlo::Shape& shape) {
  Buffer buffer(byte_count(shape));
  to_memory(literal, shape, buffer.data());
  return buffer;
}

hlo::Literal from_buffer(const Buffer& buffer, const hlo::Shape& shape) { return from_memory(buffer.data(), shape); }

void to_memory(const hlo::Literal& literal, const hlo::Shape& shape, std::byte* to) {
  if (shape.element_count() == 0) return;
  hlo::copy_strided(shape.dims, to, {0, hlo::memory_strides(shape)}, literal.bytes(),
                    {0, hlo::row_major_strides(shape.dims)}, static_cast<size_t>(hlo::byte_width(shape.type)));
}

hlo::Literal from_memory(const std::byte* from, const hlo::Shape& shape) {
  hlo::Literal literal(shape);
  if (shape.element_count() == 0) return literal;
  const auto width = static_cast<size_t>(hlo::byte_width(shape.type));
  std::byte* bytes = literal.mutable_bytes();
  hlo::copy_strided(shape.dims, bytes, {0, hlo::row_major_strides(shape.dims)}, from, {0, hlo::memory_strides(shape)},
                    width);
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
