#include "emitters/lax/to_ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "emitters/lax/axes.h"
#include "emitters/lax/known.h"
#include "emitters/lax/masks.h"
#include "emitters/lax/operators.h"
#include "hlo/compute.h"
#include "ops/arithmetic.h"

namespace strata::emitters {
namespace {

using hlo::ElementType;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Kind = LaxValue::Kind;

std::optional<DType> type_of(ElementType type) {
  switch (type) {
    case ElementType::F16:
      return DType::F16;
    case ElementType::BF16:
      return DType::BF16;
    case ElementType::F32:
      return DType::F32;
    case ElementType::F64:
      return DType::F64;
    default:
      return std::nullopt;
  }
}

bool is_narrow(DType type) { return type == DType::F16 || type == DType::BF16; }

class Converter {
 public:
  Converter(const hlo::Module& module, const hlo::Computation& from, LaxResults results)
      : module_(module), from_(from), results_(results), known_(known_instructions(from)) {}

  Result<LaxProgram> run() {
    STRATA_CHECK(take_type());
    axes_.emplace(from_);
    tensors_.emplace(type_);
    operators_.emplace(*tensors_);
    masks_.emplace(from_, *axes_, *tensors_, *operators_);
    exact_.assign(from_.instructions.size(), true);
    hidden_.assign(from_.instructions.size(), false);
    standing_in_.assign(from_.instructions.size(), 0);
    for (size_t i = 0; i < from_.instructions.size(); ++i) {
      const Instruction& it = from_.instructions[i];
      if (it.opcode == Opcode::Tuple) {
        values_.emplace_back();
        continue;
      }
      Result<LaxValue> value = value_of(static_cast<InstructionId>(i), it);
      if (!value) {
        Error error = value.error();
        error.message = it.name + ": " + error.message;
        return tl::unexpected(std::move(error));
      }
      values_.push_back(*std::move(value));
    }
    const Instruction& root = from_.root_instruction();
    if (root.opcode == Opcode::Tuple) {
      for (const InstructionId id : root.operands) STRATA_CHECK(add_output(id));
    } else {
      STRATA_CHECK(add_output(from_.root));
    }
    program_.inputs = tensors_->inputs();
    STRATA_TRY(const GraphPtr all, tensors_->builder().finish());
    STRATA_TRY(program_.graph, without_unused(*all, program_.inputs));
    return std::move(program_);
  }

 private:
  /// The type of the program: a 16-bit one where there is one. Constants and what is made of them may have any.
  Result<void> take_type() {
    std::optional<ElementType> narrow, other;
    for (const Instruction& it : from_.instructions) {
      if (it.opcode == Opcode::Tuple || counts(it)) continue;
      const auto type = type_of(it.shape.type);
      if (!type) return unsupported("{} is {}", it.name, hlo::to_string(it.shape));
      if (it.shape.element_count() == 0) return unsupported("{} has no elements", it.name);
      if (known_[static_cast<size_t>(&it - from_.instructions.data())] == Known::Splat) continue;
      std::optional<ElementType>& of = is_narrow(*type) ? narrow : other;
      if (of && *of != it.shape.type)
        return unsupported("{} is {}, other values are {}", it.name, hlo::name(it.shape.type), hlo::name(*of));
      of = it.shape.type;
    }
    if (narrow && other && *other != ElementType::F32)
      return unsupported("there are values of {} and of {}", hlo::name(*narrow), hlo::name(*other));
    hlo_type_ = narrow ? *narrow : other.value_or(ElementType::F32);
    type_ = *type_of(hlo_type_);
    return {};
  }

  /// Integers and truth values, of which parts have only what is known.
  bool counts(const Instruction& it) const {
    const auto type = it.shape.type;
    return known_[static_cast<size_t>(&it - from_.instructions.data())] != Known::No &&
           (type == ElementType::S32 || type == ElementType::S64 || type == ElementType::Pred);
  }

