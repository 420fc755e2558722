#include "ir/padding.h"

#include <algorithm>

namespace strata {
namespace {

using Sizes = std::vector<SizeExpr>;

/// What lies behind the real elements of a tensor.
enum class Tail {
  None,   ///< it does not grow
  Zeros,  ///< zeros
  Other,  ///< what is computed of the padding
};

/// Follows the padding through the program, for one way to fill inputs.
class Follower {
 public:
  Follower(const SizedProgram& program, const std::string& dim, Fill fill)
      : program_(program), graph_(*program.graph), dim_(dim), fill_(fill) {}

  Result<void> run() {
    tails_.resize(graph_.tensors().size());
    for (const TensorId id : graph_.inputs()) {
      const auto& iota = graph_.type(id).iota;
      for (const SizeExpr& size : sizes(id)) {
        if (!size.depends_on(dim_)) {
          tails(id).push_back(Tail::None);
          continue;
        }
        if (iota && iota->step != 0 && &size == &sizes(id)[static_cast<size_t>(iota->dim)]) {
          // Neither the last again nor 0: nothing says that what is made of these elements is defined.
          return refuse(fmt::format("'{}' cannot be padded: the iota '{}' goes on counting behind the size", dim_,
                                    graph_.tensor(id).name));
        }
        // Along others an iota repeats, whatever arguments are filled with.
        tails(id).push_back(fill_ == Fill::Zeros && !iota ? Tail::Zeros : Tail::Other);
      }
    }
    for (size_t i = 0; i < graph_.operations().size(); ++i) {
      const Operation& op = graph_.operations()[i];
      auto found = followed(op, program_.attributes[i]);
      if (!found) {
        const std::string& name = graph_.tensor(op.results[0]).name;
        return tl::unexpected(found.error()
                                  .within(fmt::format("'{}' cannot be padded at {} = {}", dim_, name, op.name()))
                                  .at(op.location));
      }
      tails(op.results[0]) = std::move(*found);
    }
    return {};
  }

 private:
  const Sizes& sizes(TensorId id) const { return program_.shapes[static_cast<size_t>(id)]; }
  std::vector<Tail>& tails(TensorId id) { return tails_[static_cast<size_t>(id)]; }
  const std::vector<Tail>& tails(TensorId id) const { return tails_[static_cast<size_t>(id)]; }
  bool grows(TensorId id) const {
    const auto& of = tails(id);
    return std::any_of(of.begin(), of.end(), [](Tail tail) { return tail != Tail::None; });
  }

  static tl::unexpected<Error> refuse(std::string why) {
    return with_remedy(unsupported("{}", why), "give a size for which a kernel is made");
  }

  Result<std::vector<Tail>> followed(const Operation& op, const SizedProgram::AttributeSizes& attributes) {
    const bool any = std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) { return grows(id); });
    for (const auto& [name, of] : attributes) {
      if (op.kind == OpKind::Reshape) break;  // its sizes are those of its operand
      if (std::any_of(of.begin(), of.end(), [&](const SizeExpr& size) { return size.depends_on(dim_); }))
        return refuse(fmt::format("its {} depends on the size", name));
    }
    if (!any) return std::vector<Tail>(sizes(op.results[0]).size(), Tail::None);
    if (op_def(op.kind).traits.elementwise) return elementwise(op);
    const TensorId operand = op.operands[0];
    std::vector<Tail> result = tails(operand);
    switch (op.kind) {
      case OpKind::Matmul:
        return matmul(op);
      case OpKind::Sum: {
        Tail& along = result[static_cast<size_t>(op.attributes.integer("dim"))];
        if (along == Tail::Other) return refuse("it adds up what is computed of the padding, which is not 0");
        // Groups of `every` are whole ones before the padding and in it.
        if (!op.attributes.has("every")) along = Tail::None;
        return result;
      }
      case OpKind::ReduceMax:
        if (result[static_cast<size_t>(op.attributes.integer("dim"))] != Tail::None)
          return refuse("the padding could be the largest along the padded dimension");
        return result;
      case OpKind::Transpose:
        for (size_t d = 0; d < result.size(); ++d)
          result[d] = tails(operand)[static_cast<size_t>(op.attributes.list("perm")[d])];
        return result;
      case OpKind::Reshape:
        return reshape(op);
      case OpKind::Repeat:
        if (result[static_cast<size_t>(op.attributes.integer("dim"))] != Tail::None)
          return refuse("repeats of the padded dimension would lie behind the padding");
        return result;
      case OpKind::Slice:
        // Of constant place and size: it lies before the padding.
        result[static_cast<size_t>(op.attributes.integer("dim"))] = Tail::None;
        return result;
      case OpKind::Concat:
        return concat(op);
      default:
        return refuse("nothing is known of its padding");
    }
  }

  /// What an elementwise operator makes of zeros.
  static bool keeps_zero(const Operation& op) {
    const std::vector<Tensor<double>> zeros(op.operands.size(), Tensor<double>({1}, {0.0}));
    std::vector<const Tensor<double>*> operands;
    for (const Tensor<double>& zero : zeros) operands.push_back(&zero);
    Tensor<double> result({1}, {1.0});
    Float64Arithmetic arithmetic{};
    const OpScope scope;
    op_def(op.kind).run(EvalArgs<Float64Arithmetic>{arithmetic, scope, {}, op.attributes, operands, result});
    return result[0] == 0;
  }

