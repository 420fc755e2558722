// Products of HLO as strided products of matrices.
#include <numeric>

#include "emitters/library/call_plan.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

/// The dimensions of one operand, or of the result.
struct Roles {
  Dimensions batch, rows, columns;
};

/// Matrices in memory: rows × columns, `batch` apart.
struct Places {
  int64_t batch = 0, row = 0, column = 0;
};

Dimensions free_dimensions(int64_t rank, const Dimensions& batch, const Dimensions& contracting) {
  Dimensions free;
  for (int64_t d = 0; d < rank; ++d) {
    const auto is = [&](const Dimensions& of) { return std::find(of.begin(), of.end(), d) != of.end(); };
    if (!is(batch) && !is(contracting)) free.push_back(d);
  }
  return free;
}

int64_t product_of(const Dimensions& sizes, const Dimensions& dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), int64_t{1},
                         [&](int64_t all, int64_t d) { return all * sizes[static_cast<size_t>(d)]; });
}

std::optional<Places> places(const Roles& roles, const Dimensions& sizes, const Dimensions& strides) {
  const auto batch = merged_stride(roles.batch, sizes, strides);
  const auto row = merged_stride(roles.rows, sizes, strides);
  const auto column = merged_stride(roles.columns, sizes, strides);
  if (!batch || !row || !column) return std::nullopt;
  return Places{*batch, *row, *column};
}

/// A matrix of these places, if the library takes it.
std::optional<MatrixProduct::Operand> matrix(int64_t rows, int64_t columns, const Places& p) {
  if ((p.column == 1 || columns == 1) && (p.row >= columns || rows == 1))
    return MatrixProduct::Operand{false, rows == 1 ? columns : p.row, p.batch, {}, 0};
  if ((p.row == 1 || rows == 1) && (p.column >= rows || columns == 1))
    return MatrixProduct::Operand{true, columns == 1 ? rows : p.column, p.batch, {}, 0};
  return std::nullopt;
}

/// Elements of one byte as the library names them.
std::optional<ByteType> byte_type(hlo::ElementType type) {
  switch (type) {
    case hlo::ElementType::F8E4M3FN:
      return ByteType::F8E4M3FN;
    case hlo::ElementType::F8E5M2:
      return ByteType::F8E5M2;
    case hlo::ElementType::S8:
      return ByteType::S8;
    default:
      return std::nullopt;
  }
}

/// Whether the terms of an operand of bytes lie side by side, and where the library takes them.
bool lies_for_bytes(const MatrixProduct::Operand& matrix, bool terms_are_rows) {
  return matrix.transposed == terms_are_rows && matrix.leading % kByteAlignment == 0 &&
         matrix.batch_stride % kByteAlignment == 0;
}

/// Whether what begins inside of an array has its lines where the library's fast kernels take them.
bool begins_aligned(const MatrixProduct::Operand& matrix, int64_t element_bytes) {
  const auto whole = [&](int64_t elements) { return elements * element_bytes % kByteAlignment == 0; };
  return whole(matrix.offset) && whole(matrix.leading) && whole(matrix.batch_stride);
}

/// One operand as the product reads it.
struct Side {
  CallPlan::Operand operand;
  MatrixProduct::Operand matrix;
};

/// Whether a copy of an operand is best made with its rows side by side: where else lines of it would begin at no
/// multiple of 16 bytes, which cuBLASLt's kernels for 16-bit types want, or where it lies so already and whole lines
/// are copied then.
bool is_copied_by_columns(const hlo::Shape& shape, const MemoryView& from, const Roles& roles, int64_t rows,
                          int64_t columns) {
  const int64_t bytes = hlo::byte_width(shape.type);
  const bool aligned = columns * bytes % kByteAlignment == 0;
  if (bytes == 2 && aligned != (rows * bytes % kByteAlignment == 0)) return !aligned;
  std::optional<int64_t> innermost;
  const auto stride = [&](int64_t d) { return from.strides[static_cast<size_t>(d)]; };
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) != 1 && stride(d) > 0 && (!innermost || stride(d) < stride(*innermost))) innermost = d;
  }
  return innermost && std::find(roles.rows.begin(), roles.rows.end(), *innermost) != roles.rows.end();
}

