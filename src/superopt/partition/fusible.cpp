#include "superopt/partition/fusible.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "ir/views.h"
#include "superopt/verify/lax.h"

namespace strata {
namespace {

/// Maxima too: finite fields decide only some programs that have them.
bool is_outside(const Operation& op) {
  const LaxProperty& lax = op_def(op.kind).traits.lax;
  return !lax.inside || lax.maximum;
}

/// Whether a dimension of the result is none of the operands', so that a tile of the result is none of theirs.
bool regroups(const Graph& graph, const Operation& op) {
  if (op.kind == OpKind::Reshape || op.kind == OpKind::Repeat || op.kind == OpKind::Concat) return true;
  const IndexLabels labels = op_def(op.kind).labels(graph.types(op.operands), op.attributes);
  const Shape& shape = graph.type(op.results[0]).shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (labels.result[d] == IndexLabels::kFree && shape[d] > 1 && !is_reduction(op.kind)) return true;
  }
  return false;
}

/// For each dimension of a tensor, the product whose whole matrix is read for a value that has none of it; null: none.
using Columns = std::vector<const Operation*>;

int64_t matrix_bytes(const TensorType& type) {
  const Shape& shape = type.shape;
  return shape[shape.size() - 2] * shape.back() * size_of(type.dtype);
}

/// Marks the columns of a product's second matrices, and the rows of its first, where these are large.
void mark_product(const Graph& graph, const Operation& op, int64_t max_bytes, Columns& result) {
  const size_t rank = result.size(), products = op.operands.size() / 2;
  for (size_t i = 0; i < products; ++i) {
    if (matrix_bytes(graph.type(op.operands[i + products])) > max_bytes) result[rank - 1] = &op;
    if (matrix_bytes(graph.type(op.operands[i])) > max_bytes) result[rank - 2] = &op;
  }
}

std::optional<std::string> repeated_product(const Graph& graph, int64_t max_bytes) {
  std::vector<Columns> columns;
  for (const TensorInfo& tensor : graph.tensors()) columns.emplace_back(tensor.type.shape.size(), nullptr);
  for (const Operation& op : graph.operations()) {
    const IndexLabels labels = op_def(op.kind).labels(graph.types(op.operands), op.attributes);
    Columns& result = columns[static_cast<size_t>(op.results[0])];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Columns& operand = columns[static_cast<size_t>(op.operands[i])];
      for (size_t d = 0; d < operand.size(); ++d) {
        if (operand[d] == nullptr) continue;
        const int label = labels.operands[i][d];
        const auto kept = std::find(labels.result.begin(), labels.result.end(), label);
        if (label != IndexLabels::kFree && kept != labels.result.end()) {
          result[static_cast<size_t>(kept - labels.result.begin())] = operand[d];
          continue;
        }
        return fmt::format("'{}' reduces over columns of the product '{}': every block would read its whole matrix",
                           graph.tensor(op.results[0]).name, graph.tensor(operand[d]->results[0]).name);
      }
    }
    if (multiplies_matrices(op.kind)) mark_product(graph, op, max_bytes, result);
  }
  return std::nullopt;
}

/// As lax_violation, with all other operators allowed.
std::optional<std::string> second_exponential(const Graph& part) {
  std::vector<int> count(part.tensors().size(), 0);
  for (const Operation& op : part.operations()) {
    int& here = count[static_cast<size_t>(op.results[0])];
    for (TensorId id : op.operands) here = std::max(here, count[static_cast<size_t>(id)]);
    here += op_def(op.kind).traits.lax.exponentiations;
    if (here > 1) {
      return fmt::format("'{}' = {}: two exponentiations lie on one path", part.tensor(op.results[0]).name, op.name());
    }
  }
  return std::nullopt;
}

}  // namespace

std::string not_searched(const Graph& program, const Operation& op, const PartitionLimits& limits) {
  const std::string& name = program.tensor(op.results[0]).name;
  if (!limits.outside_lax && is_outside(op)) {
    return fmt::format("'{}' = {} is outside the Lax fragment", name, op.name());
  }
  // Blocks read an input in any order, so the part that reads it is searched without the transpose.
  if (is_transposed_input(program, op)) {
    return fmt::format("'{}' = {} is a view of an input", name, op.name());
  }
  if (regroups(program, op)) return fmt::format("'{}' = {} regroups dimensions", name, op.name());
  return {};
}

bool outside_lax(const Graph& program) {
  return std::any_of(program.operations().begin(), program.operations().end(),
                     [](const Operation& op) { return !op.body && is_outside(op); });
}

std::optional<std::string> not_fusible(const Graph& part, const PartitionLimits& limits) {
  if (limits.outside_lax && outside_lax(part)) {
    if (auto second = second_exponential(part)) return second;
  } else if (auto violation = lax_violation(part)) {
    return violation;
  }
  return repeated_product(part, limits.max_repeated_bytes);
}

Part make_part(const Graph& program, std::vector<int> operations, const std::function<bool(TensorId)>& is_wanted) {
  Part part;
  part.operations = std::move(operations);
  std::set<TensorId> read;
  std::set<TensorId> made;
  for (int i : part.operations) {
    const Operation& op = program.operations()[static_cast<size_t>(i)];
    read.insert(op.operands.begin(), op.operands.end());
    made.insert(op.results.begin(), op.results.end());
  }
  std::set_difference(read.begin(), read.end(), made.begin(), made.end(), std::back_inserter(part.inputs));
  std::copy_if(made.begin(), made.end(), std::back_inserter(part.outputs), is_wanted);
  // What nothing reads is the part's result all the same: validate refuses such programs with their own message.
  if (part.outputs.empty()) part.outputs.push_back(*made.rbegin());

  // Statements of a graph that was built before: nothing can fail.
  GraphBuilder builder(Level::Kernel, program.name());
  std::vector<TensorId> ids(program.tensors().size(), -1);
  for (TensorId id : part.inputs) {
    ids[static_cast<size_t>(id)] = builder.input(program.tensor(id).name, program.type(id)).value();
  }
  for (int i : part.operations) {
    const Operation& op = program.operations()[static_cast<size_t>(i)];
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    ids[static_cast<size_t>(op.results[0])] = builder
                                                  .add(op.kind, std::move(operands), op.attributes,
                                                       program.tensor(op.results[0]).name, op.location, op.comments)
                                                  .value();
  }
  for (TensorId id : part.outputs) {
    [[maybe_unused]] const auto added = builder.output(ids[static_cast<size_t>(id)]);
    assert(added);
  }
  part.graph = builder.finish().value();
  return part;
}

}  // namespace strata
