#include "emitters/library/narrow_products.h"

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "emitters/fusion/pass.h"
#include "emitters/kinds/memory_views.h"
#include "emitters/kinds/product/product.h"
#include "emitters/library/call_plan.h"
#include "hlo/entry_rewriter.h"
#include "hlo/inline_calls.h"
#include "hlo/small_float.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::ElementType;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

/// Of s8 by s8 so many terms are below 2^31.
constexpr int64_t kMostIntegerTerms = int64_t{1} << 17;
/// Up to here f32 has every integer.
constexpr double kExactInF32 = 1 << 24;

bool is_f8_of_libraries(ElementType type) { return type == ElementType::F8E4M3FN || type == ElementType::F8E5M2; }

/// The largest magnitude of an integer type.
double largest_integer(ElementType type) {
  return std::ldexp(1, hlo::bit_width(type) - (hlo::is_signed(type) ? 1 : 0));
}

/// What numbers a float type has: significands of so many bits, from the smallest bit's exponent to the largest
/// number's.
struct Reach {
  int bits, least, most;
};

Reach reach_of(ElementType type) {
  if (!hlo::is_float(type)) return {hlo::bit_width(type) - (hlo::is_signed(type) ? 1 : 0), 0, hlo::bit_width(type) - 1};
  const hlo::FloatFormat format = hlo::format_of(type);
  const bool all_finite = format.special != hlo::FloatFormat::Special::Ieee;
  return {format.mantissa_bits + 1, 1 - format.bias - format.mantissa_bits,
          (1 << format.exponent_bits) - 1 - format.bias - (all_finite ? 0 : 1)};
}

/// Whether each number of one type is one of the other, and different ones are.
bool holds(ElementType to, ElementType from) {
  const auto is_number = [](ElementType type) {
    return (hlo::is_float(type) && type != ElementType::F8E8M0FNU) || hlo::is_integer(type);
  };
  if (to == from) return true;
  if (!is_number(to) || !is_number(from)) return false;
  if (hlo::is_integer(to)) {
    if (!hlo::is_integer(from) || (hlo::is_signed(from) && !hlo::is_signed(to))) return false;
    return largest_integer(from) <= largest_integer(to);
  }
  const Reach a = reach_of(from), b = reach_of(to);
  return a.bits <= b.bits && a.least >= b.least && a.most <= b.most;
}

/// What a dot becomes: the types of its operands and result, before the result is converted.
struct Types {
  ElementType lhs, rhs, result;
  bool tf32 = false;  ///< the operands stay as they are, and may be rounded to TF32
  bool pads = true;   ///< operands of one byte get the sizes that libraries take
  bool of_bytes() const { return hlo::byte_width(lhs) == 1; }
};

int64_t sizes(const Shape& shape, const Dimensions& dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), int64_t{1},
                         [&](int64_t all, int64_t d) { return all * shape.dim(d); });
}

Dimensions free_dimensions(const Shape& shape, const Dimensions& batch, const Dimensions& contracting) {
  Dimensions free;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const auto is = [&](const Dimensions& of) { return std::find(of.begin(), of.end(), d) != of.end(); };
    if (!is(batch) && !is(contracting)) free.push_back(d);
  }
  return free;
}