  const LaxValue& operand(const Instruction& it, size_t i) const {
    return values_[static_cast<size_t>(it.operands[i])];
  }

  Result<LaxValue> value_of(InstructionId id, const Instruction& it) {
    const Known known = known_[static_cast<size_t>(id)];
    if (counts(it)) {
      STRATA_CHECK(masks_->take(id, known));
      return LaxValue{};
    }
    if (known == Known::Splat) return splat(it);
    STRATA_CHECK(hide(id, it));
    STRATA_TRY(LaxValue value, computed(id, it));
    const bool exact = is_exact(it);
    exact_[static_cast<size_t>(id)] = exact;
    program_.wide_values |= !exact;
    return value;
  }

  /// Scores that are masked by −∞, or by a number far below any other, are masked by a smaller number: all that comes
  /// of them must be exponentials, which are 0, and maxima.
  Result<void> hide(InstructionId id, const Instruction& it) {
    const auto is_hidden = [&](size_t i) { return hidden_[static_cast<size_t>(it.operands[i])]; };
    bool any = false;
    for (size_t i = 0; i < it.operands.size(); ++i) any = any || is_hidden(i);
    if (!any) return {};
    const auto constant = [&](size_t i) { return operand(it, i).is_constant(); };
    bool stays = true;
    double& least = standing_in_[static_cast<size_t>(id)];
    for (size_t i = 0; i < it.operands.size(); ++i)
      if (is_hidden(i)) least = std::min(least, standing_in_[static_cast<size_t>(it.operands[i])]);
    switch (it.opcode) {
      case Opcode::Exp:
        if (least > kVanishes) return unsupported("masked scores are made so small that their exponentials are not 0");
        stays = false;
        break;
      case Opcode::Broadcast:
      case Opcode::Convert:
      case Opcode::Copy:
      case Opcode::Reshape:
      case Opcode::Transpose:
        break;
      case Opcode::Add:
        if (!constant(0) && !constant(1)) return unsupported("it adds to scores that are masked");
        least += operand(it, constant(0) ? 0 : 1).constant;
        break;
      case Opcode::Maximum:
        if (!constant(0) && !constant(1)) return unsupported("a maximum of scores that are masked and others");
        least = std::max(least, operand(it, constant(0) ? 0 : 1).constant);
        break;
      case Opcode::Multiply: {
        const size_t factor = constant(0) ? 0 : 1;
        if (!constant(factor) || operand(it, factor).constant <= 0)
          return unsupported("it multiplies scores that are masked");
        least *= operand(it, factor).constant;
        break;
      }
      case Opcode::Reduce:
        if (!is_hidden(0) || module_[it.called[0]].root_instruction().opcode != Opcode::Maximum)
          return unsupported("it reduces scores that are masked");
        break;
      case Opcode::Select:
      case Opcode::Subtract:
        break;
      default:
        return unsupported("{} of scores that are masked", hlo::name(it.opcode));
    }
    hidden_[static_cast<size_t>(id)] = stays;
    return {};
  }

  /// Below this, exponentials of differences to anything that scores may be are 0.
  static constexpr double kMasked = -0x1p30;
  /// So is the exponential of this, and of its sum with what rounding leaves.
  static constexpr double kVanishes = -1000;
  /// What stands for it. Kernels of 16-bit programs take x·log₂e and y·log₂e apart for e^(x − y), whose rounding of
  /// this leaves less than e^88; f16 has no smaller number. Of those of f32 the difference is exact.
  double masking() const { return type_ == DType::F16 ? -65504.0 : type_ == DType::BF16 ? -0x1p29 : -0x1p100; }

