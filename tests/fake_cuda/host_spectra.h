// Eigenvalues and singular values of matrices in memory, for a cuSOLVER without a GPU.
#pragma once

#include <numeric>

#include "host_matrices.h"

namespace strata::fake {

using Rows = std::vector<std::vector<double>>;

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// a and b, orthogonal to each other, and other rows that are turned as they are.
inline bool turn(Rows& rows, size_t i, size_t j, Rows& others) {
  const double a = dot(rows[i], rows[i]), b = dot(rows[j], rows[j]), c = dot(rows[i], rows[j]);
  if (std::abs(c) <= 1e-16 * std::sqrt(a * b) || c == 0) return false;
  const double tau = (b - a) / (2 * c);
  const double tangent = (tau >= 0 ? 1 : -1) / (std::abs(tau) + std::hypot(1, tau));
  const double cosine = 1 / std::hypot(1, tangent), sine = tangent * cosine;
  for (Rows* of : {&rows, &others}) {
    for (size_t k = 0; k < (*of)[i].size(); ++k) {
      const double first = (*of)[i][k], second = (*of)[j][k];
      (*of)[i][k] = cosine * first - sine * second;
      (*of)[j][k] = sine * first + cosine * second;
    }
  }
  return true;
}

/// Of rows, no more of them than elements of each: rows = pᵀ · diag(values) · q, descending; p and q have rows that are
/// orthogonal and of length 1, q `count` of them.
struct Decomposed {
  std::vector<double> values;
  Rows p, q;
};
inline Decomposed decomposed(Rows rows, size_t count) {
  const size_t k = rows.size(), length = rows[0].size();
  Rows turned(k, std::vector<double>(k, 0));
  for (size_t i = 0; i < k; ++i) turned[i][i] = 1;
  for (int sweep = 0; sweep < 30; ++sweep) {
    bool busy = false;
    for (size_t i = 0; i < k; ++i) {
      for (size_t j = i + 1; j < k; ++j) busy = turn(rows, i, j, turned) || busy;
    }
    if (!busy) break;
  }
  std::vector<size_t> order(k);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return dot(rows[a], rows[a]) > dot(rows[b], rows[b]); });
  Decomposed made;
  for (const size_t at : order) {
    made.values.push_back(std::sqrt(dot(rows[at], rows[at])));
    made.p.push_back(turned[at]);
  }
  // Where a row is 0, and beyond the rows: of a unit vector what is orthogonal to all before.
  size_t unit = 0;
  while (made.q.size() < count) {
    const size_t at = made.q.size();
    std::vector<double> row(length, 0);
    if (at < k && made.values[at] > 1e-12 * made.values[0]) {
      row = rows[order[at]];
    } else {
      row[unit++ % length] = 1;
    }
    double size = std::sqrt(dot(row, row));
    for (double& it : row) it /= size;
    for (int again = 0; again < 2; ++again) {
      for (const std::vector<double>& before : made.q) {
        const double share = dot(before, row);
        for (size_t c = 0; c < length; ++c) row[c] -= share * before[c];
      }
    }
    size = std::sqrt(dot(row, row));
    if (size < 1e-3) continue;
    for (double& it : row) it /= size;
    made.q.push_back(row);
  }
  return made;
}

inline void write_columns(const Matrix& to, const Rows& columns) {
  for (size_t j = 0; j < columns.size(); ++j) {
    for (size_t i = 0; i < columns[j].size(); ++i)
      to.set(static_cast<int64_t>(i), static_cast<int64_t>(j), columns[j][i]);
  }
}

/// a = u · diag · vᵀ; the vectors that are asked for, of each so many.
inline void find_singular(const Matrix& a, int64_t m, int64_t n, const Matrix& values, bool vectors, const Matrix& u,
                          int64_t left, const Matrix& v, int64_t right) {
  const bool wide = m < n;
  const int64_t k = std::min(m, n), length = std::max(m, n);
  Rows rows(static_cast<size_t>(k), std::vector<double>(static_cast<size_t>(length)));
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < length; ++j)
      rows[static_cast<size_t>(i)][static_cast<size_t>(j)] = (wide ? a(i, j) : a(j, i)).real();
  }
  const Decomposed made = decomposed(std::move(rows), static_cast<size_t>(wide ? right : left));
  for (int64_t i = 0; i < k; ++i) values.set(i, 0, made.values[static_cast<size_t>(i)]);
  // What it is computed in is lost.
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) a.set(i, j, -7);
  }
  if (!vectors) return;
  write_columns(wide ? u : v, made.p);
  write_columns(wide ? v : u, made.q);
}

/// Ascending; of one triangle. A symmetric matrix that is made positive has its eigenvectors as singular ones.
inline void find_eigen(const Matrix& a, int64_t n, bool upper, bool vectors, const Matrix& values) {
  Rows rows(static_cast<size_t>(n), std::vector<double>(static_cast<size_t>(n)));
  double most = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      const bool given = upper ? i <= j : i >= j;
      const double element = (given ? a(i, j) : a(j, i)).real();
      rows[static_cast<size_t>(i)][static_cast<size_t>(j)] = element;
      sum += std::abs(element);
    }
    most = std::max(most, sum);
  }
  const double shift = 2 * most + 1e-300;
  for (size_t i = 0; i < rows.size(); ++i) rows[i][i] += shift;
  const Decomposed made = decomposed(std::move(rows), static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(n - 1 - i);
    values.set(i, 0, made.values[at] - shift);
    for (int64_t j = 0; j < n; ++j) a.set(j, i, vectors ? made.p[at][static_cast<size_t>(j)] : -7);
  }
}

}  // namespace strata::fake
