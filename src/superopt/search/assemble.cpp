#include "superopt/search/assemble.h"

#include <algorithm>
#include <map>
#include <set>

namespace strata {
namespace {

struct Assembled {
  double seconds = 0;
  int launches = 0;
  std::vector<const KernelChoice*> kernels;  ///< operands first
};

class Assembler {
 public:
  Assembler(const ClassGraph& kernel, const AssemblyLimits& limits, const Target& target)
      : kernel_(kernel), limits_(limits), cheapest_launch_(target.rates.launch) {}

  void offer(const KernelChoice& choice) { by_result_[choice.result].push_back(&choice); }

  std::vector<Assembled> run(const std::vector<int>& outputs) {
    for (auto& [result, choices] : by_result_) {
      std::stable_sort(choices.begin(), choices.end(),
                       [](const KernelChoice* a, const KernelChoice* b) { return a->seconds < b->seconds; });
    }
    for (int output : outputs) {
      if (!is_input(output)) open_.insert(output);
    }
    found_.resize(static_cast<size_t>(limits_.max_kernel_ops) + 1);
    if (!open_.empty()) expand(0, 0);
    std::vector<Assembled> all;
    for (auto& found : found_) std::move(found.begin(), found.end(), std::back_inserter(all));
    std::stable_sort(all.begin(), all.end(),
                     [](const Assembled& a, const Assembled& b) { return a.seconds < b.seconds; });
    return all;
  }

 private:
  bool is_input(int c) const { return kernel_.at(c).kernel_tensor >= 0; }

  /// Nothing dearer of at least this many kernels is kept any more.
  double limit(int kernels) const {
    double most = 0;
    for (size_t n = static_cast<size_t>(kernels); n < found_.size(); ++n) {
      most = std::max(most, found_[n].size() < limits_.max_graphs ? 1e30 : found_[n].front().seconds);
    }
    return most;
  }

  void expand(int kernels, double seconds) {
    const auto least = static_cast<double>(open_.size()) * cheapest_launch_;
    const int fewest = kernels + static_cast<int>(open_.size());
    if (fewest > limits_.max_kernel_ops || seconds + least > limit(fewest)) return;
    if (open_.empty()) return finish(kernels, seconds);
    const int c = *open_.rbegin();
    open_.erase(c);
    const auto it = by_result_.find(c);
    const bool alone = kernels == 0 && open_.empty();
    std::map<std::pair<int, std::vector<int>>, int> taken;
    if (it != by_result_.end()) {
      for (const KernelChoice* choice : it->second) {
        const bool reads_values =
            std::any_of(choice->inputs.begin(), choice->inputs.end(), [&](int i) { return !is_input(i); });
        // A graph of one kernel costs what its kernel costs, so all are visited; combinations are limited.
        if ((!alone || reads_values) && ++taken[{choice->kernels(), choice->inputs}] > limits_.ways_per_kernel)
          continue;
        if (seconds + choice->seconds > limit(kernels + choice->kernels())) {
          if (choice->kernels() == 1) break;  // what follows is dearer still
          continue;
        }
        chosen_[c] = choice;
        std::vector<int> opened;
        for (int input : choice->inputs) {
          if (is_input(input) || chosen_.count(input) != 0) continue;
          if (open_.insert(input).second) opened.push_back(input);
        }
        expand(kernels + choice->kernels(), seconds + choice->seconds);
        for (int input : opened) open_.erase(input);
      }
    }
    chosen_.erase(c);
    open_.insert(c);
  }