  Result<LaxValue> select(InstructionId id, const Instruction& it) {
    if (!counts(from_[it.operands[0]])) return unsupported("it selects by what parameters decide");
    const LaxValue& mask = masks_->mask(it.operands[0]);
    if (mask.is_constant()) return operand(it, mask.constant == 0 ? 2 : 1);
    LaxValue a = operand(it, 1), b = operand(it, 2);
    for (LaxValue* value : {&a, &b}) {
      if (!value->is_constant()) continue;
      if (value->constant <= kMasked || (type_ == DType::F16 && value->constant <= masking())) {
        value->constant = masking();
        // Of what was masked before, the larger number counts.
        double& least = standing_in_[static_cast<size_t>(id)];
        least = hidden_[static_cast<size_t>(id)] ? std::max(least, masking()) : masking();
        hidden_[static_cast<size_t>(id)] = true;
      } else if (std::abs(value->constant) > -kMasked) {
        return unsupported("the constant {} is selected", value->constant);
      }
    }
    return operators_->select(mask, a, b, axes_->sizes(id).size());
  }

  Result<LaxValue> splat(const Instruction& it) const {
    LaxValue value;
    if (it.opcode == Opcode::Constant) {
      value.constant = hlo::load_all<double>(it.as<hlo::ConstantAttributes>().value)[0];
    } else {
      value.constant = round_to(operand(it, 0).constant, *type_of(it.shape.type));
    }
    value.kind = Kind::Constant;
    return value;
  }

  /// Whether all elements are numbers of the program's type, in HLO.
  bool is_exact(const Instruction& it) const {
    if (it.shape.type == hlo_type_) return true;
    switch (it.opcode) {
      case Opcode::Convert:
      case Opcode::Copy:
      case Opcode::Reshape:
      case Opcode::Bitcast:
      case Opcode::Transpose:
      case Opcode::Broadcast:
        return exact_[static_cast<size_t>(it.operands[0])];
      default:
        return false;
    }
  }

  Result<LaxValue> computed(InstructionId id, const Instruction& it) {
    switch (it.opcode) {
      case Opcode::Parameter:
        return parameter(id, it);
      case Opcode::Convert:
      case Opcode::Copy:
        return operand(it, 0);
      case Opcode::Broadcast:
        return operand(it, 0).renamed(axes_->sources(id, it));
      case Opcode::Transpose:
        return operand(it, 0).renamed(axes_->sources(id, it));
      case Opcode::Bitcast:
        if (it.shape.type != from_.operand_shape(it, 0).type) return unsupported("it reads bits as another type");
        if (!it.shape.has_default_layout() || !from_.operand_shape(it, 0).has_default_layout())
          return unsupported("it changes the layout");
        [[fallthrough]];
      case Opcode::Reshape:
        return reshape(id, it);
      case Opcode::Dot:
        return dot(id, it);
      case Opcode::Reduce:
        return reduce(id, it);
      case Opcode::Add:
        return operators_->add(operand(it, 0), operand(it, 1));
      case Opcode::Subtract:
        return operators_->subtract(operand(it, 0), operand(it, 1));
      case Opcode::Multiply:
        return operators_->multiply(operand(it, 0), operand(it, 1));
      case Opcode::Divide:
        return operators_->divide(operand(it, 0), operand(it, 1));
      case Opcode::Maximum:
        return operators_->maximum(operand(it, 0), operand(it, 1));
      case Opcode::Power:
        return operators_->power(operand(it, 0), operand(it, 1));
      case Opcode::Negate:
        return operators_->negate(operand(it, 0));
      case Opcode::Exp:
        return operators_->unary(OpKind::Exp, operand(it, 0));
      case Opcode::Sqrt:
        return operators_->unary(OpKind::Sqrt, operand(it, 0));
      case Opcode::Rsqrt:
        return operators_->unary(OpKind::Rsqrt, operand(it, 0));
      case Opcode::Logistic:
        return operators_->logistic(operand(it, 0));
      case Opcode::Select:
        return select(id, it);
      default:
        return unsupported("the superoptimizer has no {}", hlo::name(it.opcode));
    }
  }

