// A cuBLASLt without a GPU, for tests: STRATA_CUBLAS_LT names this library. It computes on the host, as work on the
// stream of fake_cuda. $STRATA_FAKE_CUBLAS_LT has one number an algorithm, microseconds that it takes; "3 2" are two,
// and there is one that takes 1 µs where it is not set. A negative number is an algorithm that stores zeros.
#include <cmath>
#include <sstream>

#include "host_library.h"
#include "runtime/matrix_product.h"

using namespace strata;
using namespace strata::fake;

namespace {

constexpr int kInvalidValue = 7;
constexpr int kNotSupported = 15;

struct Product {
  int compute = 0;
  bool transpose_a = false, transpose_b = false;
  uint32_t epilogue = CublasLt::kNoEpilogue;
  const char* bias = nullptr;
  const char* scale = nullptr;
};

struct Layout {
  int type = 0;
  int64_t rows = 0, columns = 0, leading = 0, stride = 0;
  int32_t batch = 1;

  DType element() const {
    return type == CublasLt::kF16    ? DType::F16
           : type == CublasLt::kBF16 ? DType::BF16
           : type == CublasLt::kF64  ? DType::F64
                                     : DType::F32;
  }
  bool f8() const { return type == CublasLt::kF8E4M3 || type == CublasLt::kF8E5M2; }
  bool bytes() const { return f8() || type == CublasLt::kS8; }
  double value(const char* memory, int64_t i) const {
    const auto at = static_cast<size_t>(i);
    const auto byte = static_cast<uint8_t>(memory[bytes() ? at : 0]);
    switch (type) {
      case CublasLt::kS8:
        return static_cast<int8_t>(byte);
      case CublasLt::kF8E5M2:
        return half_to_double(static_cast<uint16_t>(byte << 8));
      case CublasLt::kF8E4M3: {
        const int exponent = byte >> 3 & 15, fraction = byte & 7;
        const double magnitude = (byte & 127) == 127 ? std::nan("")
                                 : exponent == 0     ? std::ldexp(fraction, -9)
                                                     : std::ldexp(8 + fraction, exponent - 10);
        return byte > 127 ? -magnitude : magnitude;
      }
      default:
        return load(memory, element(), i);
    }
  }
  void put(char* memory, int64_t i, double to) const {
    if (type != CublasLt::kS32) return store(memory, element(), i, to);
    const auto wrapped = static_cast<uint32_t>(static_cast<int64_t>(to));
    std::memcpy(memory + 4 * i, &wrapped, sizeof wrapped);
  }
  /// Of column-major memory.
  int64_t place(int64_t b, int64_t row, int64_t column) const { return b * stride + column * leading + row; }
};

struct Preference {
  uint64_t workspace = 0;
};

std::vector<double> algorithms() {
  const char* text = std::getenv("STRATA_FAKE_CUBLAS_LT");
  std::istringstream words(text == nullptr ? "1" : text);
  std::vector<double> times;
  for (double time = 0; words >> time;) times.push_back(time);
  return times;
}

struct Work {
  Product product;
  Layout a, b, d;
  const char* from_a;
  const char* from_b;
  char* to;
  bool adds;
  double us;
};

double activated(uint32_t epilogue, double x) {
  if ((epilogue & CublasLt::kRelu) != 0) return std::max(x, 0.0);
  if ((epilogue & CublasLt::kGelu) != 0)
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

void compute(const Work& w) {
  const double scale = w.product.scale == nullptr ? 1 : load(w.product.scale, DType::F32, 0);
  const int64_t terms = w.product.transpose_a ? w.a.rows : w.a.columns;
  for (int64_t batch = 0; batch < w.d.batch; ++batch) {
    for (int64_t column = 0; column < w.d.columns; ++column) {
      for (int64_t row = 0; row < w.d.rows; ++row) {
        double sum = w.adds ? load(w.to, w.d.element(), w.d.place(batch, row, column)) : 0;
        for (int64_t k = 0; k < terms && w.us >= 0; ++k) {
          const int64_t at = w.product.transpose_a ? w.a.place(batch, k, row) : w.a.place(batch, row, k);
          const int64_t bt = w.product.transpose_b ? w.b.place(batch, column, k) : w.b.place(batch, k, column);
          sum += w.a.value(w.from_a, at) * w.b.value(w.from_b, bt);
        }
        sum *= scale;
        if ((w.product.epilogue & CublasLt::kBias) != 0) sum += load(w.product.bias, w.d.element(), row);
        w.d.put(w.to, w.d.place(batch, row, column), activated(w.product.epilogue, sum));
      }
    }
  }
}

template <class Value>
int assign(Value& to, const void* from, size_t size) {
  if (size != sizeof to) return kInvalidValue;
  std::memcpy(&to, from, size);
  return 0;
}

bool fits(const Product& p, const Layout& a, const Layout& b, const Layout& d) {
  const int64_t rows = p.transpose_a ? a.columns : a.rows;
  const int64_t terms = p.transpose_a ? a.rows : a.columns;
  const int64_t terms_b = p.transpose_b ? b.columns : b.rows;
  const int64_t columns = p.transpose_b ? b.rows : b.columns;
  for (const Layout& layout : {a, b, d}) {
    if (layout.leading < layout.rows || layout.batch != d.batch) return false;
  }
  if (rows != d.rows || columns != d.columns || terms != terms_b) return false;
  if (a.bytes()) {
    // Terms side by side, and 16 bytes of them.
    if (!p.transpose_a || p.transpose_b || p.epilogue != CublasLt::kNoEpilogue) return false;
    for (const int64_t size : {a.leading, b.leading, a.stride, b.stride, rows, terms}) {
      if (size % kByteAlignment != 0) return false;
    }
    if (!a.f8()) {
      return b.type == CublasLt::kS8 && d.type == CublasLt::kS32 && p.compute == CublasLt::kComputeS32 &&
             columns >= kFewestIntegerRows && p.scale == nullptr;
    }
    return b.f8() && !(a.type == CublasLt::kF8E5M2 && b.type == CublasLt::kF8E5M2) && d.type != CublasLt::kF64 &&
           d.type != CublasLt::kS32 && p.compute == CublasLt::kComputeF32;
  }
  const bool narrow = a.element() == DType::F16 || a.element() == DType::BF16;
  if (a.type != b.type || (d.type != a.type && !(narrow && d.element() == DType::F32))) return false;
  const bool computes = p.compute == (d.element() == DType::F64 ? CublasLt::kComputeF64 : CublasLt::kComputeF32);
  return computes && p.scale == nullptr;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusName(int status) {
  return status == kNotSupported ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}
int cublasLtCreate(void** handle) {
  *handle = new int(0);
  return 0;
}
int cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return 0;
}
int cublasLtMatmulDescCreate(Product** made, int compute_type, int) {
  *made = new Product{compute_type};
  return 0;
}
int cublasLtMatmulDescDestroy(Product* product) {
  delete product;
  return 0;
}
int cublasLtMatmulDescSetAttribute(Product* product, int attribute, const void* value, size_t size) {
  int32_t operation = 0;
  switch (attribute) {
    case CublasLt::kTransposeA:
    case CublasLt::kTransposeB:
      if (assign(operation, value, size) != 0) return kInvalidValue;
      (attribute == CublasLt::kTransposeA ? product->transpose_a : product->transpose_b) = operation == 1;
      return 0;
    case CublasLt::kEpilogue:
      return assign(product->epilogue, value, size);
    case CublasLt::kBiasPointer:
      return assign(product->bias, value, size);
    case CublasLt::kScaleAPointer:
      return assign(product->scale, value, size);
    default:
      return kInvalidValue;
  }
}
int cublasLtMatrixLayoutCreate(Layout** made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  *made = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return 0;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value, size_t size) {
  if (attribute == CublasLt::kBatchCount) return assign(layout->batch, value, size);
  return attribute == CublasLt::kBatchStride ? assign(layout->stride, value, size) : kInvalidValue;
}
int cublasLtMatmulPreferenceCreate(Preference** made) {
  *made = new Preference;
  return 0;
}
int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  return 0;
}
int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value, size_t size) {
  if (attribute == CublasLt::kMostWorkspace) return assign(preference->workspace, value, size);
  const bool aligns = attribute == CublasLt::kLeastAlignmentA || attribute == CublasLt::kLeastAlignmentB;
  if (aligns) return size == sizeof(uint32_t) ? 0 : kInvalidValue;
  return attribute == CublasLt::kReductions ? 0 : kInvalidValue;
}
int cublasLtMatmulAlgoGetHeuristic(void*, Product* product, Layout* a, Layout* b, Layout* c, Layout* d, Preference*,
                                   int wanted, CublasLt::Heuristic* results, int* found) {
  if (c != d || !fits(*product, *a, *b, *d)) return kNotSupported;
  const std::vector<double> times = algorithms();
  *found = std::min(wanted, static_cast<int>(times.size()));
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].algorithm.data[0] = static_cast<uint64_t>(i);
  }
  return 0;
}
int cublasLtMatmul(void*, Product* product, const void*, const void* a, Layout* layout_a, const void* b,
                   Layout* layout_b, const void* beta, const void* c, Layout*, void* d, Layout* layout_d,
                   const CublasLt::Algorithm* algorithm, void* workspace, size_t, CudaStream stream) {
  if (workspace == nullptr || c != d || !fits(*product, *layout_a, *layout_b, *layout_d)) return kNotSupported;
  double factor = 0;
  if (product->compute == CublasLt::kComputeF64) {
    factor = *static_cast<const double*>(beta);
  } else if (product->compute == CublasLt::kComputeS32) {
    factor = *static_cast<const int32_t*>(beta);
  } else {
    factor = *static_cast<const float*>(beta);
  }
  if (factor != 0 && factor != 1) return kInvalidValue;
  const Work work{*product,
                  *layout_a,
                  *layout_b,
                  *layout_d,
                  static_cast<const char*>(a),
                  static_cast<const char*>(b),
                  static_cast<char*>(d),
                  factor == 1,
                  algorithms()[algorithm->data[0]]};
  return enqueue(stream, std::abs(work.us), [work] { compute(work); });
}

}  // extern "C"
