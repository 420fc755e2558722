#include "runtime/matrix_product.h"

#include <cassert>

namespace strata {
namespace {

constexpr std::array<std::string_view, 3> kActivations{"none", "relu", "gelu"};

int element_type(DType type) {
  switch (type) {
    case DType::F16:
      return CublasLt::kF16;
    case DType::BF16:
      return CublasLt::kBF16;
    case DType::F32:
      return CublasLt::kF32;
    case DType::F64:
      return CublasLt::kF64;
  }
  return CublasLt::kF32;
}

uint32_t epilogue_of(const MatrixProduct& product) {
  const uint32_t bits = (product.bias ? CublasLt::kBias : 0) |
                        (product.activation == Activation::Relu ? CublasLt::kRelu : 0) |
                        (product.activation == Activation::Gelu ? CublasLt::kGelu : 0);
  return bits == 0 ? CublasLt::kNoEpilogue : bits;
}

class PreparedProduct final : public PreparedWork {
 public:
  PreparedProduct(const ProductLibrary& library, const MatrixProduct& product) : library_(library), product_(product) {}
  ~PreparedProduct() override;

  int64_t workspace_bytes() const override { return kProductWorkspace; }
  Result<void> describe_all();
  Result<void> choose();
  Result<void> run(CudaStream stream, const std::vector<CudaPointer>& arguments, CudaPointer workspace) const override;

