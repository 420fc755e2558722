// The discrete Fourier transform of any length in O(n log n).
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace strata::hlo {

/// y[k] = Σ x[j] · exp(-2πi·jk/n), in double precision. Lengths without prime factors above 13 are cut into these
/// (mixed radix); what is left of others is a convolution with a chirp, of a power of two (Bluestein 1970, "A linear
/// filtering approach to the computation of the discrete Fourier transform").
class FourierTransform {
 public:
  using Number = std::complex<double>;

  /// Of length n ≥ 1.
  explicit FourierTransform(int64_t n);

  /// In place; `data` has n numbers.
  void forward(Number* data) const;
  /// The inverse transform: with +2πi in the exponent, divided by n.
  void inverse(Number* data) const;

 private:
  /// A transform of a length that a prime factor was found too large of, as a convolution.
  struct Chirp {
    std::vector<Number> chirp;   ///< exp(-πi·k²/length)
    std::vector<Number> filter;  ///< the transform of its conjugates, which wrap around at both ends
    std::unique_ptr<FourierTransform> transform;
  };

  void transform(int64_t n, const Number* in, int64_t stride, Number* out) const;
  void convolve(const Number* in, int64_t stride, Number* out) const;

  int64_t n_;
  std::vector<Number> roots_;  ///< exp(-2πi·k/n)
  int64_t rest_ = 1;           ///< the length of the chirp, 1 if none
  Chirp chirp_;
};

}  // namespace strata::hlo
