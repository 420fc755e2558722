#include <cmath>
#include <limits>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"

namespace strata::hlo {
namespace {

template <class T>
constexpr bool kIsComplex = !std::is_floating_point_v<T>;

template <class T>
T conjugate(T x) {
  if constexpr (kIsComplex<T>) return std::conj(x);
  return x;
}

double real_part(double x) { return x; }
double real_part(std::complex<double> x) { return x.real(); }

/// Without the recovery of infinities from NaN that complex multiplication has: no value here needs it.
double product(double a, double b) { return a * b; }
std::complex<double> product(std::complex<double> a, std::complex<double> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// The numbers of one matrix, in an order of rows and columns.
template <class T>
struct MatrixView {
  T* at;
  int64_t row_stride, column_stride;
  T& operator()(int64_t row, int64_t column) const { return at[row * row_stride + column * column_stride]; }
};

/// Calls visit(T{}) with the type in which floats and complex numbers are summed.
template <class Visit>
void visit_number_type(ElementType type, Visit visit) {
  if (is_complex(type)) {
    visit(std::complex<double>{});
  } else {
    visit(double{});
  }
}

int64_t matrix_count(const Shape& shape) {
  const size_t rank = shape.dims.size();
  int64_t count = 1;
  for (size_t d = 0; d + 2 < rank; ++d) count *= shape.dims[d];
  return count;
}

/// The lower factor of the n × n matrix `a`, in its place; reads and writes nothing above the diagonal. Whether there
/// is one.
template <class T>
bool factorise(const MatrixView<T>& a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double pivot = real_part(a(j, j));
    for (int64_t k = 0; k < j; ++k) pivot -= std::norm(a(j, k));
    if (!(pivot > 0) || std::isinf(pivot)) return false;
    const double diagonal = std::sqrt(pivot);
    a(j, j) = diagonal;
    for (int64_t i = j + 1; i < n; ++i) {
      T sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= product(a(i, k), conjugate(a(j, k)));
      a(i, j) = sum / diagonal;
    }
  }
  return true;
}

/// x of a · x = b for an n × n triangular matrix and `columns` columns of b, in the place of b.
template <class T>
void solve(const MatrixView<const T>& a, bool lower, bool unit_diagonal, int64_t n, const MatrixView<T>& b,
           int64_t columns) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = lower ? step : n - 1 - step;
    const int64_t first = lower ? 0 : i + 1;
    const int64_t end = lower ? i : n;
    for (int64_t k = first; k < end; ++k) {
      const T factor = a(i, k);
      for (int64_t c = 0; c < columns; ++c) b(i, c) -= product(factor, b(k, c));
    }
    if (unit_diagonal) continue;
    for (int64_t c = 0; c < columns; ++c) b(i, c) /= a(i, i);
  }
}

}  // namespace

Literal evaluate_cholesky(const Instruction& instruction, const Literal& operand) {
  const Shape& shape = instruction.shape;
  const int64_t n = shape.dims.back();
  const bool lower = instruction.as<CholeskyAttributes>().lower;
  Literal result;
  visit_number_type(shape.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = load_all<T>(operand);
    for (int64_t m = 0; m < matrix_count(shape) && n > 0; ++m) {
      T* matrix = values.data() + m * n * n;
      // The upper factor is the lower one's adjoint: with rows for columns and conjugates it is the same algorithm.
      const MatrixView<T> a{matrix, lower ? n : 1, lower ? 1 : n};
      for (int64_t i = 0; i < n && !lower; ++i) {
        for (int64_t j = 0; j < i; ++j) a(i, j) = conjugate(a(i, j));
      }
      const bool positive = factorise(a, n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          if (!positive) {
            a(i, j) = T(std::numeric_limits<double>::quiet_NaN());
            if constexpr (kIsComplex<T>) a(i, j).imag(std::numeric_limits<double>::quiet_NaN());
          } else if (j > i) {
            a(i, j) = T(0);
          } else if (!lower && j < i) {
            a(i, j) = conjugate(a(i, j));
          }
        }
      }
    }
    result = literal_of(array_shape(shape.type, shape.dims), values);
  });
  return result;
}

Literal evaluate_triangular_solve(const Instruction& instruction, const Literal& a, const Literal& b) {
  using Transpose = TriangularSolveAttributes::Transpose;
  const auto& how = instruction.as<TriangularSolveAttributes>();
  const Shape& shape = instruction.shape;
  const int64_t n = a.shape().dims.back();
  const int64_t rows = shape.dims[shape.dims.size() - 2];
  const int64_t columns = shape.dims.back();
  // x · op(a) = b is op(a)ᵀ · xᵀ = bᵀ.
  const bool transposed = (how.transpose_a != Transpose::NoTranspose) == how.left_side;
  Literal result;
  visit_number_type(shape.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> matrices = load_all<T>(a);
    std::vector<T> values = load_all<T>(b);
    if (how.transpose_a == Transpose::Adjoint) {
      for (T& value : matrices) value = conjugate(value);
    }
    for (int64_t m = 0; m < matrix_count(shape) && !values.empty(); ++m) {
      const MatrixView<const T> matrix{matrices.data() + m * n * n, transposed ? 1 : n, transposed ? n : 1};
      const MatrixView<T> sides{values.data() + m * rows * columns, how.left_side ? columns : 1,
                                how.left_side ? 1 : columns};
      solve<T>(matrix, how.lower != transposed, how.unit_diagonal, n, sides, how.left_side ? columns : rows);
    }
    result = literal_of(array_shape(shape.type, shape.dims), values);
  });
  return result;
}

}  // namespace strata::hlo
