#include "superopt/partition/canonical.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

#include "support/hash.h"

namespace strata {
namespace {

/// A number for each tensor that depends on its place in the program and on no name or order.
class Colours {
 public:
  explicit Colours(const Graph& program) {
    const size_t count = program.tensors().size();
    std::vector<uint64_t> colours(count, 0);
    for (size_t id = 0; id < count; ++id) {
      const TensorType& type = program.type(static_cast<TensorId>(id));
      colours[id] = Hasher().add(static_cast<uint64_t>(type.dtype)).add_all(type.shape).value();
    }
    for (TensorId id : program.outputs()) colours[static_cast<size_t>(id)] = mix(colours[static_cast<size_t>(id)]);
    // What is far apart in the program meets after as many rounds as there are operators.
    for (size_t round = 0; round <= program.operations().size(); ++round) {
      std::vector<uint64_t> next = colours;
      for (const Operation& op : program.operations()) {
        const auto result = static_cast<size_t>(op.results[0]);
        std::vector<uint64_t> operands;
        for (TensorId id : op.operands) operands.push_back(colours[static_cast<size_t>(id)]);
        if (op_def(op.kind).traits.commutative) std::sort(operands.begin(), operands.end());
        const uint64_t kind = Hasher().add(static_cast<uint64_t>(op.kind)).add(op.attributes.hash()).value();
        next[result] += Hasher().add(kind).add_all(operands).value();
        for (size_t i = 0; i < op.operands.size(); ++i) {
          const uint64_t place = op_def(op.kind).traits.commutative ? 0 : i;
          const uint64_t use = Hasher().add(kind).add(place).add(colours[result]).value();
          next[static_cast<size_t>(op.operands[i])] += use;  // a sum: uses have no order
        }
      }
      colours = std::move(next);
    }
    colours_ = std::move(colours);
  }

  bool before(TensorId a, TensorId b) const {
    return colours_[static_cast<size_t>(a)] < colours_[static_cast<size_t>(b)];
  }

 private:
  std::vector<uint64_t> colours_;
};

class Canonicalizer {
 public:
  explicit Canonicalizer(const Graph& program)
      : program_(program), colours_(program), visited_(program.tensors().size(), false) {}

  CanonicalProgram run() {
    std::vector<size_t> outputs(program_.outputs().size());
    std::iota(outputs.begin(), outputs.end(), size_t{0});
    std::stable_sort(outputs.begin(), outputs.end(),
                     [&](size_t a, size_t b) { return colours_.before(program_.outputs()[a], program_.outputs()[b]); });
    for (size_t o : outputs) visit(program_.outputs()[o]);
    // An input that nothing reads is an input all the same.
    for (TensorId id : program_.inputs()) visit(id);
    return build(std::move(outputs));
  }

 private:
  /// Depth first, so that an operator follows its operands.
  void visit(TensorId id) {
    if (visited_[static_cast<size_t>(id)]) return;
    visited_[static_cast<size_t>(id)] = true;
    if (program_.tensor(id).producer < 0) {
      inputs_.push_back(id);
      return;
    }
    for (TensorId operand : operands_of(id)) visit(operand);
    results_.push_back(id);
  }

  const Operation& producer(TensorId id) const {
    return program_.operations()[static_cast<size_t>(program_.tensor(id).producer)];
  }

  std::vector<TensorId> operands_of(TensorId id) const {
    std::vector<TensorId> operands = producer(id).operands;
    if (op_def(producer(id).kind).traits.commutative) {
      std::stable_sort(operands.begin(), operands.end(), [&](TensorId a, TensorId b) { return colours_.before(a, b); });
    }
    return operands;
  }