Side side_of(const Computation& computation, InstructionId id, const Roles& roles, int64_t rows, int64_t columns,
             bool terms_are_rows) {
  const hlo::Shape& shape = computation[id].shape;
  const bool bytes = byte_type(shape.type).has_value();
  const int64_t size = shape.element_count() * hlo::byte_width(shape.type);
  const std::vector<MemoryView> views = memory_views(computation, id, Slices::InMemory);
  for (const MemoryView& view : views) {
    const auto found = places(roles, shape.dims, view.strides);
    if (!found) continue;
    auto made = matrix(rows, columns, *found);
    if (!made || (bytes && !lies_for_bytes(*made, terms_are_rows))) continue;
    made->offset = view.offset;
    if (view.inside && !begins_aligned(*made, hlo::byte_width(shape.type))) continue;
    return {{view.memory, {}, view.memory == views.front().memory ? 0 : size}, *made};
  }
  const bool turned = bytes ? terms_are_rows : is_copied_by_columns(shape, views.front(), roles, rows, columns);
  Dimensions order = roles.batch;
  for (const Dimensions* role : {turned ? &roles.columns : &roles.rows, turned ? &roles.rows : &roles.columns})
    order.insert(order.end(), role->begin(), role->end());
  return {{id, order, size}, {turned, turned ? rows : columns, rows * columns, {}, 0}};
}

/// What dimensions are called in an array of this order of them.
void renumber(Dimensions& dimensions, const Dimensions& order) {
  if (order.empty()) return;
  for (int64_t& d : dimensions) d = std::find(order.begin(), order.end(), d) - order.begin();
}

class ProductPlanner {
 public:
  ProductPlanner(const Computation& computation, const Users& users, InstructionId dot)
      : computation_(computation),
        users_(users),
        dot_(dot),
        it_(computation[dot]),
        attributes_(it_.as<hlo::DotAttributes>()),
        lhs_(computation.operand_shape(it_, 0)),
        rhs_(computation.operand_shape(it_, 1)) {}

  Result<CallPlan> plan() {
    STRATA_CHECK(take_types());
    if (it_.shape.element_count() == 0 || lhs_.element_count() == 0) return unsupported("it has no elements");
    plan_.contraction = plan_.result = dot_;
    choose_operands();
    if (bytes_) STRATA_CHECK(take_bytes());
    place_result();
    add_epilogue();
    // A result of the module in another shape is no copy of its own. Others stay: what reads them may read the product.
    if (const InstructionId last = behind_reshapes(plan_.result); !copied_ && is_given_back(last)) plan_.result = last;
    merge_batch();
    plan_.work = product_;
    return plan_;
  }

 private:
  Result<void> take_types() {
    if (byte_type(lhs_.type) && byte_type(rhs_.type)) {
      bytes_ = true;
      const bool integers = lhs_.type == hlo::ElementType::S8;
      const auto stored = library_type(it_.shape.type);
      if (integers != (rhs_.type == hlo::ElementType::S8) ||
          (integers ? it_.shape.type != hlo::ElementType::S32 : !stored || *stored == DType::F64) ||
          (lhs_.type == hlo::ElementType::F8E5M2 && rhs_.type == hlo::ElementType::F8E5M2))
        return unsupported("cuBLASLt does not multiply {} by {} to {}", hlo::name(lhs_.type), hlo::name(rhs_.type),
                           hlo::name(it_.shape.type));
      product_.type = stored.value_or(DType::F32);
      return {};
    }
    const auto type = library_type(lhs_.type);
    const auto stored = library_type(it_.shape.type);
    if (!type || !stored || lhs_.type != rhs_.type)
      return unsupported("cuBLASLt is not asked for {} by {}", hlo::name(lhs_.type), hlo::name(rhs_.type));
    product_.type = *type;
    product_.tf32 = *type == DType::F32 && attributes_.precision == hlo::OperandPrecision::Tf32;
    if (*stored == *type) return {};
    const bool narrow = *type == DType::F16 || *type == DType::BF16;
    if (!narrow || *stored != DType::F32)
      return unsupported("cuBLASLt does not store {} of {}", hlo::name(it_.shape.type), hlo::name(lhs_.type));
    product_.stored = stored;
    return {};
  }