 private:
  const ProductLibrary& library_;
  MatrixProduct product_;
  CublasLt::Product operation_ = nullptr;
  CublasLt::Layout a_ = nullptr, b_ = nullptr, c_ = nullptr;
  CublasLt::Algorithm algorithm_{};
};

PreparedProduct::~PreparedProduct() {
  const CublasLt& lt = library_.functions();
  for (CublasLt::Layout layout : {a_, b_, c_}) {
    if (layout != nullptr) lt.destroy_layout(layout);
  }
  if (operation_ != nullptr) lt.destroy_product(operation_);
}

/// The library's matrices are column-major: it computes Cᵀ = Bᵀ·Aᵀ, whose operands in its eyes are our B and A as they
/// lie. So the columns of its result are our rows, and a bias of n elements is one of its result's rows.
Result<void> PreparedProduct::describe_all() {
  const CublasLt& lt = library_.functions();
  const MatrixProduct& p = product_;
  const bool wide = p.type == DType::F64;
  STRATA_CHECK(lt.check(lt.create_product(&operation_, wide ? CublasLt::kComputeF64 : CublasLt::kComputeF32,
                                          wide ? CublasLt::kF64 : CublasLt::kF32),
                        "describing a product"));
  const auto set = [&](int attribute, const auto& value) {
    return lt.check(lt.set_product(operation_, attribute, &value, sizeof value), "describing a product");
  };
  if (p.b.transposed) STRATA_CHECK(set(CublasLt::kTransposeA, CublasLt::kTransposed));
  if (p.a.transposed) STRATA_CHECK(set(CublasLt::kTransposeB, CublasLt::kTransposed));
  STRATA_CHECK(set(CublasLt::kEpilogue, epilogue_of(p)));
  const auto layout = [&](CublasLt::Layout& made, int64_t rows, int64_t columns, const MatrixProduct::Operand& operand,
                          DType type) -> Result<void> {
    // Stored rows are the library's columns.
    if (operand.transposed) std::swap(rows, columns);
    STRATA_CHECK(lt.check(lt.create_layout(&made, element_type(type), static_cast<uint64_t>(columns),
                                           static_cast<uint64_t>(rows), operand.leading),
                          "describing a matrix"));
    const auto batch = static_cast<int32_t>(p.batch);
    STRATA_CHECK(lt.check(lt.set_layout(made, CublasLt::kBatchCount, &batch, sizeof batch), "describing a batch"));
    return lt.check(lt.set_layout(made, CublasLt::kBatchStride, &operand.batch_stride, sizeof operand.batch_stride),
                    "describing a batch");
  };
  STRATA_CHECK(layout(a_, p.m, p.k, p.a, p.type));
  STRATA_CHECK(layout(b_, p.k, p.n, p.b, p.type));
  return layout(c_, p.m, p.n, {false, p.n, p.batch == 1 ? 0 : p.m * p.n}, p.result_type());
}

Result<void> PreparedProduct::choose() {
  const CublasLt& lt = library_.functions();
  CublasLt::Preference preference = nullptr;
  STRATA_CHECK(lt.check(lt.create_preference(&preference), "choosing an algorithm"));
  const auto destroy = [&](CublasLt::Preference* of) { lt.destroy_preference(*of); };
  const std::unique_ptr<CublasLt::Preference, decltype(destroy)> owner(&preference, destroy);
  const auto workspace = static_cast<uint64_t>(kProductWorkspace);
  STRATA_CHECK(lt.check(lt.set_preference(preference, CublasLt::kMostWorkspace, &workspace, sizeof workspace),
                        "choosing an algorithm"));
  STRATA_CHECK(lt.check(lt.set_preference(preference, CublasLt::kReductions, &CublasLt::kExactReductions,
                                          sizeof CublasLt::kExactReductions),
                        "choosing an algorithm"));
  std::array<CublasLt::Heuristic, kMostAlgorithms> offered{};
  int count = 0;
  const int status =
      lt.heuristics(library_.handle(), operation_, b_, a_, c_, c_, preference, kMostAlgorithms, offered.data(), &count);
  STRATA_CHECK(lt.check(status, fmt::format("choosing an algorithm for {}", describe(product_))));
  std::vector<CublasLt::Algorithm> usable;
  for (int i = 0; i < count; ++i) {
    const CublasLt::Heuristic& one = offered[static_cast<size_t>(i)];
    if (one.state == 0 && one.workspace_bytes <= workspace) usable.push_back(one.algorithm);
  }
  const auto wanted = static_cast<size_t>(product_.algorithm);
  if (wanted >= usable.size())
    return unsupported("cuBLASLt has {} algorithms for {}", usable.size(), describe(product_));
  algorithm_ = usable[wanted];
  return {};
}

Result<void> PreparedProduct::run(CudaStream stream, const std::vector<CudaPointer>& arguments,
                                  CudaPointer workspace) const {
  assert(arguments.size() == product_.arguments());
  const CublasLt& lt = library_.functions();
  if (product_.bias) {
    STRATA_CHECK(lt.check(lt.set_product(operation_, CublasLt::kBiasPointer, &arguments[2], sizeof arguments[2]),
                          "naming the bias"));
  }
  // Factors have the type of the sums.
  const double one = 1;
  const double kept = product_.accumulates ? 1 : 0;
  const float one_f32 = 1;
  const float kept_f32 = product_.accumulates ? 1 : 0;
  const bool wide = product_.type == DType::F64;
  return lt.check(
      lt.multiply(library_.handle(), operation_, wide ? static_cast<const void*>(&one) : &one_f32, arguments[1], b_,
                  arguments[0], a_, wide ? static_cast<const void*>(&kept) : &kept_f32, arguments.back(), c_,
                  arguments.back(), c_, &algorithm_, workspace, static_cast<size_t>(kProductWorkspace), stream),
      fmt::format("multiplying {}", describe(product_)));
}

}  // namespace

std::string_view name_of(Activation activation) { return kActivations[static_cast<size_t>(activation)]; }

Result<Activation> parse_activation(std::string_view name) {
  for (size_t i = 0; i < kActivations.size(); ++i) {
    if (kActivations[i] == name) return static_cast<Activation>(i);
  }
  return invalid("'{}' is no activation of a product", name);
}

std::string describe(const MatrixProduct& p) {
  return fmt::format("{}{}{} {}×{}×{}{}{}{}, algorithm {}", p.batch == 1 ? "" : fmt::format("{} of ", p.batch),
                     name_of(p.type), p.stored ? fmt::format(" to {}", name_of(*p.stored)) : "", p.m, p.n, p.k,
                     p.accumulates ? " added" : "", p.bias ? " with bias" : "",
                     p.activation == Activation::None ? "" : fmt::format(" and {}", name_of(p.activation)),
                     p.algorithm);
}

Result<std::unique_ptr<ProductLibrary>> ProductLibrary::open() {
  std::unique_ptr<ProductLibrary> made(new ProductLibrary);
  STRATA_TRY(made->lt_, open_cublas_lt());
  STRATA_CHECK(made->lt_.check(made->lt_.create(&made->handle_), "starting"));
  return made;
}

ProductLibrary::~ProductLibrary() {
  if (handle_ != nullptr) lt_.destroy(handle_);
}

Result<std::unique_ptr<PreparedWork>> prepare(const ProductLibrary& library, const MatrixProduct& product) {
  auto made = std::make_unique<PreparedProduct>(library, product);
  STRATA_CHECK(made->describe_all());
  STRATA_CHECK(made->choose());
  return made;
}

}  // namespace strata
