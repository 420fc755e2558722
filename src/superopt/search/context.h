// What all parts of one search share: the program and its model, the values at kernel level, counters.
#pragma once

#include <set>

#include "superopt/search/assemble.h"

namespace strata {

struct SearchContext {
  SearchContext(GraphPtr graph, const SearchOptions& search_options)
      : program(std::move(graph)), options(search_options) {}

  /// Makes the model, the pruning rules and the kernel-level values: the program's tensors, then whatever predefined
  /// operators make. Error (Unsupported) where the program cannot be modelled, (Interrupted) where a stop comes before.
  Result<void> build();

  ClassGraphOptions class_options(int max_ops);
  DType dtype() const { return program->type(program->outputs()[0]).dtype; }
  const KernelValue& value(int c) const { return values[static_cast<size_t>(c)]; }
  bool is_output(int c) const { return std::find(outputs.begin(), outputs.end(), c) != outputs.end(); }
  /// False where the program has an output that the search cannot express.
  bool reachable() const { return kernel && std::find(outputs.begin(), outputs.end(), -1) == outputs.end(); }

  GraphPtr program;
  const SearchOptions& options;
  NormalForms forms;
  std::optional<SubexpressionOracle> oracle;
  std::optional<Model> model;
  std::optional<AxisFilter> axis_filter;
  SharedCounters counters;
  std::stop_source stop;
  std::vector<std::pair<OpKind, Attributes>> program_attributes;
  std::vector<Rational> norms;  ///< factors of the program's norms; see kNorm
  bool with_max = false;
  std::set<ExprId> stable_exponents;  ///< of the program: those that subtract a maximum

  std::optional<ClassGraph> kernel;  ///< kernel-level classes
  std::vector<KernelValue> values;   ///< of each of them
  std::set<int> program_values;      ///< classes of the program's own intermediate tensors
  std::vector<ProgramStep> steps;
  std::vector<int> inputs, outputs;  ///< classes

  std::atomic<int> spaces_overflowed{0};
  std::atomic<int> derivations_cut{0};

 private:
  void collect_stable_exponents();
  void collect_norms();
  void collect_program_attributes();
  void build_kernel_classes();
  int64_t largest_value() const;
};

}  // namespace strata
