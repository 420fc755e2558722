#include "runtime/matrix_product.h"

#include <cassert>

namespace strata {
namespace {

constexpr std::array<std::string_view, 3> kActivations{"none", "relu", "gelu"};
constexpr std::array<std::string_view, 3> kByteTypes{"f8e4m3fn", "f8e5m2", "s8"};

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

int element_type(ByteType type) {
  switch (type) {
    case ByteType::F8E4M3FN:
      return CublasLt::kF8E4M3;
    case ByteType::F8E5M2:
      return CublasLt::kF8E5M2;
    case ByteType::S8:
      return CublasLt::kS8;
  }
  return CublasLt::kS8;
}

/// The type of sums and of factors, in the library's numbers.
std::pair<int, int> computing_of(const MatrixProduct& product) {
  if (product.of_integers()) return {CublasLt::kComputeS32, CublasLt::kS32};
  if (product.type == DType::F64) return {CublasLt::kComputeF64, CublasLt::kF64};
  return {product.tf32 ? CublasLt::kComputeTf32 : CublasLt::kComputeF32, CublasLt::kF32};
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
  const auto [sums, factors] = computing_of(p);
  STRATA_CHECK(lt.check(lt.create_product(&operation_, sums, factors), "describing a product"));
  const auto set = [&](int attribute, const auto& value) {
    return lt.check(lt.set_product(operation_, attribute, &value, sizeof value), "describing a product");
  };
  if (p.b.transposed) STRATA_CHECK(set(CublasLt::kTransposeA, CublasLt::kTransposed));
  if (p.a.transposed) STRATA_CHECK(set(CublasLt::kTransposeB, CublasLt::kTransposed));
  STRATA_CHECK(set(CublasLt::kEpilogue, epilogue_of(p)));
  const auto layout = [&](CublasLt::Layout& made, int64_t rows, int64_t columns, const MatrixProduct::Operand& operand,
                          int type) -> Result<void> {
    // Stored rows are the library's columns.
    if (operand.transposed) std::swap(rows, columns);
    STRATA_CHECK(lt.check(
        lt.create_layout(&made, type, static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), operand.leading),
        "describing a matrix"));
    const auto batch = static_cast<int32_t>(p.batch);
    STRATA_CHECK(lt.check(lt.set_layout(made, CublasLt::kBatchCount, &batch, sizeof batch), "describing a batch"));
    return lt.check(lt.set_layout(made, CublasLt::kBatchStride, &operand.batch_stride, sizeof operand.batch_stride),
                    "describing a batch");
  };
  const auto type_of = [&](const MatrixProduct::Operand& operand) {
    return operand.bytes ? element_type(*operand.bytes) : element_type(p.type);
  };
  STRATA_CHECK(layout(a_, p.m, p.k, p.a, type_of(p.a)));
  STRATA_CHECK(layout(b_, p.k, p.n, p.b, type_of(p.b)));
  return layout(c_, p.m, p.n, {false, p.n, p.batch == 1 ? 0 : p.m * p.n},
                p.of_integers() ? CublasLt::kS32 : element_type(p.result_type()));
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
  // Arrays begin at multiples of what the library takes for granted, 256 bytes. What lies inside of one may not.
  const auto align = [&](int attribute, const MatrixProduct::Operand& operand) -> Result<void> {
    if (operand.offset == 0) return {};
    const auto bytes = static_cast<uint64_t>(operand.offset * product_.size_of_operand(operand));
    const auto least = static_cast<uint32_t>(std::min<uint64_t>(bytes & -bytes, 256));
    return lt.check(lt.set_preference(preference, attribute, &least, sizeof least), "choosing an algorithm");
  };
  STRATA_CHECK(align(CublasLt::kLeastAlignmentA, product_.b));  // the library's A is our B
  STRATA_CHECK(align(CublasLt::kLeastAlignmentB, product_.a));
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
  const auto name = [&](int attribute, size_t argument) {
    return lt.check(lt.set_product(operation_, attribute, &arguments[argument], sizeof arguments[argument]),
                    "naming what goes with a product");
  };
  if (product_.scaled) STRATA_CHECK(name(CublasLt::kScaleAPointer, 2));
  if (product_.bias) STRATA_CHECK(name(CublasLt::kBiasPointer, product_.scaled ? 3 : 2));
  const auto start_of = [&](size_t argument, const MatrixProduct::Operand& operand) {
    return arguments[argument] + static_cast<CudaPointer>(operand.offset * product_.size_of_operand(operand));
  };
  // Factors have the type of the sums.
  const auto multiply = [&](auto one) {
    const auto kept = product_.accumulates ? one : decltype(one){0};
    return lt.multiply(library_.handle(), operation_, &one, start_of(1, product_.b), b_, start_of(0, product_.a), a_,
                       &kept, arguments.back(), c_, arguments.back(), c_, &algorithm_, workspace,
                       static_cast<size_t>(kProductWorkspace), stream);
  };
  const int status = product_.of_integers()        ? multiply(int32_t{1})
                     : product_.type == DType::F64 ? multiply(double{1})
                                                   : multiply(float{1});
  return lt.check(status, fmt::format("multiplying {}", describe(product_)));
}

}  // namespace

std::string_view name_of(Activation activation) { return kActivations[static_cast<size_t>(activation)]; }

Result<Activation> parse_activation(std::string_view name) {
  for (size_t i = 0; i < kActivations.size(); ++i) {
    if (kActivations[i] == name) return static_cast<Activation>(i);
  }
  return invalid("'{}' is no activation of a product", name);
}

std::string_view name_of(ByteType type) { return kByteTypes[static_cast<size_t>(type)]; }

Result<ByteType> parse_byte_type(std::string_view name) {
  for (size_t i = 0; i < kByteTypes.size(); ++i) {
    if (kByteTypes[i] == name) return static_cast<ByteType>(i);
  }
  return invalid("'{}' is no type of one byte that products have", name);
}

std::string describe(const MatrixProduct& p) {
  const auto type_of = [&](const MatrixProduct::Operand& of) {
    return of.bytes ? name_of(*of.bytes) : name_of(p.type);
  };
  std::string types(type_of(p.a));
  if (type_of(p.b) != types) types += fmt::format(" by {}", type_of(p.b));
  if (p.tf32) types += " as tf32";
  if (p.stored || p.a.bytes) types += fmt::format(" to {}", p.of_integers() ? "s32" : name_of(p.result_type()));
  return fmt::format(
      "{}{} {}×{}×{}{}{}{}{}, algorithm {}", p.batch == 1 ? "" : fmt::format("{} of ", p.batch), types, p.m, p.n, p.k,
      p.scaled ? " scaled" : "", p.accumulates ? " added" : "", p.bias ? " with bias" : "",
      p.activation == Activation::None ? "" : fmt::format(" and {}", name_of(p.activation)), p.algorithm);
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
