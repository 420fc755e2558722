#include "superopt/verify/domains.h"

#include <algorithm>
#include <map>

#include "superopt/verify/positive.h"

namespace strata {
namespace {

bool selects(const Operation& op) {
  const bool accumulated = op.kind == OpKind::Accum && op.attributes.word("kind") == "max";
  return accumulated || op_def(op.kind).traits.lax.maximum;
}

/// Whether slices of one tensor, [start, start + size) along one dimension each, leave nothing of it out.
bool cover(std::vector<std::pair<int64_t, int64_t>> slices, int64_t extent) {
  std::sort(slices.begin(), slices.end());
  int64_t covered = 0;
  for (const auto& [start, size] : slices) {
    if (start <= covered) covered = std::max(covered, start + size);
  }
  return covered >= extent;
}

/// The first operator that may be undefined on a region.
struct PartialOperators {
  const FreeOperators* free;  ///< null where there is none
  bool roots;  ///< whether roots count, as such and as what selects: √(x²) − x is 0 on half the line

  /// Among those whose results the outputs do not read wholly; `outputs` as in read_wholly. `selected`: by TensorId,
  /// whether it depends on a maximum, a free operator or a root; filled from the inputs'.
  std::optional<std::string> first(const Graph& graph, const std::vector<bool>& outputs,
                                   const std::vector<Sign>& of_inputs, std::vector<bool>& selected) const {
    const std::vector<bool> read = read_wholly(graph, outputs);
    const std::vector<Sign> signs = signs_of(graph, of_inputs);
    const auto at = [](const auto& of, TensorId id) { return of[static_cast<size_t>(id)]; };
    for (size_t i = 0; i < graph.operations().size(); ++i) {
      const Operation& op = graph.operations()[i];
      if (op.body) {
        std::vector<bool> inner(op.body->tensors().size(), false), results;
        std::vector<Sign> signs_in;
        for (size_t n = 0; n < op.operands.size(); ++n) {
          inner[static_cast<size_t>(op.body->inputs()[n])] = at(selected, op.operands[n]);
          signs_in.push_back(at(signs, op.operands[n]));
        }
        for (TensorId id : op.results) results.push_back(at(read, id));
        if (auto found = first(*op.body, results, signs_in, inner)) return found;
        for (size_t n = 0; n < op.results.size(); ++n) {
          selected[static_cast<size_t>(op.results[n])] = at(inner, op.body->outputs()[n]);
        }
        continue;
      }
      const LaxProperty& lax = op_def(op.kind).traits.lax;
      bool depends = selects(op) || (roots && lax.root) || (free != nullptr && free->at(&graph)[i]);
      for (TensorId id : op.operands) depends = depends || at(selected, id);
      selected[static_cast<size_t>(op.results[0])] = depends;
      if (at(read, op.results[0])) continue;
      const TensorId last = op.operands.back();
      const bool root = roots && lax.root && at(signs, last) == Sign::Unknown;
      // Operators that divide by 1 + e^x (silu, gelu) do so everywhere.
      const bool quotient =
          lax.divides && lax.exponentiations == 0 && at(selected, last) && at(signs, last) != Sign::Positive;
      if (root || quotient) {
        return fmt::format("'{}' = {}", graph.tensor(op.results[0]).name, op_def(op.kind).traits.name);
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> first(const Graph& graph, const std::vector<bool>& outputs) const {
    std::vector<bool> selected(graph.tensors().size(), false);
    return first(graph, outputs, std::vector<Sign>(graph.inputs().size(), Sign::Unknown), selected);
  }
};

}  // namespace

std::vector<bool> read_wholly(const Graph& graph, const std::vector<bool>& outputs) {
  std::vector<bool> read(graph.tensors().size(), false);
  for (size_t n = 0; n < outputs.size(); ++n) {
    if (outputs[n]) read[static_cast<size_t>(graph.outputs()[n])] = true;
  }
  std::map<std::pair<TensorId, int64_t>, std::vector<std::pair<int64_t, int64_t>>> slices;  // by tensor and dimension
  for (size_t i = graph.operations().size(); i-- > 0;) {
    const Operation& op = graph.operations()[i];
    const auto is_read = [&](TensorId id) { return read[static_cast<size_t>(id)]; };
    if (op.body) {
      std::vector<bool> results;
      for (TensorId id : op.results) results.push_back(is_read(id));
      const std::vector<bool> inside = read_wholly(*op.body, results);
      for (size_t n = 0; n < op.operands.size(); ++n) {
        if (inside[static_cast<size_t>(op.body->inputs()[n])]) read[static_cast<size_t>(op.operands[n])] = true;
      }
      continue;
    }
    if (!is_read(op.results[0])) continue;
    if (op.kind == OpKind::Slice) {
      const TensorId from = op.operands[0];
      const int64_t dim = op.attributes.integer("dim");
      auto& taken = slices[{from, dim}];
      taken.emplace_back(op.attributes.integer("start"), op.attributes.integer("size"));
      if (cover(taken, graph.type(from).shape[static_cast<size_t>(dim)])) read[static_cast<size_t>(from)] = true;
    } else if (op.kind == OpKind::Select) {
      read[static_cast<size_t>(op.operands[0])] = true;
    } else if (op.kind != OpKind::Conv2d) {  // whose strides may leave something out
      for (TensorId id : op.operands) read[static_cast<size_t>(id)] = true;
    }
  }
  return read;
}

std::optional<std::string> unread_domain(const Graph& graph, const FreeOperators* free, std::optional<size_t> output) {
  std::vector<bool> outputs(graph.outputs().size(), !output);
  if (output) outputs[*output] = true;
  return PartialOperators{.free = free, .roots = true}.first(graph, outputs);
}

bool undefined_on_region(const Graph& graph, const FreeOperators* free) {
  const std::vector<bool> whether_read_or_not(graph.outputs().size(), false);
  return PartialOperators{.free = free, .roots = true}.first(graph, whether_read_or_not).has_value();
}

bool divides_by_selected(const Graph& graph, const FreeOperators* free) {
  const std::vector<bool> whether_read_or_not(graph.outputs().size(), false);
  return PartialOperators{.free = free, .roots = false}.first(graph, whether_read_or_not).has_value();
}

}  // namespace strata
