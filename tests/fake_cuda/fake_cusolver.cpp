// A cuSOLVER without a GPU, for tests: STRATA_CUSOLVER names this library. It computes on the host, as work on the
// stream of fake_cuda.
#include "host_matrices.h"
#include "runtime/cusolver.h"

using namespace strata;
using namespace strata::fake;

namespace {

constexpr int kInvalidValue = 3;
constexpr int kWork = 64;
CudaStream stream = nullptr;

/// As the library: what comes after the column without a factor stays as it was.
void factor(const Matrix& a, int64_t n, bool upper, int* info) {
  // Of the upper triangle a = uᴴ · u: element (i, j) of l is that of uᴴ.
  const auto get = [&](int64_t i, int64_t j) { return upper ? std::conj(a(j, i)) : a(i, j); };
  const auto set = [&](int64_t i, int64_t j, Number value) {
    upper ? a.set(j, i, std::conj(value)) : a.set(i, j, value);
  };
  *info = 0;
  for (int64_t j = 0; j < n; ++j) {
    double pivot = get(j, j).real();
    for (int64_t k = 0; k < j; ++k) pivot -= std::norm(get(j, k));
    if (!(pivot > 0)) {
      *info = static_cast<int>(j) + 1;
      return;
    }
    const double root = std::sqrt(pivot);
    set(j, j, root);
    for (int64_t i = j + 1; i < n; ++i) {
      Number sum = get(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= get(i, k) * std::conj(get(j, k));
      set(i, j, sum / root);
    }
  }
}

}  // namespace

extern "C" {

int cusolverGetProperty(int which, int* value) {
  *value = which == Cusolver::kMajor ? 12 : 0;
  return 0;
}
int cusolverDnCreate(Cusolver::Handle* handle) {
  *handle = reinterpret_cast<Cusolver::Handle>(&stream);
  return 0;
}
int cusolverDnDestroy(Cusolver::Handle) { return 0; }
int cusolverDnSetStream(Cusolver::Handle, CudaStream of) {
  stream = of;
  return 0;
}

#define STRATA_FAKE_CUSOLVER(T)                                                                                    \
  int cusolverDn##T##potrf_bufferSize(Cusolver::Handle, int, int n, CudaPointer, int leading, int* elements) {     \
    *elements = kWork;                                                                                             \
    return n < 1 || leading < n ? kInvalidValue : 0;                                                               \
  }                                                                                                                \
  int cusolverDn##T##potrf(Cusolver::Handle, int triangle, int n, CudaPointer a, int leading, CudaPointer work,    \
                           int elements, CudaPointer info) {                                                       \
    if (work == 0 || elements != kWork || leading < n) return kInvalidValue;                                       \
    return enqueue(stream, 1, [=] { factor({#T[0], a, leading}, n, triangle == Cublas::kUpper, numbers(info)); }); \
  }                                                                                                                \
  int cusolverDn##T##potrfBatched(Cusolver::Handle, int triangle, int n, CudaPointer matrices, int leading,        \
                                  CudaPointer infos, int batch) {                                                  \
    if (leading < n) return kInvalidValue;                                                                         \
    return enqueue(stream, 1, [=] {                                                                                \
      for (int i = 0; i < batch; ++i)                                                                              \
        factor({#T[0], address(matrices, i), leading}, n, triangle == Cublas::kUpper, numbers(infos) + i);         \
    });                                                                                                            \
  }                                                                                                                \
  int cusolverDn##T##getrf_bufferSize(Cusolver::Handle, int rows, int, CudaPointer, int leading, int* elements) {  \
    *elements = kWork;                                                                                             \
    return leading < rows ? kInvalidValue : 0;                                                                     \
  }                                                                                                                \
  int cusolverDn##T##getrf(Cusolver::Handle, int rows, int columns, CudaPointer a, int leading, CudaPointer work,  \
                           CudaPointer pivots, CudaPointer info) {                                                 \
    if (work == 0 || leading < rows) return kInvalidValue;                                                         \
    return enqueue(stream, 1, [=] {                                                                                \
      factor_with_pivots({#T[0], a, leading}, rows, columns, numbers(pivots), numbers(info));                      \
    });                                                                                                            \
  }
#define STRATA_FAKE_CUSOLVER_QR(T, orthogonal)                                                                       \
  int cusolverDn##T##geqrf_bufferSize(Cusolver::Handle, int rows, int, CudaPointer, int leading, int* elements) {    \
    *elements = kWork;                                                                                               \
    return leading < rows ? kInvalidValue : 0;                                                                       \
  }                                                                                                                  \
  int cusolverDn##T##geqrf(Cusolver::Handle, int rows, int columns, CudaPointer a, int leading, CudaPointer factors, \
                           CudaPointer work, int elements, CudaPointer info) {                                       \
    if (work == 0 || info == 0 || elements != kWork || leading < rows) return kInvalidValue;                         \
    return enqueue(stream, 1, [=] {                                                                                  \
      factor_by_reflectors({#T[0], a, leading}, rows, columns, {#T[0], factors, columns});                           \
      *numbers(info) = 0;                                                                                            \
    });                                                                                                              \
  }                                                                                                                  \
  int cusolverDn##T##orthogonal##_bufferSize(Cusolver::Handle, int rows, int columns, int reflectors, CudaPointer,   \
                                             int leading, CudaPointer, int* elements) {                              \
    *elements = kWork;                                                                                               \
    return leading < rows || columns > rows || reflectors > columns ? kInvalidValue : 0;                             \
  }                                                                                                                  \
  int cusolverDn##T##orthogonal(Cusolver::Handle, int rows, int columns, int reflectors, CudaPointer a, int leading, \
                                CudaPointer factors, CudaPointer work, int elements, CudaPointer info) {             \
    if (work == 0 || info == 0 || elements != kWork || columns > rows || reflectors > columns) return kInvalidValue; \
    return enqueue(stream, 1, [=] {                                                                                  \
      multiply_reflectors({#T[0], a, leading}, rows, columns, reflectors, {#T[0], factors, reflectors});             \
      *numbers(info) = 0;                                                                                            \
    });                                                                                                              \
  }
STRATA_FAKE_CUSOLVER_QR(S, orgqr)
STRATA_FAKE_CUSOLVER_QR(D, orgqr)
STRATA_FAKE_CUSOLVER_QR(C, ungqr)
STRATA_FAKE_CUSOLVER_QR(Z, ungqr)
STRATA_FAKE_CUSOLVER(S)
STRATA_FAKE_CUSOLVER(D)
STRATA_FAKE_CUSOLVER(C)
STRATA_FAKE_CUSOLVER(Z)

}  // extern "C"