  Result<void> take_bytes() {
    product_.a.bytes = byte_type(lhs_.type);
    product_.b.bytes = byte_type(rhs_.type);
    const MatrixProduct& p = product_;
    if (p.k % kByteAlignment != 0 || p.n % kByteAlignment != 0)
      return unsupported("it has {} terms and {} columns of {}, no multiples of {}", p.k, p.n, hlo::name(lhs_.type),
                         kByteAlignment);
    if (p.of_integers() && p.m < kFewestIntegerRows)
      return unsupported("it has {} rows of s8, fewer than {}", p.m, kFewestIntegerRows);
    return {};
  }

  /// The order of terms decides which operands lie as matrices.
  void choose_operands() {
    const Dimensions lhs_free = free_dimensions(lhs_.rank(), attributes_.lhs_batch, attributes_.lhs_contracting);
    const Dimensions rhs_free = free_dimensions(rhs_.rank(), attributes_.rhs_batch, attributes_.rhs_contracting);
    product_.batch = product_of(lhs_.dims, attributes_.lhs_batch);
    product_.m = product_of(lhs_.dims, lhs_free);
    product_.n = product_of(rhs_.dims, rhs_free);
    product_.k = product_of(lhs_.dims, attributes_.lhs_contracting);
    std::optional<int64_t> least;
    for (const Dimensions& order : orders()) {
      hlo::DotAttributes ordered = attributes_;
      for (size_t i = 0; i < order.size(); ++i) {
        ordered.lhs_contracting[i] = attributes_.lhs_contracting[static_cast<size_t>(order[i])];
        ordered.rhs_contracting[i] = attributes_.rhs_contracting[static_cast<size_t>(order[i])];
      }
      const Side a = side_of(computation_, it_.operands[0], {ordered.lhs_batch, lhs_free, ordered.lhs_contracting},
                             product_.m, product_.k, false);
      const Side b = side_of(computation_, it_.operands[1], {ordered.rhs_batch, ordered.rhs_contracting, rhs_free},
                             product_.k, product_.n, true);
      const int64_t copied = a.operand.copied_bytes + b.operand.copied_bytes;
      if (least && copied >= *least) continue;
      least = copied;
      product_.a = a.matrix;
      product_.b = b.matrix;
      renumber(ordered.lhs_batch, a.operand.permutation);
      renumber(ordered.lhs_contracting, a.operand.permutation);
      renumber(ordered.rhs_batch, b.operand.permutation);
      renumber(ordered.rhs_contracting, b.operand.permutation);
      plan_.attributes = ordered;
      plan_.operands = {a.operand, b.operand};
    }
    if (product_.batch == 1) product_.a.batch_stride = product_.b.batch_stride = 0;
  }

