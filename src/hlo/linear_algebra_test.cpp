// Solves, factors and Fourier transforms: against their definitions, and as modules around them use them.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "hlo/compare.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/fourier.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

using Number = std::complex<double>;

/// Normal random numbers, complex where the type is.
Literal random_literal(const Shape& shape, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const auto count = static_cast<size_t>(shape.element_count());
  if (is_complex(shape.type)) {
    std::vector<Number> values(count);
    for (Number& value : values) value = {normal(random), normal(random)};
    return literal_of(shape, values);
  }
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return literal_of(shape, values);
}

/// The value of instructions over parameters p0, p1 … of these arrays.
Result<Literal> value_of(const std::string& instructions, const std::vector<Literal>& arguments) {
  std::string text = "HloModule m\nENTRY main {\n";
  for (size_t i = 0; i < arguments.size(); ++i) {
    text += fmt::format("p{} = {} parameter({})\n", i, to_string(arguments[i].shape()), i);
  }
  STRATA_TRY(const ModulePtr module, parse_module(text + instructions + "\n}\n"));
  return evaluate(*module, arguments);
}

Literal run(const std::string& instructions, const std::vector<Literal>& arguments) {
  auto value = value_of(instructions, arguments);
  EXPECT_TRUE(value) << value.error().to_string() << "\n" << instructions;
  return value ? *value : Literal();
}

std::string text_of(const std::string& instructions, const std::vector<std::string>& arguments) {
  std::vector<Literal> literals;
  for (const std::string& argument : arguments) {
    auto literal = parse_value(argument);
    EXPECT_TRUE(literal) << literal.error().to_string();
    if (literal) literals.push_back(*literal);
  }
  return print(run(instructions, literals));
}

double largest_difference(const std::vector<Number>& a, const std::vector<Number>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

std::vector<Number> random_numbers(int64_t n, std::mt19937& random) {
  return load_all<Number>(random_literal(array_shape(ElementType::C128, {n}), random));
}

TEST(Fourier, IsTheSumByDefinition) {
  std::mt19937 random(1);
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 40; ++n) lengths.push_back(n);
  for (int64_t n : {53, 64, 97, 101, 169, 210, 221, 256, 289, 360, 509, 17 * 60}) lengths.push_back(n);
  for (int64_t n : lengths) {
    const std::vector<Number> x = random_numbers(n, random);
    std::vector<Number> expected;
    for (int64_t k = 0; k < n; ++k) {
      Number sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        const double angle = -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        sum += x[static_cast<size_t>(j)] * std::polar(1.0, angle);
      }
      expected.push_back(sum);
    }
    std::vector<Number> y = x;
    const FourierTransform transform(n);
    transform.forward(y.data());
    EXPECT_LT(largest_difference(y, expected), 1e-14 * static_cast<double>(n)) << n;
    transform.inverse(y.data());
    EXPECT_LT(largest_difference(y, x), 1e-14) << n;
  }
}

TEST(Fourier, LongPrimeLengthsAreInverted) {
  std::mt19937 random(2);
  for (int64_t n : {65536, 65537, 3 * 20011, 257 * 257}) {
    const std::vector<Number> x = random_numbers(n, random);
    std::vector<Number> y = x;
    const FourierTransform transform(n);
    transform.forward(y.data());
    // Parseval: the energy is n times the signal's.
    double before = 0;
    double after = 0;
    for (const Number& value : x) before += std::norm(value);
    for (const Number& value : y) after += std::norm(value);
    EXPECT_NEAR(after / before / static_cast<double>(n), 1, 1e-12) << n;
    transform.inverse(y.data());
    EXPECT_LT(largest_difference(y, x), 1e-12) << n;
  }
}

