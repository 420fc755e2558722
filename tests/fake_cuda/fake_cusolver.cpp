// A cuSOLVER without a GPU, for tests: STRATA_CUSOLVER names this library. It computes on the host, as work on the
// stream of fake_cuda.
#include "host_matrices.h"
#include "host_spectra.h"
#include "runtime/cusolver.h"

using namespace strata;
using namespace strata::fake;

namespace {

constexpr int kInvalidValue = 3, kInternalError = 7;
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

int put(CudaStream of, std::function<void()> work) { return enqueue(of, 1, std::move(work)); }

/// What a graph cannot hold: as the library, which asks on the host how far its work on the stream has come.
int wait_for(CudaStream of, std::function<void()> work) {
  static const auto capturing = driver_function<int (*)(CudaStream, int*)>("cuStreamIsCapturing");
  int recorded = 0;
  if (capturing(of, &recorded) != 0 || recorded != 0) return kInternalError;
  return enqueue(of, 1, std::move(work));
}

void find_all_eigen(char type, int64_t batch, int64_t n, int triangle, int vectors, CudaPointer a, CudaPointer values,
                    CudaPointer info) {
  const CudaPointer bytes = type == 'S' ? 4 : 8, order = static_cast<CudaPointer>(n);
  for (CudaPointer i = 0; i < static_cast<CudaPointer>(batch); ++i) {
    find_eigen({type, a + i * order * order * bytes, n}, n, triangle == Cublas::kUpper, vectors == Cusolver::kVectors,
               {type, values + i * order * bytes, n});
    numbers(info)[i] = 0;
  }
}

void find_all_singular(char type, int64_t batch, int64_t m, int64_t n, int vectors, CudaPointer a, CudaPointer values,
                       CudaPointer left, CudaPointer right, CudaPointer info) {
  const int64_t bytes = type == 'S' ? 4 : 8, k = std::min(m, n);
  for (int64_t i = 0; i < batch; ++i) {
    const auto at = [&](CudaPointer of, int64_t elements) {
      return of + static_cast<CudaPointer>(i * elements * bytes);
    };
    find_singular({type, at(a, m * n), m}, m, n, {type, at(values, k), k}, vectors == Cusolver::kVectors,
                  {type, at(left, m * m), m}, m, {type, at(right, n * n), n}, n);
    numbers(info)[i] = 0;
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

int cusolverDnCreateParams(Cusolver::ParametersTag** made) {
  *made = reinterpret_cast<Cusolver::ParametersTag*>(&stream);
  return 0;
}
int cusolverDnDestroyParams(Cusolver::ParametersTag*) { return 0; }
int cusolverDnCreateSyevjInfo(Cusolver::RotationsTag** made) {
  *made = reinterpret_cast<Cusolver::RotationsTag*>(&stream);
  return 0;
}
int cusolverDnDestroySyevjInfo(Cusolver::RotationsTag*) { return 0; }
int cusolverDnCreateGesvdjInfo(Cusolver::SingularTag** made) {
  *made = reinterpret_cast<Cusolver::SingularTag*>(&stream);
  return 0;
}
int cusolverDnDestroyGesvdjInfo(Cusolver::SingularTag*) { return 0; }

int cusolverDnXsyevBatched_bufferSize(Cusolver::Handle, Cusolver::ParametersTag* settings, int, int, int64_t n,
                                      int type, CudaPointer, int64_t leading, int values_type, CudaPointer, int compute,
                                      size_t* device, size_t* host, int64_t batch) {
  const char* of_each = std::getenv("STRATA_FAKE_CUSOLVER_WORKSPACE");
  *device = of_each == nullptr ? kWork : std::strtoull(of_each, nullptr, 10) * static_cast<size_t>(batch);
  *host = kWork;
  return settings == nullptr || leading < n || type != values_type || type != compute ? kInvalidValue : 0;
}
int cusolverDnXsyevBatched(Cusolver::Handle, Cusolver::ParametersTag* settings, int vectors, int triangle, int64_t n,
                           int type, CudaPointer a, int64_t leading, int values_type, CudaPointer values, int compute,
                           CudaPointer work, size_t device, void* on_host, size_t host, CudaPointer info,
                           int64_t batch) {
  if (settings == nullptr || work == 0 || on_host == nullptr || device < kWork || host != kWork) return kInvalidValue;
  if (leading != n || n <= 32 || type != values_type || type != compute) return kInvalidValue;
  return (n > 512 ? &wait_for : &put)(stream, [=] {
    find_all_eigen(type == Cusolver::kF32 ? 'S' : 'D', batch, n, triangle, vectors, a, values, info);
  });
}

#define STRATA_FAKE_CUSOLVER_SPECTRA(T)                                                                                \
  int cusolverDn##T##syevjBatched_bufferSize(Cusolver::Handle, int, int, int n, CudaPointer, int leading, CudaPointer, \
                                             int* elements, Cusolver::RotationsTag* settings, int) {                   \
    *elements = kWork;                                                                                                 \
    return settings == nullptr || leading < n ? kInvalidValue : 0;                                                     \
  }                                                                                                                    \
  int cusolverDn##T##syevjBatched(Cusolver::Handle, int vectors, int triangle, int n, CudaPointer a, int leading,      \
                                  CudaPointer values, CudaPointer work, int elements, CudaPointer info,                \
                                  Cusolver::RotationsTag* settings, int batch) {                                       \
    if (settings == nullptr || work == 0 || elements != kWork || leading != n) return kInvalidValue;                   \
    return put(stream, [=] { find_all_eigen(#T[0], batch, n, triangle, vectors, a, values, info); });                  \
  }                                                                                                                    \
  int cusolverDn##T##gesvdjBatched_bufferSize(Cusolver::Handle, int, int rows, int columns, CudaPointer, int leading,  \
                                              CudaPointer, CudaPointer, int, CudaPointer, int, int* elements,          \
                                              Cusolver::SingularTag* settings, int) {                                  \
    *elements = kWork;                                                                                                 \
    return settings == nullptr || leading < rows || rows > 32 || columns > 32 ? kInvalidValue : 0;                     \
  }                                                                                                                    \
  int cusolverDn##T##gesvdjBatched(Cusolver::Handle, int vectors, int rows, int columns, CudaPointer a, int leading,   \
                                   CudaPointer values, CudaPointer left, int left_leading, CudaPointer right,          \
                                   int right_leading, CudaPointer work, int elements, CudaPointer info,                \
                                   Cusolver::SingularTag* settings, int batch) {                                       \
    if (settings == nullptr || left == 0 || right == 0 || work == 0 || elements != kWork) return kInvalidValue;        \
    if (leading != rows || left_leading != rows || right_leading != columns) return kInvalidValue;                     \
    return put(stream,                                                                                                 \
               [=] { find_all_singular(#T[0], batch, rows, columns, vectors, a, values, left, right, info); });        \
  }
STRATA_FAKE_CUSOLVER_SPECTRA(S)
STRATA_FAKE_CUSOLVER_SPECTRA(D)

}  // extern "C"
