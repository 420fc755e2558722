// A cuBLAS without a GPU, for tests: STRATA_CUBLAS names this library. It computes on the host, as work on the stream
// of fake_cuda.
#include "host_matrices.h"
#include "runtime/cusolver.h"

using namespace strata;
using namespace strata::fake;

namespace {

constexpr int kNotInitialized = 1, kInvalidValue = 7;
CudaStream stream = nullptr;
bool has_work = false;

struct How {
  int side, triangle, operation, diagonal, rows, columns;
};

/// b becomes x. A row of x, or a column where a is on the right, of those that it depends on.
void solve(const How& how, const Matrix& a, const Matrix& b) {
  const bool right = how.side == Cublas::kRight, upper = how.triangle == Cublas::kUpper;
  const int64_t n = right ? how.columns : how.rows, others = right ? how.rows : how.columns;
  const auto element = [&](int64_t i, int64_t j) -> Number {  // of op(a)
    const bool as_it_is = how.operation == Cublas::kAsItIs;
    const int64_t row = as_it_is ? i : j, column = as_it_is ? j : i;
    if (row == column && how.diagonal == Cublas::kUnit) return 1;
    if (upper ? row > column : row < column) return 0;
    return how.operation == Cublas::kAdjoint ? std::conj(a(row, column)) : a(row, column);
  };
  const auto coefficient = [&](int64_t i, int64_t j) { return right ? element(j, i) : element(i, j); };
  const bool lower = (upper == (how.operation != Cublas::kAsItIs)) != right;  // what the coefficients are
  for (int64_t other = 0; other < others; ++other) {
    const auto get = [&](int64_t i) { return right ? b(other, i) : b(i, other); };
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = lower ? step : n - 1 - step;
      Number sum = get(i);
      for (int64_t before = 0; before < step; ++before) {
        const int64_t j = lower ? before : n - 1 - before;
        sum -= coefficient(i, j) * get(j);
      }
      const Number value = how.diagonal == Cublas::kUnit ? sum : sum / coefficient(i, i);
      right ? b.set(other, i, value) : b.set(i, other, value);
    }
  }
}

}  // namespace

extern "C" {

int cublasGetProperty(int which, int* value) {
  *value = which == Cusolver::kMajor ? 13 : 0;
  return 0;
}
int cublasCreate_v2(Cublas::Handle* handle) {
  *handle = reinterpret_cast<Cublas::Handle>(&stream);
  has_work = false;
  return 0;
}
int cublasDestroy_v2(Cublas::Handle) { return 0; }
int cublasSetStream_v2(Cublas::Handle, CudaStream of) {
  stream = of;
  has_work = false;
  return 0;
}
int cublasSetWorkspace_v2(Cublas::Handle, CudaPointer work, size_t bytes) {
  has_work = work % 256 == 0 && bytes > 0;
  return has_work ? 0 : kInvalidValue;
}

#define STRATA_FAKE_CUBLAS(T)                                                                                         \
  int cublas##T##trsm_v2(Cublas::Handle, int side, int triangle, int operation, int diagonal, int rows, int columns,  \
                         const void*, CudaPointer a, int leading, CudaPointer b, int b_leading) {                     \
    if (!has_work) return kNotInitialized;                                                                            \
    const How how{side, triangle, operation, diagonal, rows, columns};                                                \
    if (b_leading < rows || leading < (side == Cublas::kRight ? columns : rows)) return kInvalidValue;                \
    return enqueue(stream, 1, [=] { solve(how, {#T[0], a, leading}, {#T[0], b, b_leading}); });                       \
  }                                                                                                                   \
  int cublas##T##trsmBatched(Cublas::Handle, int side, int triangle, int operation, int diagonal, int rows,           \
                             int columns, const void*, CudaPointer a, int leading, CudaPointer b, int b_leading,      \
                             int batch) {                                                                             \
    if (!has_work) return kNotInitialized;                                                                            \
    const How how{side, triangle, operation, diagonal, rows, columns};                                                \
    if (b_leading < rows || leading < (side == Cublas::kRight ? columns : rows)) return kInvalidValue;                \
    return enqueue(stream, 1, [=] {                                                                                   \
      for (int i = 0; i < batch; ++i) solve(how, {#T[0], address(a, i), leading}, {#T[0], address(b, i), b_leading}); \
    });                                                                                                               \
  }                                                                                                                   \
  int cublas##T##getrfBatched(Cublas::Handle, int n, CudaPointer matrices, int leading, CudaPointer pivots,           \
                              CudaPointer infos, int batch) {                                                         \
    if (!has_work) return kNotInitialized;                                                                            \
    return enqueue(stream, 1, [=] {                                                                                   \
      for (int i = 0; i < batch; ++i)                                                                                 \
        factor_with_pivots({#T[0], address(matrices, i), leading}, n, n, numbers(pivots) + int64_t{i} * n,            \
                           numbers(infos) + i);                                                                       \
    });                                                                                                               \
  }
#define STRATA_FAKE_CUBLAS_QR(T)                                                                        \
  int cublas##T##geqrfBatched(Cublas::Handle, int rows, int columns, CudaPointer matrices, int leading, \
                              CudaPointer factors, int* info, int batch) {                              \
    if (!has_work) return kNotInitialized;                                                              \
    *info = 0;                                                                                          \
    return enqueue(stream, 1, [=] {                                                                     \
      for (int i = 0; i < batch; ++i)                                                                   \
        factor_by_reflectors({#T[0], address(matrices, i), leading}, rows, columns,                     \
                             {#T[0], address(factors, i), columns});                                    \
    });                                                                                                 \
  }
STRATA_FAKE_CUBLAS_QR(S)
STRATA_FAKE_CUBLAS_QR(D)
STRATA_FAKE_CUBLAS_QR(C)
STRATA_FAKE_CUBLAS_QR(Z)
STRATA_FAKE_CUBLAS(S)
STRATA_FAKE_CUBLAS(D)
STRATA_FAKE_CUBLAS(C)
STRATA_FAKE_CUBLAS(Z)

}  // extern "C"
