#include "superopt/search/context.h"

#include <algorithm>
#include <map>

namespace strata {

Result<void> SearchContext::build() {
  STRATA_TRY(Model made, Model::build(program, forms, options.seed, stop.get_token(), options.rules.maps));
  model.emplace(std::move(made));
  for (TensorId id : program->outputs()) {
    if (program->tensor(id).producer < 0) return invalid("output '{}' is an input", program->tensor(id).name);
  }
  std::vector<ExprId> targets;
  for (TensorId id : program->outputs()) targets.push_back(model->tensor(id).expression);
  oracle.emplace(forms, targets);
  if (options.rules.axes && options.rules.expression && model->extents_by_axis()) {
    axis_filter.emplace(*model, forms, *oracle, options.rules.products);
  }
  if (options.rules.stability) collect_stable_exponents();
  collect_norms();
  collect_program_attributes();
  build_kernel_classes();
  if (!reachable() && axis_filter && !stop.stop_requested()) {
    // Index sets are an argument about how programs are usually written; one that they refuse is searched without them.
    axis_filter.reset();
    kernel.reset();
    values.clear();
    program_values.clear();
    steps.clear();
    inputs.clear();
    outputs.clear();
    build_kernel_classes();
  }
  return {};
}

void SearchContext::collect_stable_exponents() {
  for (const Operation& op : model->graph().operations()) {
    if (op.kind != OpKind::Exp) continue;
    const ExprId exponent = model->tensor(op.operands[0]).expression;
    if (exponent == NormalForms::kOversized) continue;
    for (const Term& term : forms.terms(exponent)) {
      for (const Factor& factor : forms.monomial(term.monomial).atoms) {
        if (forms.atom(factor.atom).name == kRowMax) stable_exponents.insert(exponent);
      }
    }
  }
}

void SearchContext::collect_norms() {
  const auto producer = [&](TensorId id) -> const Operation* {
    const int at = program->tensor(id).producer;
    return at < 0 ? nullptr : &program->operations()[static_cast<size_t>(at)];
  };
  for (const Operation& op : program->operations()) {
    if (op.kind != OpKind::Sqrt) continue;
    const Operation* of = producer(op.operands[0]);
    Rational factor{1, 1};
    if (of != nullptr && of->kind == OpKind::Scale) {
      factor = of->attributes.rational("factor");
      of = producer(of->operands[0]);
    }
    const bool norm = of != nullptr && of->kind == OpKind::Sum;
    if (norm && std::find(norms.begin(), norms.end(), factor) == norms.end()) norms.push_back(factor);
  }
}

void SearchContext::collect_program_attributes() {
  std::set<std::string> seen;
  for (const Operation& op : model->graph().operations()) {
    with_max |= op.kind == OpKind::Max || op.kind == OpKind::ReduceMax;
    const bool implied = is_reduction(op.kind) && !op.attributes.has("every");
    if (op.attributes.entries().empty() || implied || op_def(op.kind).traits.arity != 1) continue;
    std::string text(op.name());
    for (const auto& [name, value] : op.attributes.entries()) text += name + to_string(value);
    if (seen.insert(text).second) program_attributes.emplace_back(op.kind, op.attributes);
  }
}

ClassGraphOptions SearchContext::class_options(int max_ops) {
  ClassGraphOptions of_classes;
  of_classes.max_ops = max_ops;
  of_classes.prune_expression = options.rules.expression;
  of_classes.all_residues = !options.rules.expression;
  of_classes.axis_filter = axis_filter ? &*axis_filter : nullptr;
  of_classes.program_attributes = program_attributes;
  of_classes.max_elements = largest_value();
  of_classes.norms = norms;
  for (const Operation& op : program->operations()) {
    of_classes.program_kinds.insert(op.kind);
    if (op_def(op.kind).traits.arity != 3 || !op_def(op.kind).traits.elementwise) continue;
    auto& [kind, expressions] = of_classes.ternary.emplace_back(op.kind, std::vector<ExprId>{});
    for (TensorId id : op.operands) expressions.push_back(model->tensor(id).expression);
  }
  of_classes.with_max = with_max;
  of_classes.stable_exponents = stable_exponents.empty() ? nullptr : &stable_exponents;
  of_classes.stop = stop.get_token();
  return of_classes;
}

/// Values many times larger than all of the program's are outer products and repetitions of repetitions: no fast
/// kernel makes them, and they would fill the memory.
int64_t SearchContext::largest_value() const {
  int64_t largest = 4096;
  for (size_t i = 0; i < program->tensors().size(); ++i) {
    largest = std::max(largest, element_count(model->tensor(static_cast<TensorId>(i)).shape));
  }
  return 8 * largest;
}

void SearchContext::build_kernel_classes() {
  // Values, not graphs: a value that takes many predefined operators may be one block graph.
  ClassGraphOptions of_classes = class_options(std::numeric_limits<int>::max());
  of_classes.prune_expression = true;
  of_classes.scope = of_classes.extents = {Level::Kernel, {}, 1};
  kernel.emplace(model->arithmetic(), forms, *oracle, counters, std::move(of_classes));
  std::map<int, std::string> names;
  std::vector<int> class_of(program->tensors().size(), -1);
  for (size_t i = 0; i < program->inputs().size(); ++i) {
    const TensorId id = program->inputs()[i];
    const ModelTensor& tensor = model->tensor(id);
    ValueClass value;
    value.shape = tensor.shape;
    value.extents = tensor.extents;
    value.axes = tensor.axes;
    value.expression = tensor.expression;
    value.kernel_tensor = static_cast<int>(i);
    value.values = {tensor.value};
    class_of[static_cast<size_t>(id)] = kernel->add_input(std::move(value));
    inputs.push_back(class_of[static_cast<size_t>(id)]);
  }
  for (const Operation& op : model->graph().operations()) {
    std::vector<int> operands;
    for (TensorId id : op.operands) operands.push_back(class_of[static_cast<size_t>(id)]);
    const bool known = std::find(operands.begin(), operands.end(), -1) == operands.end();
    const TensorId result = op.results[0];
    // A value that no output depends on is pruned: nothing can use it.
    const int c = known ? kernel->apply(op.kind, op.attributes, operands) : -1;
    class_of[static_cast<size_t>(result)] = c;
    if (c < 0) continue;
    kernel->set_axes(c, model->tensor(result).axes);
    steps.push_back({op.kind, op.attributes, operands, c});
    names.emplace(c, program->tensor(result).name);
    if (kernel->at(c).kernel_tensor < 0) program_values.insert(c);
  }
  for (TensorId id : program->outputs()) outputs.push_back(class_of[static_cast<size_t>(id)]);
  kernel->limit_ops(options.max_kernel_ops);
  kernel->saturate();
  const auto free_name = [&](size_t c) {
    std::string name = fmt::format("K{}", c);
    while (program->find_tensor(name)) name += "_";
    return name;
  };
  for (size_t c = 0; c < kernel->classes().size(); ++c) {
    const ValueClass& value = kernel->classes()[c];
    KernelValue info;
    const auto named = names.find(static_cast<int>(c));
    info.name = value.kernel_tensor >= 0
                    ? program->tensor(program->inputs()[static_cast<size_t>(value.kernel_tensor)]).name
                : named != names.end() ? named->second
                                       : free_name(c);
    if (value.kernel_tensor >= 0) {
      info.type = program->type(program->inputs()[static_cast<size_t>(value.kernel_tensor)]);
    } else if (auto shape = model->real_shape(value.axes)) {
      info.type = TensorType{dtype(), *shape};
    }
    values.push_back(std::move(info));
  }
}

}  // namespace strata