  Result<LaxValue> parameter(InstructionId id, const Instruction& it) const {
    if (!it.shape.has_default_layout()) return unsupported("it does not lie row-major");
    if (it.shape.type != hlo_type_)
      return unsupported("it is {}, the part {}", hlo::name(it.shape.type), name_of(type_));
    LaxValue value;
    value.kind = Kind::Parameter;
    value.parameter = static_cast<int>(it.as<hlo::ParameterAttributes>().number);
    value.memory = axes_->sizes(id);
    for (size_t d = 0; d < value.memory.size(); ++d) value.places.push_back(static_cast<int>(d));
    return value;
  }

  static Arrangement in_order(size_t count) {
    Arrangement all;
    for (size_t d = 0; d < count; ++d) all.push_back(static_cast<int>(d));
    return all;
  }

  Result<LaxValue> reshape(InstructionId id, const Instruction& it) {
    const LaxValue& of = operand(it, 0);
    const std::vector<int64_t>& from = axes_->sizes(it.operands[0]);
    const std::vector<int64_t>& to = axes_->sizes(id);
    if (from == to) return of;
    if (of.placed() < static_cast<int>(of.places.size())) return unsupported("it regroups repeated elements");
    LaxValue value = of;
    if (!of.has_memory() || of.places != in_order(from.size())) {
      if (of.is_constant()) return unsupported("it regroups a constant");
      value.kind = Kind::Regrouped;
      STRATA_TRY(value.tensor, tensors_->arranged(of, in_order(from.size()), from));
    }
    value.memory = to;
    value.places = in_order(to.size());
    return value;
  }

  /// Sum or reduce_max, if the computation is one of its two parameters and `start` changes nothing.
  Result<OpKind> reduction(const Instruction& it, double start) const {
    const hlo::Computation& combiner = module_[it.called[0]];
    const Instruction& root = combiner.root_instruction();
    const bool of_both = root.operands.size() == 2 && root.operands[0] != root.operands[1] &&
                         combiner[root.operands[0]].opcode == Opcode::Parameter &&
                         combiner[root.operands[1]].opcode == Opcode::Parameter;
    if (of_both && root.opcode == Opcode::Add && start == 0) return OpKind::Sum;
    if (of_both && root.opcode == Opcode::Maximum && start == -std::numeric_limits<double>::infinity())
      return OpKind::ReduceMax;
    return unsupported("a reduction that is neither a sum nor a maximum");
  }

  Result<LaxValue> reduce(InstructionId id, const Instruction& it) {
    if (it.operands.size() != 2 || !operand(it, 1).is_constant()) return unsupported("a reduction of several arrays");
    STRATA_TRY(const OpKind kind, reduction(it, operand(it, 1).constant));
    LaxValue value = operand(it, 0);
    if (value.is_constant() || value.over) return unsupported("it reduces a constant or a reciprocal");
    const std::vector<int> reduced = axes_->joined(it.operands[0], it.dimensions());
    for (const int d : reduced) {
      const int place = value.places[static_cast<size_t>(d)];
      if (place < 0) return unsupported("it reduces repeated elements");
      STRATA_TRY(value, operators_->as_tensor(value));
      Attributes attributes;
      attributes.set("dim", static_cast<int64_t>(value.places[static_cast<size_t>(d)]));
      STRATA_TRY(value.tensor, tensors_->builder().add(kind, {value.tensor}, attributes));
    }
    std::vector<int> kept;
    for (size_t d = 0; d < value.places.size(); ++d) {
      if (std::find(reduced.begin(), reduced.end(), static_cast<int>(d)) == reduced.end())
        kept.push_back(static_cast<int>(d));
    }
    if (kept.size() != axes_->sizes(id).size()) return unsupported("it reduces a part of a dimension");
    return value.renamed(kept);
  }

