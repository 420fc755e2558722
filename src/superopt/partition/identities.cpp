#include "superopt/partition/identities.h"

#include <algorithm>
#include <map>
#include <set>

namespace strata {
namespace {

using Permutation = std::vector<int64_t>;

/// Whether the operator gives its first operand back, entry by entry.
bool is_identity(OpKind kind, const Attributes& attributes, const TensorType& operand, const TensorType& result) {
  if (operand != result) return false;
  switch (kind) {
    case OpKind::Transpose: {
      // Dimensions of one element may stand anywhere.
      Permutation moved = attributes.list("perm");
      std::erase_if(moved, [&](int64_t d) { return operand.shape[static_cast<size_t>(d)] == 1; });
      return std::is_sorted(moved.begin(), moved.end());
    }
    case OpKind::Scale:
      return attributes.rational("factor") == Rational{1, 1};
    case OpKind::AddConstant:
      return attributes.rational("value") == Rational{0, 1};
    default:  // all elements in their order, each once
      return moves_elements(kind) || is_reduction(kind);
  }
}

class Remover {
 public:
  explicit Remover(const Graph& program) : program_(program) {
    for (TensorId id = 0; id < static_cast<TensorId>(program.tensors().size()); ++id) same_as_.push_back(id);
  }

  Result<GraphPtr> run() {
    for (const Operation& op : program_.operations()) {
      statements_.push_back({op.operands, op.attributes});
      if (!op.body) simplify(op, statements_.back());
      for (TensorId& id : statements_.back().operands) id = same_as(id);
    }
    name_outputs();
    return build();
  }

 private:
  struct Statement {
    std::vector<TensorId> operands;
    Attributes attributes;
  };

  TensorId& same_as(TensorId id) { return same_as_[static_cast<size_t>(id)]; }

  /// Tensors are named before what reads them, so operands are as simple as they get.
  void simplify(const Operation& op, Statement& statement) {
    TensorId& operand = statement.operands[0];
    operand = same_as(operand);
    const int before = program_.tensor(operand).producer;
    const bool twice = before >= 0 && program_.operations()[static_cast<size_t>(before)].kind == op.kind;
    if (twice && (op.kind == OpKind::Transpose || op.kind == OpKind::Reshape)) {
      const Statement& first = statements_[static_cast<size_t>(before)];
      if (op.kind == OpKind::Transpose) {
        Permutation both;
        for (int64_t d : op.attributes.list("perm"))
          both.push_back(first.attributes.list("perm")[static_cast<size_t>(d)]);
        statement.attributes.set("perm", both);
      }
      operand = first.operands[0];
    }
    const TensorId result = op.results[0];
    if (is_identity(op.kind, statement.attributes, program_.type(operand), program_.type(result))) {
      same_as(result) = operand;
    }
  }

  /// What an output is the same as gets the output's name, unless it has a name of its own to the outside.
  void name_outputs() {
    std::set<TensorId> named(program_.inputs().begin(), program_.inputs().end());
    for (TensorId id : program_.outputs()) {
      if (same_as(id) == id) named.insert(id);
    }
    for (TensorId id : program_.outputs()) {
      const TensorId same = same_as(id);
      if (same == id) {
        outputs_.push_back(id);
      } else if (named.insert(same).second) {
        names_[same] = program_.tensor(id).name;
        outputs_.push_back(same);
      } else {
        outputs_.push_back(id);
      }
    }
  }

  Result<GraphPtr> build() {
    std::vector<bool> wanted(program_.tensors().size(), false);
    for (TensorId id : outputs_) wanted[static_cast<size_t>(id)] = true;
    for (size_t i = statements_.size(); i-- > 0;) {
      const auto& results = program_.operations()[i].results;
      if (std::none_of(results.begin(), results.end(), [&](TensorId id) { return wanted[static_cast<size_t>(id)]; })) {
        continue;
      }
      for (TensorId id : statements_[i].operands) wanted[static_cast<size_t>(id)] = true;
    }
    GraphBuilder builder(Level::Kernel, program_.name());
    builder.comment(program_.comments(), program_.output_comments(), program_.closing_comments());
    std::vector<TensorId> made(program_.tensors().size(), -1);
    const auto name = [&](TensorId id) {
      const auto renamed = names_.find(id);
      return renamed == names_.end() ? program_.tensor(id).name : renamed->second;
    };
    for (size_t i = 0; i < program_.inputs().size(); ++i) {
      const TensorId id = program_.inputs()[i];
      STRATA_TRY(made[static_cast<size_t>(id)],
                 builder.input(program_.tensor(id).name, program_.type(id), {}, program_.input_comments()[i]));
    }
    for (size_t i = 0; i < statements_.size(); ++i) {
      const Operation& op = program_.operations()[i];
      if (op.body) return unsupported("a program of predefined operators is expected");
      const TensorId result = op.results[0];
      if (!wanted[static_cast<size_t>(result)]) continue;
      std::vector<TensorId> operands;
      for (TensorId id : statements_[i].operands) operands.push_back(made[static_cast<size_t>(id)]);
      STRATA_TRY(made[static_cast<size_t>(result)],
                 builder.add(op.kind, operands, statements_[i].attributes, name(result), op.location, op.comments));
    }
    for (TensorId id : outputs_) STRATA_CHECK(builder.output(made[static_cast<size_t>(id)]));
    return builder.finish();
  }

  const Graph& program_;
  std::vector<Statement> statements_;      ///< by operation, with operands as simple as they get
  std::vector<TensorId> same_as_;          ///< by tensor: the first that it equals
  std::map<TensorId, std::string> names_;  ///< of tensors that take an output's
  std::vector<TensorId> outputs_;
};

}  // namespace

Result<GraphPtr> without_identities(const GraphPtr& program) {
  STRATA_TRY(GraphPtr simple, Remover(*program).run());
  return same_structure(*program, *simple) ? program : simple;
}

}  // namespace strata
