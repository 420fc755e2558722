// A matrix product that cuBLASLt computes, as a launch of a program: what best.launch.json says of it, and running it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/types.h"
#include "runtime/cublas_lt.h"
#include "runtime/prepared_work.h"

namespace strata {

/// What the library applies to a product before it is stored.
enum class Activation : uint8_t { None, Relu, Gelu };
std::string_view name_of(Activation activation);
Result<Activation> parse_activation(std::string_view name);

/// Elements of one byte, which tensors of the IR do not have.
enum class ByteType : uint8_t { F8E4M3FN, F8E5M2, S8 };
/// "f8e4m3fn", "f8e5m2", "s8".
std::string_view name_of(ByteType type);
Result<ByteType> parse_byte_type(std::string_view name);

/// C = activation(scale·A·B + bias) for each of `batch` products: A is m × k, B k × n, C m × n, of one element type,
/// but that C and the bias may be f32 where A and B are of 16 bits. Sums are taken in float32, of f64 in float64. C is
/// row-major, one matrix after the other; the bias has n elements. One that `accumulates` adds what C holds before the
/// activation.
///
/// Operands may be of one byte: both f8 (not both f8e5m2), C of any type but f64, without bias and activation; or both
/// s8, whose exact sums modulo 2^32 are C, s32 (`type` is F32 then, which is as wide), and nothing else is done. The
/// library takes them where A is not transposed and B is, so that terms lie side by side, and where k, n and the
/// leading dimensions are multiples of kByteAlignment.
struct MatrixProduct {
  /// Element (i, j) lies at i · leading + j from the start of its matrix; at j · leading + i where transposed.
  struct Operand {
    bool transposed = false;
    int64_t leading = 0;
    int64_t batch_stride = 0;         ///< from one matrix to the next, in elements; 0: one for all
    std::optional<ByteType> bytes{};  ///< the elements' type, if it is another than the product's
    int64_t offset = 0;               ///< elements of the argument before the first matrix: a slice of it is read

    friend bool operator==(const Operand&, const Operand&) = default;
  };

  DType type = DType::F16;
  std::optional<DType> stored{};  ///< the type of C and the bias, if it is another: f32
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Operand a, b;
  bool scaled = false;  ///< of f8: the scale is a number of f32 in device memory; else it is 1
  bool bias = false;
  bool accumulates = false;
  bool tf32 = false;  ///< of f32: operands may be rounded to TF32, which has f32's exponents and 11 significant bits
  Activation activation = Activation::None;
  int64_t algorithm = 0;  ///< place in the library's list for this product on this GPU, its best guess first

  DType result_type() const { return stored.value_or(type); }
  /// Bytes of an element of A or B.
  int64_t size_of_operand(const Operand& of) const { return of.bytes ? 1 : size_of(type); }
  bool of_integers() const { return a.bytes == ByteType::S8; }
  /// A, B, the scale and the bias if there are any, C.
  size_t arguments() const { return 3 + (scaled ? 1 : 0) + (bias ? 1 : 0); }
  friend bool operator==(const MatrixProduct&, const MatrixProduct&) = default;
};

/// "f16 16×4096×1024, algorithm 2" (m × n × k).
std::string describe(const MatrixProduct& product);

/// What a launch of the manifest says that is a product.
constexpr std::string_view kProductLibrary = "cublasLt";
/// What sizes of products of bytes are multiples of, and the fewest rows of those of integers.
constexpr int64_t kByteAlignment = 16, kFewestIntegerRows = 32;
/// Bytes of device memory that a product may use while it runs.
constexpr int64_t kProductWorkspace = int64_t{32} << 20;
/// Algorithms that the library is asked for.
constexpr int kMostAlgorithms = 32;

/// The library in the current context.
class ProductLibrary {
 public:
  /// Error (Environment) where cuBLASLt is missing, (Unsupported) where it does not start.
  static Result<std::unique_ptr<ProductLibrary>> open();
  ~ProductLibrary();
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;

  const CublasLt& functions() const { return lt_; }
  CublasLt::Handle handle() const { return handle_; }

 private:
  ProductLibrary() = default;

  CublasLt lt_{};
  CublasLt::Handle handle_ = nullptr;
};

/// Chooses the algorithm. Error (Unsupported) where the library has none of this number for the product.
Result<std::unique_ptr<PreparedWork>> prepare(const ProductLibrary& library, const MatrixProduct& product);

}  // namespace strata