  /// One side of a product.
  struct Side {
    const LaxValue* value;
    std::vector<int> batch, terms, rows;  ///< dimensions of the value
    std::vector<int> batch_of_result, rows_of_result;
    std::vector<int64_t> sizes;
  };

  Side side(InstructionId id, const Instruction& it, size_t which) const {
    const auto& a = it.as<hlo::DotAttributes>();
    const auto& batch = which == 0 ? a.lhs_batch : a.rhs_batch;
    const auto& terms = which == 0 ? a.lhs_contracting : a.rhs_contracting;
    const InstructionId of = it.operands[which];
    Side made{&operand(it, which), axes_->joined(of, batch), axes_->joined(of, terms), {}, {}, {}, axes_->sizes(of)};
    std::vector<int64_t> rows, in_result, batch_in_result;
    for (int64_t d = 0; d < from_[of].shape.rank(); ++d) {
      const auto is = [&](const std::vector<int64_t>& list) {
        return std::find(list.begin(), list.end(), d) != list.end();
      };
      if (!is(batch) && !is(terms)) rows.push_back(d);
    }
    const auto count = static_cast<int64_t>(batch.size());
    const auto before = which == 0 ? count : it.shape.rank() - static_cast<int64_t>(rows.size());
    for (int64_t d = 0; d < std::ssize(rows); ++d) in_result.push_back(before + d);
    for (int64_t d = 0; d < count; ++d) batch_in_result.push_back(d);
    made.rows = axes_->joined(of, rows);
    made.rows_of_result = axes_->joined(id, in_result);
    made.batch_of_result = axes_->joined(id, batch_in_result);
    return made;
  }

  static int last_or_none(const std::vector<int>& of) { return of.empty() ? -1 : of.back(); }

  /// As the operand of matmul: batch, the other rows of the first and the second operand, and the matrix.
  static Arrangement matrix_of(const Side& side, bool first, size_t rows_of_other) {
    Arrangement result = side.batch;
    const size_t own = side.rows.empty() ? 0 : side.rows.size() - 1;
    const size_t of_other = rows_of_other == 0 ? 0 : rows_of_other - 1;
    if (!first) result.insert(result.end(), of_other, -1);
    result.insert(result.end(), side.rows.begin(), side.rows.begin() + static_cast<std::ptrdiff_t>(own));
    if (first) result.insert(result.end(), of_other, -1);
    result.push_back(first ? last_or_none(side.rows) : side.terms[0]);
    result.push_back(first ? side.terms[0] : last_or_none(side.rows));
    return result;
  }

  Result<LaxValue> dot(InstructionId id, const Instruction& it) {
    Side left = side(id, it, 0), right = side(id, it, 1);
    for (size_t i = 0; i < 2; ++i) {
      const LaxValue& of = operand(it, i);
      if (of.is_constant() || of.over) return unsupported("a product of a constant or a reciprocal");
      if (!exact_[static_cast<size_t>(it.operands[i])])
        return unsupported("a product of values that have more bits than {}", name_of(type_));
    }
    if (left.terms.size() != 1 || right.terms.size() != 1)
      return unsupported("a product over {} dimensions that do not lie together", left.terms.size());
    if (left.value->places[static_cast<size_t>(left.terms[0])] < 0 ||
        right.value->places[static_cast<size_t>(right.terms[0])] < 0)
      return unsupported("a product over repeated elements");
    const auto moves = [&](const Side& first, const Side& second) {
      return (tensors_->lies_as(*first.value, matrix_of(first, true, second.rows.size())) ? 0 : 1) +
             (tensors_->lies_as(*second.value, matrix_of(second, false, first.rows.size())) ? 0 : 1);
    };
    // The other way round, the result is transposed, which is a matter of names.
    if (moves(right, left) < moves(left, right)) std::swap(left, right);
    STRATA_TRY(const TensorId x,
               tensors_->arranged(*left.value, matrix_of(left, true, right.rows.size()), left.sizes, 2));
    STRATA_TRY(const TensorId y,
               tensors_->arranged(*right.value, matrix_of(right, false, left.rows.size()), right.sizes, 2));
    STRATA_TRY(const TensorId made, tensors_->builder().add(OpKind::Matmul, {x, y}));
    Arrangement result = left.batch_of_result;
    const auto but_last = [](const std::vector<int>& of) {
      return std::vector<int>(of.begin(), of.empty() ? of.end() : of.end() - 1);
    };
    for (const Side* one : {&left, &right}) {
      const std::vector<int> others = but_last(one->rows_of_result);
      result.insert(result.end(), others.begin(), others.end());
    }
    result.push_back(last_or_none(left.rows_of_result));
    result.push_back(last_or_none(right.rows_of_result));
    return tensors_->made(made, result, axes_->sizes(id).size());
  }

