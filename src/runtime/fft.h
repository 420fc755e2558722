// Fourier transforms that cuFFT computes, as a launch of a program.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cufft.h"
#include "runtime/prepared_work.h"

namespace strata {

enum class FftKind : uint8_t { Forward, Inverse, FromReal, ToReal };
std::string_view name_of(FftKind kind);
Result<FftKind> parse_fft_kind(std::string_view name);

/// `batch` transforms of complex numbers of f32, or f64 where `wide`, along 1 to 3 dimensions. Arrays are row-major,
/// one after the other. Of FromReal's results and of ToReal's operands the innermost dimension has length / 2 + 1
/// numbers. Nothing is divided: Inverse and ToReal give the inverse times the product of the lengths.
struct Fft {
  FftKind kind = FftKind::Forward;
  bool wide = false;
  std::vector<int64_t> lengths{1};
  int64_t batch = 1;
  bool overwrites = false;  ///< ToReal may leave anything in its operand; else it reads a copy
  int64_t algorithm = 0;    ///< there is one

  /// Numbers of one transform, real or complex, that are read.
  int64_t read() const;
  int64_t written() const;
  int64_t bytes_read() const;
  int64_t bytes_written() const;
  /// The operand, the result.
  static constexpr size_t arguments() { return 2; }
  friend bool operator==(const Fft&, const Fft&) = default;
};

/// "forward f32 64 of 512×512".
std::string describe(const Fft& fft);

/// What a launch of the manifest says that is a transform.
constexpr std::string_view kFftLibrary = "cufft";

/// The library in the current context.
class FftLibrary {
 public:
  /// Error (Environment) where cuFFT is missing.
  static Result<std::unique_ptr<FftLibrary>> open(const CudaDriver& driver);

  const Cufft& functions() const { return cufft_; }
  const CudaDriver& driver() const { return driver_; }

 private:
  FftLibrary(const CudaDriver& driver, const Cufft& cufft) : driver_(driver), cufft_(cufft) {}

  const CudaDriver& driver_;
  Cufft cufft_;
};

/// Error (Unsupported) where the library has no such transform, or where another algorithm than 0 is asked for.
Result<std::unique_ptr<PreparedWork>> prepare(const FftLibrary& library, const Fft& fft);

}  // namespace strata
