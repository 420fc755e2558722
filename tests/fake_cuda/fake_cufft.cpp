// A cuFFT without a GPU, for tests: STRATA_CUFFT names this library. It computes on the host, as work on the stream of
// fake_cuda, each number as the sum that defines it. What complex_to_real reads is NaN afterwards.
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>

#include "host_library.h"
#include "runtime/cufft.h"

using namespace strata;
using namespace strata::fake;

namespace {

constexpr int kInvalidPlan = 1, kInvalidValue = 4;
constexpr size_t kWorkBytes = 512;
using Number = std::complex<double>;

struct Plan {
  std::vector<int64_t> lengths;
  int type = 0;
  int64_t batch = 1;
  CudaStream stream = nullptr;
  bool has_work = false;

  bool wide() const { return type >= Cufft::kRealToComplex + Cufft::kWide - 1; }
  int kind() const { return wide() ? type - Cufft::kWide : type; }
  DType element() const { return wide() ? DType::F64 : DType::F32; }
};

std::map<int, Plan>& plans() {
  static std::map<int, Plan> all;
  return all;
}

/// In place along one dimension of an array of these sizes.
void transform(std::vector<Number>& data, const std::vector<int64_t>& sizes, size_t dimension, int direction) {
  const int64_t n = sizes[dimension];
  int64_t stride = 1;
  for (size_t d = dimension + 1; d < sizes.size(); ++d) stride *= sizes[d];
  for (int64_t first = 0; first < static_cast<int64_t>(data.size()); ++first) {
    if (first / stride % n != 0) continue;
    std::vector<Number> line(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t j = 0; j < n; ++j) {
        const double angle = direction * 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        line[static_cast<size_t>(k)] += data[static_cast<size_t>(first + j * stride)] * std::polar(1.0, angle);
      }
    }
    for (int64_t k = 0; k < n; ++k) data[static_cast<size_t>(first + k * stride)] = line[static_cast<size_t>(k)];
  }
}

int64_t elements(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

void compute(const Plan& plan, char* from, char* to, int direction) {
  const DType type = plan.element();
  const bool from_real = plan.kind() == Cufft::kRealToComplex, to_real = plan.kind() == Cufft::kComplexToReal;
  std::vector<int64_t> half = plan.lengths;
  half.back() = half.back() / 2 + 1;
  const int64_t n = plan.lengths.back(), m = half.back();
  for (int64_t b = 0; b < plan.batch; ++b) {
    std::vector<Number> data;
    const int64_t count = elements(to_real ? half : plan.lengths);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = b * count + i;
      data.push_back(from_real ? Number(load(from, type, at))
                               : Number(load(from, type, 2 * at), load(from, type, 2 * at + 1)));
    }
    for (size_t d = 0; d + 1 < plan.lengths.size(); ++d) transform(data, to_real ? half : plan.lengths, d, direction);
    if (to_real) {  // the other half of each row is its conjugate
      std::vector<Number> whole;
      for (int64_t row = 0; row < elements(plan.lengths) / n; ++row) {
        for (int64_t i = 0; i < n; ++i) {
          const Number value = data[static_cast<size_t>(row * m + (i < m ? i : n - i))];
          const bool alone = i == 0 || 2 * i == n;
          whole.push_back(alone ? Number(value.real()) : i < m ? value : std::conj(value));
        }
      }
      data = whole;
    }
    transform(data, plan.lengths, plan.lengths.size() - 1, direction);
    int64_t next = b * elements(from_real ? half : plan.lengths);
    for (int64_t i = 0; i < static_cast<int64_t>(data.size()); ++i) {
      if (from_real && i % n >= m) continue;
      const Number value = data[static_cast<size_t>(i)];
      if (to_real) {
        store(to, type, next++, value.real());
      } else {
        store(to, type, 2 * next, value.real());
        store(to, type, 2 * next++ + 1, value.imag());
      }
    }
  }
  for (int64_t i = 0; to_real && i < 2 * plan.batch * elements(half); ++i)
    store(from, type, i, std::numeric_limits<double>::quiet_NaN());
}

int run(int number, CudaPointer from, CudaPointer to, int kind, bool wide, int direction) {
  const auto found = plans().find(number);
  if (found == plans().end() || !found->second.has_work) return kInvalidPlan;
  const Plan plan = found->second;
  if (plan.kind() != kind || plan.wide() != wide || from == to) return kInvalidValue;
  auto* const read = reinterpret_cast<char*>(from);
  auto* const written = reinterpret_cast<char*>(to);
  return enqueue(plan.stream, 1, [plan, read, written, direction] { compute(plan, read, written, direction); });
}

}  // namespace

extern "C" {

int cufftGetVersion(int* version) {
  *version = 12000;
  return 0;
}
int cufftCreate(int* plan) {
  static int next = 0;
  plans()[*plan = ++next] = {};
  return 0;
}
int cufftDestroy(int plan) { return plans().erase(plan) == 1 ? 0 : kInvalidPlan; }
int cufftSetAutoAllocation(int, int whether) { return whether == 0 ? 0 : kInvalidValue; }
int cufftMakePlanMany64(int number, int rank, const long long* lengths, const long long* in, long long, long long,
                        const long long* out, long long, long long, int type, long long batch, size_t* work_bytes) {
  if (rank < 1 || rank > 3 || in != nullptr || out != nullptr || batch < 1) return kInvalidValue;
  Plan& plan = plans().at(number);
  plan.lengths.assign(lengths, lengths + rank);
  plan.type = type;
  plan.batch = batch;
  *work_bytes = kWorkBytes;
  return 0;
}
int cufftSetWorkArea(int plan, void* work) {
  plans().at(plan).has_work = work != nullptr;
  return 0;
}
int cufftSetStream(int plan, CudaStream stream) {
  plans().at(plan).stream = stream;
  return 0;
}
int cufftExecC2C(int plan, CudaPointer from, CudaPointer to, int direction) {
  return run(plan, from, to, Cufft::kComplexToComplex, false, direction);
}
int cufftExecZ2Z(int plan, CudaPointer from, CudaPointer to, int direction) {
  return run(plan, from, to, Cufft::kComplexToComplex, true, direction);
}
int cufftExecR2C(int plan, CudaPointer from, CudaPointer to) {
  return run(plan, from, to, Cufft::kRealToComplex, false, Cufft::kForward);
}
int cufftExecD2Z(int plan, CudaPointer from, CudaPointer to) {
  return run(plan, from, to, Cufft::kRealToComplex, true, Cufft::kForward);
}
int cufftExecC2R(int plan, CudaPointer from, CudaPointer to) {
  return run(plan, from, to, Cufft::kComplexToReal, false, Cufft::kInverse);
}
int cufftExecZ2D(int plan, CudaPointer from, CudaPointer to) {
  return run(plan, from, to, Cufft::kComplexToReal, true, Cufft::kInverse);
}

}  // extern "C"