  Result<std::vector<Tail>> elementwise(const Operation& op) const {
    const size_t rank = sizes(op.results[0]).size();
    std::vector<Tail> result(rank, Tail::None);
    const OpTraits& traits = op_def(op.kind).traits;
    for (size_t d = 0; d < rank; ++d) {
      std::vector<Tail> of;  // by operand
      for (const TensorId id : op.operands) {
        const size_t missing = rank - sizes(id).size();
        of.push_back(d < missing ? Tail::None : tails(id)[d - missing]);
      }
      if (std::all_of(of.begin(), of.end(), [](Tail tail) { return tail == Tail::None; })) continue;
      result[d] = Tail::Other;
      if (fill_ == Fill::Last) continue;
      const auto zeros = [](Tail tail) { return tail == Tail::Zeros; };
      const auto other = [](Tail tail) { return tail == Tail::Other; };
      const bool all_zeros = std::all_of(of.begin(), of.end(), zeros);
      if (op.kind == OpKind::Div && of[1] != Tail::None) return refuse("it divides by the padding");
      if (op.kind == OpKind::Greater || op.kind == OpKind::Select) return refuse("it compares zeros of the padding");
      bool vanishes = all_zeros && keeps_zero(op);
      // A product of zeros with real elements, or zeros divided by these.
      const bool with_real = std::none_of(of.begin(), of.end(), other);
      for (size_t i = 0; with_real && i < of.size(); ++i)
        vanishes |= zeros(of[i]) && (traits.algebra.linear >> i & 1) != 0;
      if (traits.lax.root && !vanishes) return refuse("it takes or divides by roots of the padding");
      if (vanishes) result[d] = Tail::Zeros;
    }
    return result;
  }

  Result<std::vector<Tail>> matmul(const Operation& op) const {
    const auto& a = tails(op.operands[0]);
    const auto& b = tails(op.operands[1]);
    const Tail left = a.back(), right = b[b.size() - 2];
    if (left == Tail::Other || right == Tail::Other)
      return refuse("it adds up products with what is computed of the padding, which is not 0");
    const size_t rank = sizes(op.results[0]).size();
    std::vector<Tail> result(rank, Tail::None);
    const auto at = [&](const std::vector<Tail>& of, size_t d) {
      return d < rank - of.size() ? Tail::None : of[d - (rank - of.size())];
    };
    for (size_t d = 0; d + 2 < rank; ++d) {
      const Tail one = at(a, d), two = at(b, d);
      const bool vanishes = one != Tail::Other && two != Tail::Other;
      if (one != Tail::None || two != Tail::None) result[d] = vanishes ? Tail::Zeros : Tail::Other;
    }
    result[rank - 2] = a[a.size() - 2];
    result[rank - 1] = b.back();
    return result;
  }

  /// Padded dimensions keep what is before them: groups of dimensions with equal products hold them alone.
  Result<std::vector<Tail>> reshape(const Operation& op) const {
    const Sizes& from = sizes(op.operands[0]);
    const Sizes& to = sizes(op.results[0]);
    std::vector<Tail> result(to.size(), Tail::None);
    size_t f = 0, t = 0;
    while (f < from.size() || t < to.size()) {
      const size_t first_from = f, first_to = t;
      SizeExpr before = 1, after = 1;
      // The shortest groups that hold as many elements for all sizes.
      do {
        const bool take_from = f < from.size() && (t == to.size() || f - first_from <= t - first_to);
        SizeExpr& product = take_from ? before : after;
        STRATA_TRY(product, product.times(take_from ? from[f++] : to[t++]));
      } while (!(before == after) && (f < from.size() || t < to.size()));
      for (size_t i = first_from; i < f; ++i) {
        if (tails(op.operands[0])[i] == Tail::None) continue;
        const auto ones = [](const Sizes& all, size_t first, size_t end) {
          size_t count = 0;
          for (size_t d = first; d < end; ++d) count += all[d].is(1) ? 0 : 1;
          return count;
        };
        const auto same =
            std::find(to.begin() + static_cast<int64_t>(first_to), to.begin() + static_cast<int64_t>(t), from[i]);
        if (ones(from, first_from, f) != 1 || ones(to, first_to, t) != 1 ||
            same == to.begin() + static_cast<int64_t>(t))
          return refuse("it regroups the padded dimension with others");
        result[static_cast<size_t>(same - to.begin())] = tails(op.operands[0])[i];
      }
    }
    return result;
  }

  Result<std::vector<Tail>> concat(const Operation& op) const {
    const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
    std::vector<Tail> result = tails(op.operands[0]);
    for (const TensorId id : op.operands) {
      for (size_t d = 0; d < result.size(); ++d) {
        const Tail one = tails(id)[d];
        if (d == dim && one != Tail::None) return refuse("what follows would lie behind the padding");
        if (one == Tail::Other) result[d] = one;
      }
    }
    return result;
  }

  const SizedProgram& program_;
  const Graph& graph_;
  const std::string& dim_;
  const Fill fill_;
  std::vector<std::vector<Tail>> tails_;  ///< by tensor and dimension
};

}  // namespace

std::string_view name_of(Fill fill) { return fill == Fill::Last ? "last" : "zeros"; }

Result<Fill> padding_of(const SizedProgram& program, const std::string& dim) {
  if (program.find_dim(dim) == nullptr) return invalid("'{}' has no dim '{}'", program.graph->name(), dim);
  const auto last = Follower(program, dim, Fill::Last).run();
  if (last) return Fill::Last;
  const auto zeros = Follower(program, dim, Fill::Zeros).run();
  if (zeros) return Fill::Zeros;
  return tl::unexpected(zeros.error());
}

}  // namespace strata