TEST(Fft, KnownValues) {
  EXPECT_EQ(text_of("r = c64[4] fft(p0), fft_type=FFT, fft_length={4}", {"c64[4] {(1, 0), (2, 0), (3, 0), (4, 1)}"}),
            "{(10, 1), (-3, 2), (-2, -1), (-1, -2)}");
  EXPECT_EQ(text_of("r = c64[3] fft(p0), fft_type=RFFT, fft_length={4}", {"f32[4] {1, 2, 3, 4}"}),
            "{(10, 0), (-2, 2), (-2, 0)}");
  // The imaginary parts of the first and the middle one do not count.
  EXPECT_EQ(text_of("r = f32[4] fft(p0), fft_type=IRFFT, fft_length={4}", {"c64[3] {(10, 5), (-2, 2), (-2, 7)}"}),
            "{1, 2, 3, 4}");
  EXPECT_EQ(text_of("r = c64[2,1] fft(p0), fft_type=IFFT, fft_length={2,1}", {"c64[2,1] {{(1, 2)}, {(3, 4)}}"}),
            "{ {(2, 3)}, {(-1, -1)} }");
  EXPECT_EQ(text_of("r = c64[0,2] fft(p0), fft_type=FFT, fft_length={2}", {"c64[0,2] {}"}), "{}");
  // Without its shape.
  EXPECT_EQ(text_of("r = fft(p0), fft_type=RFFT, fft_length={2}", {"f64[2] {1, 3}"}), "{(4, 0), (-2, 0)}");
}

TEST(Fft, InversesGiveTheSignalBack) {
  std::mt19937 random(3);
  for (const char* lengths : {"{5}", "{4,5}", "{3,4,5}"}) {
    for (const ElementType type : {ElementType::C64, ElementType::C128}) {
      const Literal x = random_literal(array_shape(type, {2, 3, 4, 5}), random);
      const Literal y = run(fmt::format("a = fft(p0), fft_type=FFT, fft_length={0}\n"
                                        "r = fft(a), fft_type=IFFT, fft_length={0}",
                                        lengths),
                            {x});
      EXPECT_EQ(difference(y, x), std::nullopt) << lengths;
    }
    for (const ElementType type : {ElementType::F32, ElementType::F64}) {
      const Literal x = random_literal(array_shape(type, {2, 3, 4, 5}), random);
      const Literal y = run(fmt::format("a = fft(p0), fft_type=RFFT, fft_length={0}\n"
                                        "r = fft(a), fft_type=IRFFT, fft_length={0}",
                                        lengths),
                            {x});
      EXPECT_EQ(difference(y, x), std::nullopt) << lengths;
    }
  }
}

/// The element of a matrix of the last two dimensions.
Number element(const Literal& matrix, int64_t m, int64_t i, int64_t j) {
  const std::vector<int64_t>& dims = matrix.shape().dims;
  const int64_t rows = dims[dims.size() - 2];
  const int64_t index = (m * rows + i) * dims.back() + j;
  return is_complex(matrix.type()) ? matrix.get<Number>(index) : Number(matrix.get<double>(index));
}

TEST(TriangularSolve, KnownValues) {
  const std::vector<std::string> arguments = {"f32[2,2] {{2, 4}, {1, 8}}", "f32[2,1] {{6}, {11}}"};
  EXPECT_EQ(text_of("r = triangular-solve(p0, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", arguments),
            "{ {3}, {1} }");
  EXPECT_EQ(text_of("r = triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=true, "
                    "transpose_a=NO_TRANSPOSE",
                    arguments),
            "{ {6}, {5} }");
  EXPECT_EQ(text_of("r = triangular-solve(p0, p1), left_side=true, transpose_a=TRANSPOSE",
                    {"f32[2,2] {{2, 4}, {1, 8}}", "f32[2,1] {{6}, {20}}"}),
            "{ {3}, {1} }");
  EXPECT_EQ(text_of("r = triangular-solve(p0, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
                    {"f32[1,1] {{0}}", "f32[1,2] {{3, -1}}"}),
            "{ {inf, -inf} }");
  EXPECT_EQ(text_of("r = triangular-solve(p0, p1), transpose_a=ADJOINT", {"f32[3,0,0] {}", "f32[3,2,0] {}"}), "{}");
}