  Result<void> add_output(InstructionId id) {
    const Instruction& it = from_[id];
    const LaxValue& value = values_[static_cast<size_t>(id)];
    const Graph& graph = tensors_->builder().peek();
    const bool computed = value.kind == Kind::Tensor ||
                          (value.kind == Kind::Regrouped && std::is_sorted(value.places.begin(), value.places.end()));
    const bool twice =
        computed && std::find(graph.outputs().begin(), graph.outputs().end(), value.tensor) != graph.outputs().end();
    if (results_ == LaxResults::Unfinished) {
      if (computed && !twice) return tensors_->builder().output(value.tensor);
      return {};
    }
    if (hidden_[static_cast<size_t>(id)]) return unsupported("{}: a result of scores that are masked", it.name);
    if (!computed || value.over) return unsupported("{}: a result that is not computed", it.name);
    if (twice) return unsupported("{}: a result that is there already", it.name);
    if (it.shape.type != hlo_type_) return unsupported("{}: a result of {}", it.name, hlo::name(it.shape.type));
    if (!it.shape.has_default_layout()) return unsupported("{}: a result that does not lie row-major", it.name);
    if (value.placed() < static_cast<int>(value.places.size()))
      return unsupported("{}: a result that repeats elements", it.name);
    STRATA_CHECK(tensors_->builder().output(value.tensor));
    std::vector<int64_t> permutation;
    for (int64_t d = 0; d < it.shape.rank(); ++d)
      if (it.shape.dim(d) == 1) permutation.push_back(d);
    Arrangement order = tensors_->arrangement(value);
    std::erase(order, -1);
    if (std::is_sorted(order.begin(), order.end())) {
      permutation.clear();
      for (int64_t d = 0; d < it.shape.rank(); ++d) permutation.push_back(d);
    } else {
      for (const int joined : order) {
        for (int64_t d = 0; d < it.shape.rank(); ++d)
          if (axes_->joined(id, d) == joined) permutation.push_back(d);
      }
    }
    program_.permutations.push_back(std::move(permutation));
    return {};
  }

  const hlo::Module& module_;
  const hlo::Computation& from_;
  const LaxResults results_;
  ElementType hlo_type_ = ElementType::F32;
  DType type_ = DType::F32;
  std::vector<Known> known_;  ///< by instruction
  std::vector<bool> hidden_;  ///< by instruction: some elements are masked by a number that stands for a smaller one
  std::vector<double> standing_in_;  ///< what that number has become
  std::vector<bool> exact_;          ///< by instruction: numbers of the program's type
  std::optional<JoinedAxes> axes_;
  std::optional<LaxTensors> tensors_;
  std::optional<LaxOperators> operators_;
  std::optional<LaxMasks> masks_;
  std::vector<LaxValue> values_;
  LaxProgram program_;
};

}  // namespace

Result<LaxProgram> lax_program(const hlo::Module& module, const hlo::Computation& computation, LaxResults results) {
  return Converter(module, computation, results).run();
}

}  // namespace strata::emitters
