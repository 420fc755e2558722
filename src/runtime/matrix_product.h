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

/// C = activation(A·B + bias) for each of `batch` products: A is m × k, B k × n, C m × n, of one element type, but that
/// C and the bias may be f32 where A and B are of 16 bits. Sums are taken in float32, of f64 in float64. C is
/// row-major, one matrix behind the other; the bias has n elements. One that `accumulates` adds what C holds before the
/// activation.
struct MatrixProduct {
  /// Element (i, j) lies at i · leading + j from the start of its matrix; at j · leading + i where transposed.
  struct Operand {
    bool transposed = false;
    int64_t leading = 0;
    int64_t batch_stride = 0;  ///< from one matrix to the next, in elements; 0: one for all

    friend bool operator==(const Operand&, const Operand&) = default;
  };

  DType type = DType::F16;
  std::optional<DType> stored{};  ///< the type of C and the bias, if it is another: f32
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Operand a, b;
  bool bias = false;
  bool accumulates = false;
  Activation activation = Activation::None;
  int64_t algorithm = 0;  ///< place in the library's list for this product on this GPU, its best guess first

  DType result_type() const { return stored.value_or(type); }
  /// A, B, the bias if there is one, C.
  size_t arguments() const { return bias ? 4 : 3; }
  friend bool operator==(const MatrixProduct&, const MatrixProduct&) = default;
};

/// "f16 16×4096×1024, algorithm 2" (m × n × k).
std::string describe(const MatrixProduct& product);

/// What a launch of the manifest says that is a product.
constexpr std::string_view kProductLibrary = "cublasLt";
/// Bytes of device memory that a product may use while it runs.
constexpr int64_t kProductWorkspace = int64_t{32} << 20;
/// Algorithms that the library is asked for.
constexpr int kMostAlgorithms = 8;

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