  /// Orders of the terms: as they are, and as each operand has them in memory.
  std::vector<Dimensions> orders() const {
    Dimensions given(attributes_.lhs_contracting.size());
    std::iota(given.begin(), given.end(), 0);
    std::vector<Dimensions> all{given};
    const auto add = [&](InstructionId id, const Dimensions& dimensions) {
      for (const MemoryView& view : memory_views(computation_, id, Slices::InMemory)) {
        Dimensions order = given;
        std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
          const auto stride = [&](int64_t i) {
            return view.strides[static_cast<size_t>(dimensions[static_cast<size_t>(i)])];
          };
          return stride(x) > stride(y);
        });
        all.push_back(order);
      }
    };
    if (given.size() > 1) {
      add(it_.operands[0], attributes_.lhs_contracting);
      add(it_.operands[1], attributes_.rhs_contracting);
    }
    return all;
  }

  /// Roles of the result's dimensions: batch, those of the left operand, those of the right one.
  Roles result_roles() const {
    Roles roles;
    const auto batch = std::ssize(attributes_.lhs_batch);
    const auto left = lhs_.rank() - std::ssize(attributes_.lhs_contracting);
    for (int64_t d = 0; d < it_.shape.rank(); ++d)
      (d < batch ? roles.batch : d < left ? roles.rows : roles.columns).push_back(d);
    return roles;
  }

  /// The library's results are row-major; where columns lie together, the transposed product is computed.
  void place_result() {
    const auto at = places(result_roles(), it_.shape.dims, hlo::memory_strides(it_.shape));
    MatrixProduct& p = product_;
    const auto lies = [&](int64_t row, int64_t column) {
      return at && (p.m == 1 || at->row == row) && (p.n == 1 || at->column == column) &&
             (p.batch == 1 || at->batch == p.m * p.n);
    };
    if (lies(p.n, 1)) return;
    const bool turns = !bytes_ || (p.m % kByteAlignment == 0 && p.n >= kFewestIntegerRows);
    if (lies(1, p.m) && turns) {
      std::swap(p.m, p.n);
      std::swap(p.a, p.b);
      p.a.transposed = !p.a.transposed;
      p.b.transposed = !p.b.transposed;
      plan_.swapped = true;
      return;
    }
    copied_ = true;
    plan_.result_permutation.resize(it_.shape.dims.size());
    std::iota(plan_.result_permutation.begin(), plan_.result_permutation.end(), 0);
    plan_.result_shape = hlo::array_shape(it_.shape.type, it_.shape.dims);
  }

  /// One B for all: the matrices of A are one, with more rows.
  void merge_batch() {
    MatrixProduct& p = product_;
    if (p.batch == 1 || p.b.batch_stride != 0 || p.a.transposed || p.a.batch_stride != p.m * p.a.leading) return;
    p.m *= p.batch;
    p.batch = 1;
    p.a.batch_stride = 0;
  }

  /// Whether elements lie as the product's do.
  bool continues(InstructionId id) const {
    const hlo::Shape& shape = computation_[id].shape;
    if (shape.dims == it_.shape.dims) return shape.minor_to_major == it_.shape.minor_to_major;
    return shape.is_array() && shape.element_count() == it_.shape.element_count() && shape.has_default_layout() &&
           it_.shape.has_default_layout();
  }

  /// A factor on the device, and the result in 16 bits.
  void add_scale() {
    const std::optional<InstructionId> product = only_user(users_, plan_.result);
    if (product && product_.type == DType::F32 && computation_[*product].opcode == Opcode::Multiply &&
        continues(*product)) {
      const Instruction& it = computation_[*product];
      const Instruction& factor = computation_[it.operands[it.operands[0] == plan_.result ? 1 : 0]];
      if (factor.opcode == Opcode::Broadcast && computation_.operand_shape(factor, 0).element_count() == 1) {
        plan_.scale = factor.operands[0];
        product_.scaled = true;
        plan_.result = *product;
      }
    }
    const std::optional<InstructionId> convert = only_user(users_, plan_.result);
    if (!convert || product_.type != DType::F32 || computation_[*convert].opcode != Opcode::Convert ||
        !continues(*convert))
      return;
    const auto type = library_type(computation_[*convert].shape.type);
    if (type != DType::F16 && type != DType::BF16) return;
    product_.type = *type;
    plan_.result = *convert;
  }

  void add_epilogue() {
    if (bytes_ && !copied_ && !product_.of_integers()) add_scale();
    if (bytes_ || copied_ || product_.type == DType::F64) return;  // the library has no epilogues in float64
    take_rounding();
    take_bias();
    take_rounding();
    take_activation();
    take_rounding();
  }

  /// Relu or gelu, which may come behind reshapes, as elements stay where they are.
  void take_activation() {
    const InstructionId id = behind_reshapes(plan_.result);
    if (const auto relu = relu_of(computation_, users_, id); relu && continues(*relu)) {
      product_.activation = Activation::Relu;
      plan_.result = *relu;
    } else if (const auto gelu = gelu_of(computation_, users_, id); gelu && continues(*gelu)) {
      product_.activation = Activation::Gelu;
      plan_.result = *gelu;
    } else if (const auto wide = only_user(users_, id); wide && is_widening(*wide)) {
      // Of 16 bits, computed in f32: the library rounds what comes of it, and nothing before.
      const auto computed = gelu_of(computation_, users_, *wide);
      const auto rounded = computed ? only_user(users_, *computed) : std::nullopt;
      if (!rounded || !continues(*rounded) || computation_[*rounded].opcode != Opcode::Convert ||
          library_type(computation_[*rounded].shape.type) != product_.type)
        return;
      product_.activation = Activation::Gelu;
      plan_.result = *rounded;
    }
  }

  /// The value in another shape, if nothing else reads it.
  InstructionId behind_reshapes(InstructionId id) const {
    for (auto user = only_user(users_, id); user; user = only_user(users_, id)) {
      if (computation_[*user].opcode != Opcode::Reshape || !continues(*user)) break;
      id = *user;
    }
    return id;
  }

  /// Whether a value is a result of the module and nothing else reads it.
  bool is_given_back(InstructionId id) const {
    const auto& readers = users_[static_cast<size_t>(id)];
    return std::all_of(readers.begin(), readers.end(), [&](InstructionId reader) {
      return reader == hlo::kCaller || (reader == computation_.root && computation_[reader].opcode == Opcode::Tuple);
    });
  }

  /// Whether it converts a result of the operands' 16 bits to f32.
  bool is_widening(InstructionId id) const {
    const Instruction& it = computation_[id];
    return !product_.stored && product_.type != DType::F32 && it.opcode == Opcode::Convert &&
           library_type(it.shape.type) == DType::F32 && continues(id);
  }

  /// Sums that are rounded to the operands' 16 bits: before a bias is added, behind it, or behind an activation. The
  /// library rounds once, behind all of these. Its bias has the result's type, so this one must have been of 16 bits
  /// before it was widened.
  void take_rounding() {
    const std::optional<InstructionId> convert = only_user(users_, plan_.result);
    if (!product_.stored || !convert || computation_[*convert].opcode != Opcode::Convert || !continues(*convert) ||
        library_type(computation_[*convert].shape.type) != product_.type)
      return;
    if (plan_.bias) {
      const std::optional<InstructionId> narrow = before_widening(*plan_.bias);
      if (!narrow) return;
      plan_.bias = narrow;
    }
    product_.stored.reset();
    plan_.result = *convert;
  }

  /// What of the operands' type a value of f32 is converted from.
  std::optional<InstructionId> before_widening(InstructionId id) const {
    const Instruction& it = computation_[id];
    if (it.opcode != Opcode::Convert) return std::nullopt;
    const hlo::Shape& before = computation_.operand_shape(it, 0);
    const bool same = library_type(before.type) == product_.type && before.minor_to_major == it.shape.minor_to_major;
    return same ? std::optional(it.operands[0]) : std::nullopt;
  }

  void take_bias() {
    const std::optional<InstructionId> sum = only_user(users_, plan_.result);
    if (!sum || plan_.swapped || computation_[*sum].opcode != Opcode::Add || !continues(*sum)) return;
    const Instruction& it = computation_[*sum];
    const InstructionId other = it.operands[it.operands[0] == plan_.result ? 1 : 0];
    const auto bias = bias_of(other);
    if (!bias) return;
    plan_.bias = *bias;
    product_.bias = true;
    plan_.result = *sum;
  }

  /// The array of one element a column that the value repeats in every row.
  std::optional<InstructionId> bias_of(InstructionId id) const {
    const Roles roles = result_roles();
    for (const MemoryView& view : memory_views(computation_, id)) {
      if (view.memory == id) continue;  // it is as large as the result
      const auto at = places(roles, it_.shape.dims, view.strides);
      const hlo::Shape& shape = computation_[view.memory].shape;
      if (at && at->batch == 0 && at->row == 0 && at->column == 1 && shape.element_count() == product_.n)
        return view.memory;
    }
    return std::nullopt;
  }

  const Computation& computation_;
  const Users& users_;
  const InstructionId dot_;
  const Instruction& it_;
  const hlo::DotAttributes& attributes_;
  const hlo::Shape& lhs_;
  const hlo::Shape& rhs_;
  MatrixProduct product_;
  CallPlan plan_;
  bool copied_ = false;
  bool bytes_ = false;  ///< elements of one byte
};

}  // namespace

bool is_for_library(const Computation& computation, InstructionId dot) {
  const Instruction& it = computation[dot];
  const hlo::Shape& lhs = computation.operand_shape(it, 0);
  const hlo::Shape& rhs = computation.operand_shape(it, 1);
  return it.shape.has_default_layout() && library_type(lhs.type) && library_type(rhs.type) &&
         it.shape.element_count() > 0 && lhs.element_count() > 0;
}

Result<CallPlan> plan_product(const Computation& computation, const Users& users, InstructionId dot) {
  STRATA_TRY(CallPlan plan, ProductPlanner(computation, users, dot).plan());
  return plan;
}

}  // namespace strata::emitters
