// Notation used throughout:
//   f16[16, 1024]   a tensor type: element type and shape, row-major, innermost dimension last
//   K, B, T         the kernel, block and thread levels of a µGraph (Mirage, OSDI'25, section 2)
//   φ, written _    "no dimension": the tensor is replicated over that grid dimension or loop
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"
#include "support/rational.h"

namespace strata {

enum class DType : uint8_t { F16, BF16, F32, F64 };

/// Bytes of one element.
int64_t size_of(DType type);
/// "f16", "bf16", "f32", "f64".
std::string_view name_of(DType type);
/// Error that lists the known types where `name` is none.
Result<DType> parse_dtype(std::string_view name);
/// The error of an operator whose operands must be of one element type.
tl::unexpected<Error> differing_types(DType a, DType b);

/// Sizes of a tensor's dimensions, outermost first; each at least 1. Rank 0 is a scalar.
using Shape = std::vector<int64_t>;

constexpr int kMaxRank = 8;
/// The map entry "no dimension" (φ in the paper).
constexpr int64_t kReplicate = -1;

int64_t element_count(const Shape& shape);  ///< saturates where a shape is larger than any tensor's
/// a · b; error where the product of two sizes does not fit 63 bits.
Result<int64_t> checked_product(int64_t a, int64_t b);
/// "[16, 1024]".
std::string to_string(const Shape& shape);
/// NumPy broadcasting of two shapes; error where two sizes differ and neither is 1.
Result<Shape> broadcast(const Shape& a, const Shape& b);
/// Row-major strides in elements; 0 for dimensions of size 1 (so that they broadcast).
std::vector<int64_t> broadcast_strides(const Shape& shape, size_t result_rank);

/// Elements that are known: start + step · index along one dimension, the same along all others. Integers that f32
/// holds exactly where step is not 0; else a constant.
struct Iota {
  int64_t dim = 0;
  Rational start{};
  int64_t step = 1;

  /// Of the element at `index` along the dimension.
  Rational at(int64_t index) const { return step == 0 ? start : Rational{start.num + step * index, 1}; }
  friend bool operator==(const Iota&, const Iota&) = default;
};

struct TensorType {
  DType dtype = DType::F16;
  Shape shape;
  /// Set for inputs that no one gives, because their elements are known. They are nowhere in memory: whoever reads one
  /// computes its elements, exactly, whatever `dtype` is. A tile of it is known as well, by block and iteration.
  std::optional<Iota> iota{};

  int64_t elements() const { return element_count(shape); }
  /// In memory.
  int64_t bytes() const { return iota ? 0 : elements() * size_of(dtype); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// "f16[16, 1024]"; of an iota its statement's right-hand side, "iota(dim=0, start=3) : f16[16, 1]".
std::string to_string(const TensorType& type);
/// Error where the dimension is none of the type's, or an element is no integer below 2^24 in magnitude.
Result<void> check_iota(const TensorType& type);

enum class Level : uint8_t { Kernel, Block, Thread };
std::string_view name_of(Level level);

/// A set of levels, for the operator table.
struct LevelSet {
  bool kernel = false;
  bool block = false;
  bool thread = false;

  constexpr bool contains(Level level) const {
    return level == Level::Kernel ? kernel : level == Level::Block ? block : thread;
  }
};

}  // namespace strata
