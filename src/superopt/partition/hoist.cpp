#include "superopt/partition/hoist.h"

#include <algorithm>
#include <map>

#include "superopt/partition/canonical.h"

namespace strata {
namespace {

using Permutation = std::vector<int64_t>;

class Hoister {
 public:
  explicit Hoister(const Graph& program) : program_(program), builder_(Level::Kernel, program.name()) {
    uses_.resize(program.tensors().size(), 0);
    for (const Operation& op : program.operations()) {
      for (TensorId id : op.operands) ++uses_[static_cast<size_t>(id)];
    }
    for (TensorId id : program.outputs()) ++uses_[static_cast<size_t>(id)];
  }

  Result<GraphPtr> run() {
    for (size_t i = 0; i < program_.inputs().size(); ++i) {
      const TensorId id = program_.inputs()[i];
      STRATA_TRY(made_[id],
                 builder_.input(program_.tensor(id).name, program_.type(id), {}, program_.input_comments()[i]));
    }
    // From the outputs back: what only a moved transpose read is not made.
    Names names;  // what transposes cancel out of has another name than the output that it is
    for (TensorId id : program_.outputs()) {
      STRATA_TRY(const TensorId made, same(id));
      STRATA_CHECK(builder_.output(made));
      const TensorInfo& info = builder_.peek().tensor(made);
      if (info.producer < 0 && program_.tensor(id).producer >= 0) return unsupported("an output becomes an input");
      if (info.name != program_.tensor(id).name) names[info.name] = program_.tensor(id).name;
    }
    builder_.comment(program_.comments(), program_.output_comments(), program_.closing_comments());
    STRATA_TRY(GraphPtr hoisted, builder_.finish());
    return names.empty() ? hoisted : renamed(*hoisted, names);
  }

 private:
  Result<GraphPtr> renamed(const Graph& hoisted, const Names& names) const {
    GraphPtr result = rename(hoisted, names, program_.name());
    for (size_t n = 0; n < program_.outputs().size(); ++n) {
      const std::string& wanted = program_.tensor(program_.outputs()[n]).name;
      if (result->tensor(result->outputs()[n]).name != wanted) return unsupported("the name '{}' is taken", wanted);
    }
    return result;
  }

  const Operation* producer(TensorId id) const {
    const int i = program_.tensor(id).producer;
    return i < 0 ? nullptr : &program_.operations()[static_cast<size_t>(i)];
  }

  Result<TensorId> add(const Operation& op, const std::vector<TensorId>& operands, Attributes attributes,
                       const std::string& name) {
    return builder_.add(op.kind, operands, std::move(attributes), name, op.location, op.comments);
  }

  /// The tensor as the program has it.
  Result<TensorId> same(TensorId id) {
    if (const auto known = made_.find(id); known != made_.end()) return known->second;
    const Operation& op = *producer(id);
    if (op.body) return unsupported("a program of predefined operators is expected");
    TensorId made = -1;
    if (op.kind == OpKind::Transpose) {
      STRATA_TRY(made, transposed(op.operands[0], op.attributes.list("perm"), program_.tensor(id).name));
    } else {
      std::vector<TensorId> operands;
      for (TensorId operand : op.operands) {
        STRATA_TRY(const TensorId one, same(operand));
        operands.push_back(one);
      }
      STRATA_TRY(made, add(op, operands, op.attributes, program_.tensor(id).name));
    }
    made_[id] = made;
    return made;
  }

  /// A tensor with its dimensions permuted.
  Result<TensorId> transposed(TensorId id, const Permutation& perm, const std::string& name = {}) {
    if (const auto known = permuted_.find({id, perm}); known != permuted_.end()) return known->second;
    STRATA_TRY(const TensorId made, make_transposed(id, perm, name));
    permuted_[{id, perm}] = made;
    return made;
  }

  Result<TensorId> make_transposed(TensorId id, const Permutation& perm, const std::string& name) {
    const Operation* op = producer(id);
    const size_t rank = perm.size();
    const bool alone = uses_[static_cast<size_t>(id)] == 1;
    const bool same_ranks = op != nullptr && std::all_of(op->operands.begin(), op->operands.end(), [&](TensorId of) {
                              return program_.type(of).shape.size() == rank;
                            });
    if (alone && same_ranks && op_def(op->kind).traits.elementwise) {
      std::vector<TensorId> operands;
      for (TensorId operand : op->operands) {
        STRATA_TRY(const TensorId one, transposed(operand, perm));
        operands.push_back(one);
      }
      return add(*op, operands, op->attributes, program_.tensor(id).name);
    }
    if (alone && same_ranks && is_reduction(op->kind)) {
      STRATA_TRY(const TensorId operand, transposed(op->operands[0], perm));
      Attributes attributes = op->attributes;
      const auto at = std::find(perm.begin(), perm.end(), op->attributes.integer("dim"));
      attributes.set("dim", static_cast<int64_t>(at - perm.begin()));
      return add(*op, {operand}, attributes, program_.tensor(id).name);
    }
    bool swaps_last = rank >= 2 && perm[rank - 1] == static_cast<int64_t>(rank) - 2 &&
                      perm[rank - 2] == static_cast<int64_t>(rank) - 1;
    for (size_t d = 0; d + 2 < rank; ++d) swaps_last &= perm[d] == static_cast<int64_t>(d);
    if (alone && same_ranks && is_matrix_product(op->kind) && swaps_last) {
      STRATA_TRY(const TensorId left, transposed(op->operands[1], perm));
      STRATA_TRY(const TensorId right, transposed(op->operands[0], perm));
      return add(*op, {left, right}, op->attributes, program_.tensor(id).name);
    }
    if (alone && op != nullptr && op->kind == OpKind::Transpose) {
      const Permutation& first = op->attributes.list("perm");
      Permutation both;
      for (int64_t d : perm) both.push_back(first[static_cast<size_t>(d)]);
      if (std::is_sorted(both.begin(), both.end())) return same(op->operands[0]);
      return transposed(op->operands[0], both, name);
    }
    STRATA_TRY(const TensorId operand, same(id));
    Attributes attributes;
    attributes.set("perm", perm);
    return builder_.add(OpKind::Transpose, {operand}, attributes,
                        name.empty() ? program_.tensor(id).name + "_transposed" : name);
  }

  const Graph& program_;
  GraphBuilder builder_;
  std::vector<int> uses_;
  std::map<TensorId, TensorId> made_;
  std::map<std::pair<TensorId, Permutation>, TensorId> permuted_;
};

}  // namespace

Result<GraphPtr> hoist_transposes(const GraphPtr& program) {
  const auto& operations = program->operations();
  const bool any = std::any_of(operations.begin(), operations.end(),
                               [](const Operation& op) { return op.kind == OpKind::Transpose; });
  if (!any) return program;
  STRATA_TRY(GraphPtr hoisted, Hoister(*program).run());
  return same_structure(*program, *hoisted) ? program : hoisted;
}

}  // namespace strata