class Narrower : hlo::EntryRewriter {
 public:
  Narrower(const hlo::Module& module, const Target& target, LibraryUse use)
      : EntryRewriter(module), use_(use), target_(target) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      const std::optional<Types> types = it.opcode == Opcode::Dot ? choose(it) : std::nullopt;
      return types ? std::optional(narrowed(it, *types)) : std::nullopt;
    });
  }

 private:
  static bool is_view(Opcode opcode) {
    return opcode == Opcode::Transpose || opcode == Opcode::Reshape || opcode == Opcode::Broadcast ||
           opcode == Opcode::Copy;
  }

  bool converts_exactly(const Instruction& it) const {
    return it.opcode == Opcode::Convert && holds(it.shape.type, from_.operand_shape(it, 0).type) &&
           from_.operand_shape(it, 0).minor_to_major == it.shape.minor_to_major;
  }

  /// The narrowest type that a value has on its way here, through conversions that lose nothing.
  ElementType source_type(InstructionId id) const {
    const Instruction* it = &from_[id];
    while (converts_exactly(*it) || is_view(it->opcode)) it = &from_[it->operands[0]];
    return it->shape.type;
  }

  /// The value as this type, which has all numbers of its source type, or may round them.
  InstructionId as_type(InstructionId id, ElementType type) {
    const auto known = as_type_.find({id, type});
    if (known != as_type_.end()) return known->second;
    return as_type_[{id, type}] = made_as_type(id, type);
  }

  InstructionId made_as_type(InstructionId id, ElementType type) {
    const Instruction& it = from_[id];
    if (converts_exactly(it)) return as_type(it.operands[0], type);
    Shape shape = it.shape;
    shape.type = type;
    if (is_view(it.opcode) && it.shape.type != source_type(id)) {
      const InstructionId operand = as_type(it.operands[0], type);
      return add(it.name + ".narrow", it.opcode, shape, {operand}, it.attributes);
    }
    const InstructionId value = moved_[static_cast<size_t>(id)];
    return it.shape.type == type ? value : add(it.name + ".converted", Opcode::Convert, shape, {value});
  }

  std::optional<Types> choose(const Instruction& it) const {
    const auto& a = it.as<hlo::DotAttributes>();
    const Shape& lhs = from_.operand_shape(it, 0);
    const Shape& rhs = from_.operand_shape(it, 1);
    if (lhs.element_count() == 0 || rhs.element_count() == 0) return std::nullopt;
    const int64_t terms = sizes(lhs, a.lhs_contracting);
    const int64_t rows = sizes(lhs, free_dimensions(lhs, a.lhs_batch, a.lhs_contracting));
    const int64_t columns = sizes(rhs, free_dimensions(rhs, a.rhs_batch, a.rhs_contracting));
    if (terms == 1 || rows == 1 || columns == 1) return std::nullopt;
    const std::optional<Types> types = types_of(it, terms);
    if (!types) return std::nullopt;
    const bool pads = types->of_bytes() && is_padded(*types, rows, columns, terms);
    const bool as_it_is =
        !types->tf32 && types->lhs == lhs.type && types->rhs == rhs.type && types->result == it.shape.type;
    if (as_it_is && !pads) return std::nullopt;
    if (use_ == LibraryUse::WherePossible) return types;
    MatrixProduct product;
    product.type = types->of_bytes() || types->lhs == ElementType::F32 ? DType::F32
                   : types->lhs == ElementType::F16                    ? DType::F16
                                                                       : DType::BF16;
    product.tf32 = types->tf32;
    std::tie(product.batch, product.m, product.n, product.k) =
        std::tuple(sizes(lhs, a.lhs_batch), rows, columns, terms);
    product.a = {false, terms, rows * terms, {}};
    product.b = {true, terms, columns * terms, {}};
    if (types->of_bytes()) product.a.bytes = product.b.bytes = ByteType::S8;
    if (pads && types->lhs == ElementType::S8 && use_ == LibraryUse::WhereFaster && is_of_kernel(it, product)) {
      Types own = *types;
      own.pads = false;
      return as_it_is ? std::nullopt : std::optional(own);
    }
    const double loop = loop_microseconds(static_cast<double>(it.shape.element_count()), static_cast<double>(terms),
                                          2 * hlo::byte_width(lhs.type), target_);
    return 1e6 * library_seconds(product, target_) < loop ? types : std::nullopt;
  }

  /// Whether a kernel takes a product of s8 as it is, in less time than the library takes, which needs the operands
  /// padded, and terms that lie together.
  bool is_of_kernel(const Instruction& it, const MatrixProduct& product) const {
    Computation alone;
    alone.name = "product";
    Instruction dot = it;
    dot.shape.type = ElementType::S32;
    for (const int64_t i : {0, 1}) {
      Shape shape = from_.operand_shape(it, static_cast<size_t>(i));
      shape.type = ElementType::S8;
      // Dimensions of one element lie anywhere.
      const Dimensions order = order_in_memory(from_, it.operands[static_cast<size_t>(i)], Through::Elements);
      Dimensions minor_to_major(order.rbegin(), order.rend());
      for (int64_t d = 0; d < shape.rank(); ++d) {
        if (std::find(order.begin(), order.end(), d) == order.end()) minor_to_major.push_back(d);
      }
      shape.minor_to_major = minor_to_major;
      dot.operands[static_cast<size_t>(i)] = static_cast<InstructionId>(i);
      alone.parameters.push_back(static_cast<InstructionId>(i));
      alone.instructions.push_back(
          {i == 0 ? "lhs" : "rhs", Opcode::Parameter, shape, {}, {}, hlo::ParameterAttributes{i}, {}});
    }
    alone.instructions.push_back(std::move(dot));
    alone.root = 2;
    const std::optional<ProductShape> shape = product_shape(alone, alone.root);
    if (!shape) return false;
    double library = library_seconds(product, target_);
    if (!shape->terms_inside) {
      const auto moved = 2 * static_cast<double>(alone[shape->weights].shape.element_count());
      library += target_.kernel_seconds() + moved / target_.rates.copy_bandwidth;
    }
    return estimated_microseconds(hlo::extract_module(result_, std::move(alone)), target_) < 1e6 * library;
  }

  std::optional<Types> types_of(const Instruction& it, int64_t terms) const {
    const ElementType lhs = source_type(it.operands[0]), rhs = source_type(it.operands[1]);
    const ElementType result = it.shape.type;
    const int given =
        std::max(hlo::bit_width(from_.operand_shape(it, 0).type), hlo::bit_width(from_.operand_shape(it, 1).type));
    if (hlo::is_integer(lhs) && hlo::is_integer(rhs)) {
      if (!hlo::is_integer(result) && !hlo::is_float(result)) return std::nullopt;
      if (hlo::is_integer(result) && holds(ElementType::S8, lhs) && holds(ElementType::S8, rhs) &&
          terms < kMostIntegerTerms)
        return Types{ElementType::S8, ElementType::S8, ElementType::S32};
      const double largest = largest_integer(lhs) * largest_integer(rhs) * static_cast<double>(terms);
      if (hlo::is_integer(result) && holds(ElementType::BF16, lhs) && holds(ElementType::BF16, rhs) &&
          largest <= kExactInF32)
        return Types{ElementType::BF16, ElementType::BF16, ElementType::F32};
    }
    if (!hlo::is_float(result) || result == ElementType::F64) return std::nullopt;
    if (is_f8_of_libraries(lhs) && is_f8_of_libraries(rhs) && target_.wide_products && given <= 16 &&
        (lhs == ElementType::F8E4M3FN || rhs == ElementType::F8E4M3FN))
      return Types{lhs, rhs, library_type(result) ? result : ElementType::F32};
    for (const ElementType type : {ElementType::BF16, ElementType::F16}) {
      if (!holds(type, lhs) || !holds(type, rhs)) continue;
      // What is of 16 bits already is a product of the libraries as it is.
      if (given == 16 && library_type(from_.operand_shape(it, 0).type) && library_type(from_.operand_shape(it, 1).type))
        return std::nullopt;
      return Types{type, type, result == type ? type : ElementType::F32};
    }
    if (!hlo::is_float(lhs) || !hlo::is_float(rhs) || given > 32) return std::nullopt;
    const hlo::OperandPrecision precision = it.as<hlo::DotAttributes>().precision;
    if (precision == hlo::OperandPrecision::Bf16 || precision == hlo::OperandPrecision::F16) {
      const ElementType type = precision == hlo::OperandPrecision::Bf16 ? ElementType::BF16 : ElementType::F16;
      return Types{type, type, result == type ? type : ElementType::F32};
    }
    const bool bf16_by_f32 = holds(ElementType::BF16, lhs) != holds(ElementType::BF16, rhs) && given == 32;
    const bool tf32 = bf16_by_f32 && result == ElementType::F32 && precision == hlo::OperandPrecision::Default;
    // Libraries multiply operands of one type.
    const bool mixed = from_.operand_shape(it, 0).type != from_.operand_shape(it, 1).type;
    if (!tf32 && !mixed) return std::nullopt;
    return Types{ElementType::F32, ElementType::F32, ElementType::F32, tf32};
  }

  static bool is_padded(const Types& types, int64_t rows, int64_t columns, int64_t terms) {
    return terms % kByteAlignment != 0 || columns % kByteAlignment != 0 ||
           (hlo::is_integer(types.lhs) && rows < kFewestIntegerRows);
  }

  /// A role's last dimension, larger by so much that all its sizes together are a multiple of this.
  static std::pair<int64_t, int64_t> grown(const Shape& shape, const Dimensions& role, int64_t multiple) {
    const int64_t d = role.back();
    const int64_t step = multiple / std::gcd(multiple, sizes(shape, role) / shape.dim(d));
    return {d, (shape.dim(d) + step - 1) / step * step};
  }

  InstructionId padded(InstructionId id, const std::vector<std::pair<int64_t, int64_t>>& to) {
    Dimensions sizes = shape(id).dims;
    for (const auto& [d, size] : to) sizes[static_cast<size_t>(d)] = size;
    return resized(id, sizes);
  }

  InstructionId narrowed(const Instruction& it, const Types& types) {
    auto a = it.as<hlo::DotAttributes>();
    const bool as_they_are =
        from_.operand_shape(it, 0).type == types.lhs && from_.operand_shape(it, 1).type == types.rhs;
    if (types.tf32) a.precision = hlo::OperandPrecision::Tf32;
    if (types.tf32 && as_they_are) {
      return add(it.name, Opcode::Dot, it.shape,
                 {moved_[static_cast<size_t>(it.operands[0])], moved_[static_cast<size_t>(it.operands[1])]}, a);
    }
    InstructionId lhs = as_type(it.operands[0], types.lhs);
    InstructionId rhs = as_type(it.operands[1], types.rhs);
    Shape shape = it.shape;
    shape.type = types.result;
    if (types.of_bytes() && types.pads) {
      const Shape& x = from_.operand_shape(it, 0);
      const Shape& y = from_.operand_shape(it, 1);
      const Dimensions rows = free_dimensions(x, a.lhs_batch, a.lhs_contracting);
      const Dimensions columns = free_dimensions(y, a.rhs_batch, a.rhs_contracting);
      const bool few = hlo::is_integer(types.lhs) && sizes(x, rows) < kFewestIntegerRows;
      const auto row = few ? grown(x, rows, kFewestIntegerRows) : std::pair(rows.back(), x.dim(rows.back()));
      const auto column = grown(y, columns, kByteAlignment);
      // The same term of both is padded.
      const auto term = grown(x, a.lhs_contracting, kByteAlignment);
      lhs = padded(lhs, {row, term});
      rhs = padded(rhs, {column, {a.rhs_contracting.back(), term.second}});
      const auto place = static_cast<size_t>(std::ssize(a.lhs_batch));
      const auto at = [&](const Dimensions& role) { return static_cast<size_t>(std::ssize(role)) - 1; };
      shape.dims[place + at(rows)] = row.second;
      shape.dims[place + rows.size() + at(columns)] = column.second;
    }
    InstructionId made = add(it.name + ".narrow", Opcode::Dot, shape, {lhs, rhs}, a);
    if (shape.dims != it.shape.dims) {
      shape.dims = it.shape.dims;
      made = add(it.name + ".cut", Opcode::Slice, shape, {made},
                 hlo::SliceAttributes{Dimensions(shape.dims.size(), 0), shape.dims, Dimensions(shape.dims.size(), 1)});
    }
    if (types.result == ElementType::F32 && hlo::is_integer(it.shape.type)) {
      shape.type = ElementType::S32;  // floats saturate, integers wrap
      made = add(it.name + ".whole", Opcode::Convert, shape, {made});
    }
    return shape.type == it.shape.type ? made : add(it.name + ".wide", Opcode::Convert, it.shape, {made});
  }

  const LibraryUse use_;
  const Target& target_;
  std::map<std::pair<InstructionId, ElementType>, InstructionId> as_type_;
};

}  // namespace

hlo::Module with_narrow_products(const hlo::Module& module, const Target& target, LibraryUse use) {
  return Narrower(module, target, use).run();
}

}  // namespace strata::emitters
