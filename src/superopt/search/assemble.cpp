#include "superopt/search/assemble.h"

#include <algorithm>
#include <map>
#include <set>

namespace strata {
namespace {

struct Assembled {
  double seconds = 0;
  std::vector<const KernelChoice*> kernels;  ///< operands first
};

class Assembler {
 public:
  Assembler(const ClassGraph& kernel, const AssemblyLimits& limits, const Target& target)
      : kernel_(kernel), limits_(limits), cheapest_launch_(target.launch_seconds) {}

  void offer(const KernelChoice& choice) { by_result_[choice.result].push_back(&choice); }

  std::vector<Assembled> run(const std::vector<int>& outputs) {
    for (auto& [result, choices] : by_result_) {
      std::stable_sort(choices.begin(), choices.end(),
                       [](const KernelChoice* a, const KernelChoice* b) { return a->seconds < b->seconds; });
    }
    for (int output : outputs) {
      if (!is_input(output)) open_.insert(output);
    }
    if (!open_.empty()) expand(0, 0);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Assembled& a, const Assembled& b) { return a.seconds < b.seconds; });
    return std::move(found_);
  }

 private:
  bool is_input(int c) const { return kernel_.at(c).kernel_tensor >= 0; }

  /// Nothing dearer is kept any more.
  double limit() const { return found_.size() < limits_.max_graphs ? 1e30 : found_.front().seconds; }

  void expand(int kernels, double seconds) {
    const auto least = static_cast<double>(open_.size()) * cheapest_launch_;
    if (kernels + static_cast<int>(open_.size()) > limits_.max_kernel_ops || seconds + least > limit()) return;
    if (open_.empty()) return finish(seconds);
    const int c = *open_.rbegin();
    open_.erase(c);
    const auto it = by_result_.find(c);
    const bool alone = kernels == 0 && open_.empty();
    std::map<std::vector<int>, int> taken;
    if (it != by_result_.end()) {
      for (const KernelChoice* choice : it->second) {
        const bool reads_values =
            std::any_of(choice->inputs.begin(), choice->inputs.end(), [&](int i) { return !is_input(i); });
        // A graph of one kernel costs what its kernel costs, so all are visited; combinations are limited.
        if ((!alone || reads_values) && ++taken[choice->inputs] > limits_.ways_per_kernel) continue;
        if (seconds + choice->seconds > limit()) break;
        chosen_[c] = choice;
        std::vector<int> opened;
        for (int input : choice->inputs) {
          if (is_input(input) || chosen_.count(input) != 0) continue;
          if (open_.insert(input).second) opened.push_back(input);
        }
        expand(kernels + 1, seconds + choice->seconds);
        for (int input : opened) open_.erase(input);
      }
    }
    chosen_.erase(c);
    open_.insert(c);
  }

  void finish(double seconds) {
    Assembled assembled{seconds, {}};
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
    found_.push_back(std::move(assembled));
    std::push_heap(found_.begin(), found_.end(), cheaper);
    if (found_.size() > limits_.max_graphs) {
      std::pop_heap(found_.begin(), found_.end(), cheaper);
      found_.pop_back();
    }
  }

  const ClassGraph& kernel_;
  const AssemblyLimits& limits_;
  double cheapest_launch_;
  std::map<int, std::vector<const KernelChoice*>> by_result_;
  std::map<int, const KernelChoice*> chosen_;
  std::set<int> open_;
  std::vector<Assembled> found_;
};

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
    if (choice->body) {
      STRATA_TRY(const std::vector<TensorId> results, builder.add(choice->body, operands, {value.name}));
      ids[choice->result] = results[0];
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

std::vector<GraphPtr> assemble(const Graph& program, const ClassGraph& kernel, const std::vector<KernelValue>& values,
                               const std::vector<int>& outputs, const std::vector<KernelChoice>& choices,
                               const AssemblyLimits& limits, const Target& target) {
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
  std::vector<GraphPtr> graphs;
  for (const Assembled& assembled : assembler.run(outputs)) {
    if (auto graph = build(program, kernel, values, outputs, assembled)) graphs.push_back(std::move(*graph));
  }
  return graphs;
}

}  // namespace strata