  /// Statements were legal before: nothing can fail.
  CanonicalProgram build(std::vector<size_t> outputs) const {
    CanonicalProgram form;
    GraphBuilder builder(Level::Kernel, "part");
    std::vector<TensorId> ids(program_.tensors().size(), -1);
    for (TensorId id : inputs_) {
      const std::string name = fmt::format("x{}", form.original.size());
      form.original[name] = program_.tensor(id).name;
      ids[static_cast<size_t>(id)] = builder.input(name, program_.type(id)).value();
    }
    for (TensorId id : results_) {
      const std::string name = fmt::format("y{}", form.original.size() - inputs_.size());
      form.original[name] = program_.tensor(id).name;
      std::vector<TensorId> operands = operands_of(id);
      for (TensorId& operand : operands) operand = ids[static_cast<size_t>(operand)];
      const Operation& op = producer(id);
      ids[static_cast<size_t>(id)] = builder.add(op.kind, std::move(operands), op.attributes, name).value();
    }
    for (size_t o : outputs) {
      [[maybe_unused]] const auto added = builder.output(ids[static_cast<size_t>(program_.outputs()[o])]);
      assert(added);
    }
    form.graph = builder.finish().value();
    form.output_order = std::move(outputs);
    return form;
  }

  const Graph& program_;
  Colours colours_;
  std::vector<bool> visited_;
  std::vector<TensorId> inputs_, results_;  ///< in canonical order
};

/// "x0_tile" becomes "X_tile" where x0 is X.
std::string renamed(const std::string& name, const Names& names) {
  const auto whole = names.find(name);
  if (whole != names.end()) return whole->second;
  const size_t end = name.find('_');
  const auto stem = names.find(name.substr(0, end));
  return end == std::string::npos || stem == names.end() ? name : stem->second + name.substr(end);
}

}  // namespace

CanonicalProgram canonicalize(const Graph& program) { return Canonicalizer(program).run(); }

GraphPtr restore(const Graph& graph, const CanonicalProgram& form, const std::string& graph_name) {
  return rename(graph, form.original, graph_name, form.output_order);
}

GraphPtr rename(const Graph& graph, const Names& names, const std::string& graph_name,
                const std::vector<size_t>& output_order) {
  GraphBuilder builder(graph.level(), graph_name, graph.launch());
  // Of two tensors that would have one name, an output keeps it.
  std::map<std::string, TensorId> kept;
  if (graph.level() == Level::Kernel) {
    for (TensorId id : graph.outputs()) kept.emplace(renamed(graph.tensor(id).name, names), id);
  }
  const auto free = [&](TensorId id) {
    std::string name = renamed(graph.tensor(id).name, names);
    const auto taken = [&] {
      const auto output = kept.find(name);
      return builder.peek().find_tensor(name).has_value() || (output != kept.end() && output->second != id);
    };
    while (taken()) name += "_";
    return name;
  };
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  for (TensorId id : graph.inputs()) ids[static_cast<size_t>(id)] = builder.input(free(id), graph.type(id)).value();
  for (const Operation& op : graph.operations()) {
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    if (!op.body) {
      const TensorId made = builder.add(op.kind, std::move(operands), op.attributes, free(op.results[0])).value();
      ids[static_cast<size_t>(op.results[0])] = made;
      continue;
    }
    std::vector<std::string> results;
    for (TensorId id : op.results) results.push_back(free(id));
    GraphPtr body = rename(*op.body, names, op.body->name());
    const auto made = builder.add(std::move(body), std::move(operands), std::move(results)).value();
    for (size_t i = 0; i < made.size(); ++i) ids[static_cast<size_t>(op.results[i])] = made[i];
  }
  if (graph.level() == Level::Kernel) {
    std::vector<TensorId> outputs = graph.outputs();
    for (size_t o = 0; o < output_order.size(); ++o) outputs[output_order[o]] = graph.outputs()[o];
    for (TensorId id : outputs) {
      [[maybe_unused]] const auto added = builder.output(ids[static_cast<size_t>(id)]);
      assert(added);
    }
  }
  return builder.finish().value();
}

}  // namespace strata
