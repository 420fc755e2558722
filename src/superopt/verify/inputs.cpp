#include "superopt/verify/inputs.h"

#include <algorithm>

namespace strata {

namespace {

/// Whether each of `ids` is, by name and type, one of `others`, and there are as many.
Result<void> check_alike(const Graph& reference, const std::vector<TensorId>& ids, const Graph& candidate,
                         const std::vector<TensorId>& others) {
  if (ids.size() != others.size()) return invalid("the programs have {} and {} inputs", ids.size(), others.size());
  for (TensorId id : ids) {
    const TensorInfo& input = reference.tensor(id);
    const auto other =
        std::find_if(others.begin(), others.end(), [&](TensorId o) { return candidate.tensor(o).name == input.name; });
    if (other == others.end()) return invalid("input '{}' is missing in one program", input.name);
    if (candidate.type(*other) != input.type) {
      return invalid("input '{}' is {} in one program and {} in the other", input.name, to_string(input.type),
                     to_string(candidate.type(*other)));
    }
  }
  return {};
}

Result<void> check_inputs_and_outputs(const Graph& reference, const Graph& candidate, bool iotas) {
  STRATA_CHECK(iotas ? check_alike(reference, reference.inputs(), candidate, candidate.inputs())
                     : check_alike(reference, reference.arguments(), candidate, candidate.arguments()));
  if (reference.outputs().size() != candidate.outputs().size()) {
    return invalid("the programs have {} and {} outputs", reference.outputs().size(), candidate.outputs().size());
  }
  for (size_t i = 0; i < reference.outputs().size(); ++i) {
    const TensorType& a = reference.type(reference.outputs()[i]);
    const TensorType& b = candidate.type(candidate.outputs()[i]);
    if (a != b) return invalid("output {} is {} in one program and {} in the other", i, to_string(a), to_string(b));
  }
  return {};
}

Result<void> check(const Graph& reference, const Graph& candidate, bool iotas) {
  if (reference.level() != Level::Kernel || candidate.level() != Level::Kernel) {
    return invalid("only kernel graphs can be compared");
  }
  if (auto alike = check_inputs_and_outputs(reference, candidate, iotas); !alike) {
    return with_remedy(tl::unexpected(std::move(alike).error()),
                       "programs are compared that have inputs of the same names and types, in any order, and outputs "
                       "of the same types, in the same order");
  }
  return {};
}

}  // namespace

Result<void> check_interface(const Graph& reference, const Graph& candidate) {
  return check(reference, candidate, false);
}

Result<void> check_replacement(const Graph& program, const Graph& graph) { return check(program, graph, true); }

std::string input_shapes(const Graph& graph) {
  std::string shapes;
  for (TensorId id : graph.arguments()) {
    shapes += fmt::format("{}{}{}", shapes.empty() ? "" : ", ", graph.tensor(id).name, to_string(graph.type(id).shape));
  }
  return shapes;
}

std::vector<size_t> input_order(const Graph& reference, const Graph& candidate) {
  const std::vector<TensorId> given = reference.arguments();
  std::vector<size_t> order;
  for (TensorId id : candidate.arguments()) {
    const std::string& name = candidate.tensor(id).name;
    size_t i = 0;
    while (reference.tensor(given[i]).name != name) ++i;
    order.push_back(i);
  }
  return order;
}

}  // namespace strata
