// Arrays in memory, as kernels find them.
#pragma once

#include <memory>
#include <vector>

#include "hlo/literal.h"

namespace strata::emitters {

/// Bytes aligned as kernels want them.
class Buffer {
 public:
  static constexpr size_t kAlignment = 256;

  Buffer() = default;
  /// Filled with bytes 0xff, NaN in every float: what no kernel has written shows.
  explicit Buffer(size_t bytes);
  /// Holds whatever was in memory: for what is written before it is read.
  static Buffer unfilled(size_t bytes);

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  size_t size_ = 0;
};

/// The elements in the order in which the shape's layout has them in memory.
Buffer to_buffer(const hlo::Literal& literal, const hlo::Shape& shape);
/// And back. Integers narrower than a byte and pred count by their low bits.
hlo::Literal from_buffer(const Buffer& buffer, const hlo::Shape& shape);

/// Bytes of an array's elements in memory.
size_t byte_count(const hlo::Shape& shape);
/// The same as both above for memory of so many bytes that somebody else owns.
void to_memory(const hlo::Literal& literal, const hlo::Shape& shape, std::byte* to);
hlo::Literal from_memory(const std::byte* from, const hlo::Shape& shape);

}  // namespace strata::emitters
