#include "superopt/verify/decided.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace strata {
namespace {

/// Magnitudes up to this are far from wrapping around in a field.
constexpr double kLargest = 0x1p40;

/// The largest magnitude of integers that are known; nothing where they are not known, or no small integers.
using Magnitude = std::optional<double>;

Magnitude small(double magnitude) { return magnitude <= kLargest ? Magnitude(magnitude) : std::nullopt; }

/// Of a rational, if it is an integer.
Magnitude integer(const Rational& value) {
  return value.den == 1 ? small(std::fabs(static_cast<double>(value.num))) : std::nullopt;
}

Magnitude magnitude_of(const TensorType& type) {
  if (!type.iota) return std::nullopt;
  const Magnitude first = integer(type.iota->start);
  const int64_t size = type.shape[static_cast<size_t>(type.iota->dim)];
  const Magnitude last = integer(type.iota->at(size - 1));
  return first && last ? Magnitude(std::max(*first, *last)) : std::nullopt;
}

Magnitude result_of(const Operation& op, const std::vector<Magnitude>& operands) {
  const auto largest = [&] {
    double most = 0;
    for (const Magnitude& operand : operands) most = std::max(most, *operand);
    return most;
  };
  if (!std::all_of(operands.begin(), operands.end(), [](const Magnitude& m) { return m.has_value(); })) return {};
  switch (op.kind) {
    case OpKind::Greater:
      return 1;
    case OpKind::Select:
      return std::max(*operands[1], *operands[2]);
    case OpKind::Add:
    case OpKind::Sub:
      return small(*operands[0] + *operands[1]);
    case OpKind::Mul:
      return small(*operands[0] * *operands[1]);
    case OpKind::Sqr:
      return small(*operands[0] * *operands[0]);
    case OpKind::Scale: {
      const Magnitude factor = integer(op.attributes.rational("factor"));
      return factor ? small(*operands[0] * *factor) : std::nullopt;
    }
    case OpKind::AddConstant: {
      const Magnitude value = integer(op.attributes.rational("value"));
      return value ? small(*operands[0] + *value) : std::nullopt;
    }
    default:
      return moves_elements(op.kind) ? Magnitude(largest()) : std::nullopt;
  }
}

class Walk {
 public:
  /// By TensorId of `graph`, from those of its inputs.
  std::vector<Magnitude> run(const Graph& graph, const std::vector<Magnitude>& inputs) {
    std::vector<Magnitude> magnitudes(graph.tensors().size());
    for (size_t n = 0; n < inputs.size(); ++n) magnitudes[static_cast<size_t>(graph.inputs()[n])] = inputs[n];
    decided.try_emplace(&graph, graph.operations().size(), true);
    for (size_t i = 0; i < graph.operations().size(); ++i) {
      const Operation& op = graph.operations()[i];
      std::vector<Magnitude> operands;
      for (TensorId id : op.operands) operands.push_back(magnitudes[static_cast<size_t>(id)]);
      bool is = false;
      if (op.body) {
        const std::vector<Magnitude> inner = run(*op.body, operands);
        for (size_t n = 0; n < op.results.size(); ++n) {
          magnitudes[static_cast<size_t>(op.results[n])] = inner[static_cast<size_t>(op.body->outputs()[n])];
        }
      } else {
        is = (op.kind == OpKind::Greater && operands[0] && operands[1]) || (op.kind == OpKind::Select && operands[0]);
        magnitudes[static_cast<size_t>(op.results[0])] = result_of(op, operands);
      }
      decided.at(&graph)[i] = decided.at(&graph)[i] && is;
    }
    return magnitudes;
  }

  DecidedOperators decided;
};

/// How a value depends on iotas and on arguments.
enum class Dependence {
  Constant,  ///< on neither, or on iotas that do not count
  Counts,    ///< on iotas alone
  Hidden,    ///< on arguments, and on iotas only by conditions of selections, as only_hides_exponents allows them
  Mixed,     ///< on both otherwise
};

class DependenceWalk {
 public:
  std::vector<Dependence> run(const Graph& graph, const std::vector<Dependence>& inputs) {
    std::vector<Dependence> found(graph.tensors().size(), Dependence::Constant);
    for (size_t n = 0; n < inputs.size(); ++n) found[static_cast<size_t>(graph.inputs()[n])] = inputs[n];
    for (const Operation& op : graph.operations()) {
      std::vector<Dependence> operands;
      for (TensorId id : op.operands) operands.push_back(found[static_cast<size_t>(id)]);
      if (op.body) {
        const std::vector<Dependence> inner = run(*op.body, operands);
        for (size_t n = 0; n < op.results.size(); ++n)
          found[static_cast<size_t>(op.results[n])] = inner[static_cast<size_t>(op.body->outputs()[n])];
        continue;
      }
      const bool counted = std::any_of(operands.begin(), operands.end(), [](Dependence one) {
        return one == Dependence::Counts || one == Dependence::Mixed;
      });
      hides_only = hides_only && !(counted && op_def(op.kind).traits.lax.exponentiations > 0);
      for (TensorId id : op.results) found[static_cast<size_t>(id)] = result(op, operands);
    }
    return found;
  }