  void finish(int kernels, double seconds) {
    Assembled assembled{seconds, kernels, {}};
    std::map<int, int> state;  // 1: on the path, 2: placed
    const std::function<bool(int)> place = [&](int c) {
      if (is_input(c)) return true;
      if (state[c] != 0) return state[c] == 2;
      state[c] = 1;
      for (int input : chosen_.at(c)->inputs) {
        if (!place(input)) return false;
      }
      state[c] = 2;
      assembled.kernels.push_back(chosen_.at(c));
      return true;
    };
    for (const auto& [c, choice] : chosen_) {
      if (!place(c)) return;
    }
    // A heap with the dearest in front.
    const auto cheaper = [](const Assembled& a, const Assembled& b) { return a.seconds < b.seconds; };
    std::vector<Assembled>& found = found_[static_cast<size_t>(kernels)];
    found.push_back(std::move(assembled));
    std::push_heap(found.begin(), found.end(), cheaper);
    if (found.size() > limits_.max_graphs) {
      std::pop_heap(found.begin(), found.end(), cheaper);
      found.pop_back();
    }
  }

  const ClassGraph& kernel_;
  const AssemblyLimits& limits_;
  double cheapest_launch_;
  std::map<int, std::vector<const KernelChoice*>> by_result_;
  std::map<int, const KernelChoice*> chosen_;
  std::set<int> open_;
  std::vector<std::vector<Assembled>> found_;  ///< by number of kernels; each a heap with the dearest in front
};

/// The kernels of `from` over `operands`; the last one's result gets the name.
Result<TensorId> add_kernels(GraphBuilder& builder, const Graph& from, const std::vector<TensorId>& operands,
                             const std::string& name) {
  std::vector<TensorId> ids(from.tensors().size(), -1);
  for (size_t i = 0; i < operands.size(); ++i) ids[static_cast<size_t>(from.inputs()[i])] = operands[i];
  for (const Operation& op : from.operations()) {
    std::vector<TensorId> read;
    for (TensorId id : op.operands) read.push_back(ids[static_cast<size_t>(id)]);
    const bool last = &op == &from.operations().back();
    STRATA_TRY(const std::vector<TensorId> results,
               builder.add(op.body, read, last ? std::vector<std::string>{name} : std::vector<std::string>{}));
    for (size_t i = 0; i < results.size(); ++i) ids[static_cast<size_t>(op.results[i])] = results[i];
  }
  return ids[static_cast<size_t>(from.outputs()[0])];
}

Result<GraphPtr> build(const Graph& program, const ClassGraph& kernel, const std::vector<KernelValue>& values,
                       const std::vector<int>& outputs, const Assembled& assembled) {
  GraphBuilder builder(Level::Kernel, program.name());
  std::map<int, TensorId> ids;
  for (size_t c = 0; c < kernel.classes().size(); ++c) {
    if (kernel.classes()[c].kernel_tensor < 0) continue;
    const TensorId input = program.inputs()[static_cast<size_t>(kernel.classes()[c].kernel_tensor)];
    STRATA_TRY(ids[static_cast<int>(c)], builder.input(program.tensor(input).name, program.type(input)));
  }
  for (const KernelChoice* choice : assembled.kernels) {
    std::vector<TensorId> operands;
    for (int input : choice->inputs) operands.push_back(ids.at(input));
    const KernelValue& value = values[static_cast<size_t>(choice->result)];
    if (choice->graph) {
      STRATA_TRY(ids[choice->result], add_kernels(builder, *choice->graph, operands, value.name));
    } else {
      Attributes attributes = choice->predefined->attributes;
      if (attributes.has("shape")) attributes.set("shape", value.type->shape);  // the model's sizes become real ones
      STRATA_TRY(ids[choice->result], builder.add(choice->predefined->kind, operands, attributes, value.name));
    }
  }
  for (int output : outputs) STRATA_CHECK(builder.output(ids.at(output)));
  return builder.finish();
}

/// A predefined operator as a choice; nullopt where it does not fit real sizes.
std::optional<KernelChoice> predefined_choice(int result, const Derivation& derivation,
                                              const std::vector<KernelValue>& values, const Target& target) {
  GraphBuilder builder(Level::Kernel);
  std::vector<TensorId> operands;
  std::map<int, TensorId> ids;
  for (int operand : derivation.operands) {
    const KernelValue& value = values[static_cast<size_t>(operand)];
    if (!value.type) return std::nullopt;
    if (ids.count(operand) == 0) {
      auto id = builder.input(value.name, *value.type);
      if (!id) return std::nullopt;
      ids[operand] = *id;
    }
    operands.push_back(ids[operand]);
  }
  const KernelValue& made = values[static_cast<size_t>(result)];
  if (!made.type) return std::nullopt;
  Attributes attributes = derivation.attributes;
  if (attributes.has("shape")) attributes.set("shape", made.type->shape);
  auto id = builder.add(derivation.kind, operands, attributes);
  if (!id || builder.type(*id) != *made.type) return std::nullopt;
  const double seconds = estimate_operation(builder.peek(), builder.peek().operations().back(), target).seconds;
  return KernelChoice{result, derivation.operands, nullptr, &derivation, seconds};
}

}  // namespace

std::optional<KernelChoice> kernel_choice(int result, std::vector<int> inputs, const std::vector<GraphPtr>& bodies,
                                          const Target& target) {
  GraphBuilder builder(Level::Kernel, "kernels");
  std::vector<TensorId> values;
  for (TensorId id : bodies.front()->inputs()) {
    auto input = builder.input(bodies.front()->tensor(id).name, bodies.front()->type(id));
    if (!input) return std::nullopt;
    values.push_back(*input);
  }
  for (const GraphPtr& body : bodies) {
    auto results = builder.add(body, values);
    if (!results) return std::nullopt;
    values = std::move(*results);
  }
  if (values.size() != 1 || !builder.output(values[0])) return std::nullopt;
  auto graph = builder.finish();
  if (!graph) return std::nullopt;
  KernelChoice choice{result, std::move(inputs), std::move(*graph), nullptr, 0};
  choice.seconds = estimate_cost(*choice.graph, target).seconds;
  return choice;
}

namespace {

/// `visit` gets what the assembler found; the choices that predefined operators are must live until then.
template <class Visit>
void assemble_with(const ClassGraph& kernel, const std::vector<KernelValue>& values, const std::vector<int>& outputs,
                   const std::vector<KernelChoice>& choices, const AssemblyLimits& limits, const Target& target,
                   Visit&& visit) {
  std::vector<KernelChoice> predefined;
  for (size_t c = 0; c < kernel.classes().size(); ++c) {
    for (const Derivation& derivation : kernel.classes()[c].derivations) {
      auto choice = predefined_choice(static_cast<int>(c), derivation, values, target);
      if (choice) predefined.push_back(std::move(*choice));
    }
  }
  Assembler assembler(kernel, limits, target);
  for (const KernelChoice& choice : predefined) assembler.offer(choice);
  for (const KernelChoice& choice : choices) assembler.offer(choice);
  visit(assembler.run(outputs));
}

}  // namespace

double cheapest_assembly(const ClassGraph& kernel, const std::vector<KernelValue>& values,
                         const std::vector<int>& outputs, const std::vector<KernelChoice>& choices,
                         const AssemblyLimits& limits, const Target& target) {
  AssemblyLimits one = limits;
  one.max_graphs = 1;
  double best = std::numeric_limits<double>::infinity();
  assemble_with(kernel, values, outputs, choices, one, target, [&](const std::vector<Assembled>& found) {
    if (!found.empty()) best = found.front().seconds;
  });
  return best;
}

std::vector<GraphPtr> assemble(const Graph& program, const ClassGraph& kernel, const std::vector<KernelValue>& values,
                               const std::vector<int>& outputs, const std::vector<KernelChoice>& choices,
                               const AssemblyLimits& limits, const Target& target) {
  std::vector<GraphPtr> graphs;
  assemble_with(kernel, values, outputs, choices, limits, target, [&](const std::vector<Assembled>& found) {
    for (const Assembled& assembled : found) {
      if (auto graph = build(program, kernel, values, outputs, assembled)) graphs.push_back(std::move(*graph));
    }
  });
  return graphs;
}

}  // namespace strata