TEST(TriangularSolve, SolvesWhatItIsGiven) {
  std::mt19937 random(4);
  for (int options = 0; options < 48; ++options) {
    const bool left = (options & 1) != 0;
    const bool lower = (options & 2) != 0;
    const bool unit = (options & 4) != 0;
    const ElementType type = (options & 8) != 0 ? ElementType::C128 : ElementType::F64;
    const int transpose = options / 16;
    constexpr const char* kTransposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    const int64_t n = 1 + options % 7;
    Literal a = random_literal(array_shape(type, {2, n, n}), random);
    const Literal b =
        random_literal(array_shape(type, left ? std::vector<int64_t>{2, n, 3} : std::vector<int64_t>{2, 3, n}), random);
    const std::string text =
        fmt::format("r = triangular-solve(p0, p1){}{}{}, transpose_a={}", left ? ", left_side=true" : "",
                    lower ? ", lower=true" : "", unit ? ", unit_diagonal=true" : "", kTransposes[transpose]);
    const Literal x = run(text, {a, b});
    const auto op = [&](int64_t m, int64_t i, int64_t j) -> Number {
      if (transpose != 0) std::swap(i, j);
      if (i == j && unit) return 1;
      if (i != j && lower != (i > j)) return 0;
      return transpose == 2 ? std::conj(element(a, m, i, j)) : element(a, m, i, j);
    };
    for (int64_t m = 0; m < 2; ++m) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t c = 0; c < 3; ++c) {
          Number sum = 0;
          double size = 1;
          for (int64_t k = 0; k < n; ++k) {
            const Number term = left ? op(m, i, k) * element(x, m, k, c) : element(x, m, c, k) * op(m, k, i);
            sum += term;
            size += std::abs(term);
          }
          const Number wanted = left ? element(b, m, i, c) : element(b, m, c, i);
          EXPECT_LT(std::abs(sum - wanted), 1e-14 * size) << text;
        }
      }
    }
  }
}

TEST(Cholesky, KnownValues) {
  // What stands in the other triangle is not read.
  EXPECT_EQ(text_of("r = cholesky(p0), lower=true", {"f32[2,2] {{4, 99}, {6, 25}}"}), "{ {2, 0}, {3, 4} }");
  EXPECT_EQ(text_of("r = cholesky(p0)", {"f32[2,2] {{4, 6}, {99, 25}}"}), "{ {2, 3}, {0, 4} }");
  EXPECT_EQ(text_of("r = cholesky(p0), lower=true", {"c64[2,2] {{(4, 0), (9, 9)}, {(2, 6), (14, 0)}}"}),
            "{ {(2, 0), (0, 0)}, {(1, 3), (2, 0)} }");
  EXPECT_EQ(text_of("r = cholesky(p0), lower=false", {"c64[2,2] {{(4, 0), (2, -6)}, {(9, 9), (14, 0)}}"}),
            "{ {(2, 0), (1, -3)}, {(0, 0), (2, 0)} }");
  EXPECT_EQ(text_of("r = cholesky(p0)", {"f32[2,0,0] {}"}), "{}");
  // One that is not positive definite leaves the rest of the batch alone.
  EXPECT_EQ(text_of("r = cholesky(p0), lower=true", {"f32[2,2,2] {{{1, 2}, {2, 1}}, {{1, 0}, {0, 1}}}"}),
            "{ { {nan, nan}, {nan, nan} }, { {1, 0}, {0, 1} } }");
}

TEST(Cholesky, TheFactorTimesItsAdjointIsTheMatrix) {
  std::mt19937 random(5);
  for (int64_t n = 1; n <= 12; ++n) {
    for (const ElementType type : {ElementType::F64, ElementType::C128}) {
      const Literal b = random_literal(array_shape(type, {2, n, n}), random);
      for (const bool lower : {true, false}) {
        // b · bᴴ, of which the interpreter's own product knows nothing here.
        std::vector<Number> product;
        for (int64_t m = 0; m < 2; ++m) {
          for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              Number sum = i == j ? 1 : 0;
              for (int64_t k = 0; k < n; ++k) sum += element(b, m, i, k) * std::conj(element(b, m, j, k));
              product.push_back(sum);
            }
          }
        }
        std::vector<double> reals;
        for (const Number& value : product) reals.push_back(value.real());
        const Literal a = is_complex(type) ? literal_of(b.shape(), product) : literal_of(b.shape(), reals);
        const Literal factor = run(lower ? "r = cholesky(p0), lower=true" : "r = cholesky(p0)", {a});
        for (int64_t m = 0; m < 2; ++m) {
          for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              Number sum = 0;
              for (int64_t k = 0; k < n; ++k) {
                sum += lower ? element(factor, m, i, k) * std::conj(element(factor, m, j, k))
                             : std::conj(element(factor, m, k, i)) * element(factor, m, k, j);
              }
              const Number wanted = product[static_cast<size_t>((m * n + i) * n + j)];
              EXPECT_LT(std::abs(sum - wanted), 1e-13 * static_cast<double>(n + 2) * 4) << n;
              if (lower ? j > i : j < i) {
                EXPECT_EQ(element(factor, m, i, j), Number(0));
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::hlo