  bool hides_only = true;

  /// Whether a selection takes, by iotas that count, a constant or what is not.
  static bool hides(const Operation& op, const std::vector<Dependence>& operands) {
    return op.kind == OpKind::Select && operands[0] == Dependence::Counts &&
           (operands[1] == Dependence::Constant) != (operands[2] == Dependence::Constant);
  }

  static Dependence result(const Operation& op, const std::vector<Dependence>& operands) {
    const auto has = [&](Dependence what) {
      return std::find(operands.begin(), operands.end(), what) != operands.end();
    };
    if (has(Dependence::Mixed)) return Dependence::Mixed;
    if (!has(Dependence::Hidden)) return has(Dependence::Counts) ? Dependence::Counts : Dependence::Constant;
    if (!has(Dependence::Counts)) return Dependence::Hidden;
    return hides(op, operands) ? Dependence::Hidden : Dependence::Mixed;
  }
};

std::vector<Dependence> dependence_of_inputs(const Graph& graph) {
  std::vector<Dependence> inputs;
  for (TensorId id : graph.inputs()) {
    const std::optional<Iota>& iota = graph.type(id).iota;
    inputs.push_back(!iota ? Dependence::Hidden : iota->step == 0 ? Dependence::Constant : Dependence::Counts);
  }
  return inputs;
}

/// `graph`, whose inputs have these types and depend so, with other conditions.
Result<GraphPtr> rebuilt(const Graph& graph, const std::vector<TensorType>& types,
                         const std::vector<Dependence>& inputs, Masks masks) {
  GraphBuilder builder(graph.level(), graph.name(), graph.launch());
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  for (size_t n = 0; n < inputs.size(); ++n) {
    const TensorId id = graph.inputs()[n];
    STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(graph.tensor(id).name, types[n]));
  }
  const std::vector<Dependence> found = DependenceWalk().run(graph, inputs);
  for (const Operation& op : graph.operations()) {
    std::vector<TensorId> operands;
    std::vector<Dependence> depend;
    for (TensorId id : op.operands) {
      operands.push_back(ids[static_cast<size_t>(id)]);
      depend.push_back(found[static_cast<size_t>(id)]);
    }
    std::vector<TensorId> results;
    if (op.body) {
      std::vector<TensorType> of_operands;
      for (TensorId id : operands) of_operands.push_back(builder.type(id));
      STRATA_TRY(GraphPtr body, rebuilt(*op.body, of_operands, depend, masks));
      STRATA_TRY(results, builder.add(std::move(body), operands));
    } else {
      if (DependenceWalk::hides(op, depend)) {
        const bool first = (depend[1] == Dependence::Constant) == (masks == Masks::Hide);
        STRATA_TRY(operands[0], builder.add(OpKind::Sub, {operands[0], operands[0]}));
        Attributes one;
        one.set("value", Rational{1, 1});
        if (first) {
          STRATA_TRY(operands[0], builder.add(OpKind::AddConstant, {operands[0]}, one));
        }
      }
      STRATA_TRY(const TensorId id, builder.add(op.kind, operands, op.attributes));
      results.push_back(id);
    }
    for (size_t n = 0; n < results.size(); ++n) ids[static_cast<size_t>(op.results[n])] = results[n];
  }
  if (graph.level() == Level::Kernel) {
    for (TensorId id : graph.outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
  }
  return builder.finish();
}

}  // namespace

bool only_hides_exponents(const Graph& graph) {
  DependenceWalk walk;
  walk.run(graph, dependence_of_inputs(graph));
  return walk.hides_only;
}

Result<GraphPtr> with_masks(const Graph& graph, Masks masks) {
  return rebuilt(graph, graph.types(graph.inputs()), dependence_of_inputs(graph), masks);
}

DecidedOperators decided_operators(const Graph& graph) {
  std::vector<Magnitude> inputs;
  for (TensorId id : graph.inputs()) inputs.push_back(magnitude_of(graph.type(id)));
  Walk walk;
  walk.run(graph, inputs);
  return std::move(walk.decided);
}

bool has_iotas(const Graph& graph) { return graph.arguments().size() < graph.inputs().size(); }

std::vector<bool> known_tensors(const Graph& graph) {
  std::vector<bool> known(graph.tensors().size(), false);
  for (TensorId id : graph.inputs()) known[static_cast<size_t>(id)] = graph.type(id).iota.has_value();
  for (const Operation& op : graph.operations()) {
    const bool all = std::all_of(op.operands.begin(), op.operands.end(),
                                 [&](TensorId id) { return known[static_cast<size_t>(id)]; });
    for (TensorId id : op.results) known[static_cast<size_t>(id)] = all;
  }
  return known;
}

}  // namespace strata
