#include "hlo/fourier.h"

#include <array>
#include <cassert>
#include <cmath>
#include <numbers>

namespace strata::hlo {
namespace {

using Number = FourierTransform::Number;

/// Larger prime factors cost more as direct sums than as a convolution.
constexpr int64_t kLargestRadix = 13;

/// exp(-2πi·k/n) for 0 ≤ k < n: of angles up to an eighth of a turn, so that it is exact at the quarters.
Number root_of_unity(int64_t k, int64_t n) {
  const int64_t quarter = 4 * k / n;
  const int64_t rest = 4 * k - quarter * n;
  const bool upper = 2 * rest > n;
  const double angle = std::numbers::pi / 2 * static_cast<double>(upper ? n - rest : rest) / static_cast<double>(n);
  double cosine = std::cos(angle);
  double sine = std::sin(angle);
  if (upper) std::swap(cosine, sine);
  switch (quarter) {
    case 0:
      return {cosine, -sine};
    case 1:
      return {-sine, -cosine};
    case 2:
      return {-cosine, sine};
    default:
      return {sine, cosine};
  }
}

Number product(Number a, Number b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// The smallest prime factor up to kLargestRadix, or 0.
int64_t radix_of(int64_t n) {
  for (int64_t p = 2; p <= kLargestRadix; ++p) {
    if (n % p == 0) return p;
  }
  return 0;
}

}  // namespace

FourierTransform::FourierTransform(int64_t n) : n_(n) {
  assert(n >= 1);
  for (int64_t k = 0; k < n; ++k) roots_.push_back(root_of_unity(k, n));
  rest_ = n;
  while (const int64_t radix = radix_of(rest_)) rest_ /= radix;
  if (rest_ == 1) return;
  int64_t length = 1;
  while (length < 2 * rest_ - 1) length *= 2;
  chirp_.filter.resize(static_cast<size_t>(length));
  int64_t square = 0;  // k² modulo 2·rest
  for (int64_t k = 0; k < rest_; ++k) {
    const Number value = root_of_unity(square, 2 * rest_);
    chirp_.chirp.push_back(value);
    chirp_.filter[static_cast<size_t>(k)] = std::conj(value);
    if (k > 0) chirp_.filter[static_cast<size_t>(length - k)] = std::conj(value);
    square = (square + 2 * k + 1) % (2 * rest_);
  }
  chirp_.transform = std::make_unique<FourierTransform>(length);
  chirp_.transform->forward(chirp_.filter.data());
}

void FourierTransform::forward(Number* data) const {
  if (n_ == 1) return;
  const std::vector<Number> in(data, data + n_);
  transform(n_, in.data(), 1, data);
}

void FourierTransform::inverse(Number* data) const {
  for (int64_t k = 0; k < n_; ++k) data[k] = std::conj(data[k]);
  forward(data);
  for (int64_t k = 0; k < n_; ++k) {
    data[k] = {data[k].real() / static_cast<double>(n_), -data[k].imag() / static_cast<double>(n_)};
  }
}

/// Of every stride-th number of `in`, n of them.
void FourierTransform::transform(int64_t n, const Number* in, int64_t stride, Number* out) const {
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  if (n == rest_) {
    convolve(in, stride, out);
    return;
  }
  const int64_t radix = radix_of(n);
  const int64_t part = n / radix;
  for (int64_t r = 0; r < radix; ++r) transform(part, in + r * stride, stride * radix, out + r * part);
  // out[k + q·part] = Σ_r exp(-2πi·r(k + q·part)/n) · parts[r][k], for all q of one k at once.
  const int64_t scale = n_ / n;
  std::array<Number, kLargestRadix> terms;
  for (int64_t k = 0; k < part; ++k) {
    for (int64_t r = 0; r < radix; ++r) {
      terms[static_cast<size_t>(r)] = product(out[k + r * part], roots_[static_cast<size_t>(r * k * scale)]);
    }
    if (radix == 2) {
      out[k] = terms[0] + terms[1];
      out[k + part] = terms[0] - terms[1];
      continue;
    }
    for (int64_t q = 0; q < radix; ++q) {
      Number sum = terms[0];
      for (int64_t r = 1; r < radix; ++r) {
        sum += product(terms[static_cast<size_t>(r)], roots_[static_cast<size_t>(r * q % radix * (n_ / radix))]);
      }
      out[k + q * part] = sum;
    }
  }
}

void FourierTransform::convolve(const Number* in, int64_t stride, Number* out) const {
  // 2jk = j² + k² - (k - j)²: the sum is a convolution of x·chirp with the chirp's conjugate.
  std::vector<Number> padded(chirp_.filter.size());
  for (int64_t k = 0; k < rest_; ++k) {
    padded[static_cast<size_t>(k)] = product(in[k * stride], chirp_.chirp[static_cast<size_t>(k)]);
  }
  chirp_.transform->forward(padded.data());
  for (size_t k = 0; k < padded.size(); ++k) padded[k] = product(padded[k], chirp_.filter[k]);
  chirp_.transform->inverse(padded.data());
  for (int64_t k = 0; k < rest_; ++k) {
    out[k] = product(padded[static_cast<size_t>(k)], chirp_.chirp[static_cast<size_t>(k)]);
  }
}

}  // namespace strata::hlo
