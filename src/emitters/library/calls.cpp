#include "emitters/library/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "emitters/fusion/cut_entry.h"
#include "emitters/fusion/pass.h"
#include "emitters/fusion/share_long_products.h"
#include "emitters/kinds/product/product.h"
#include "emitters/kinds/window/window_tiling.h"
#include "emitters/library/call_plan.h"
#include "emitters/library/solvers.h"
#include "hlo/inline_calls.h"
#include "hlo/source_of.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

Instruction transposed(const Instruction& of, InstructionId operand, const std::vector<int64_t>& permutation,
                       const hlo::Shape& shape) {
  const bool in_place = std::is_sorted(permutation.begin(), permutation.end());
  if (in_place) return {of.name, Opcode::Copy, shape, {operand}, {}, hlo::NoAttributes{}, of.location};
  return {of.name, Opcode::Transpose, shape, {operand}, {}, hlo::DimensionsAttributes{permutation}, of.location};
}

hlo::Shape permuted(const hlo::Shape& shape, const std::vector<int64_t>& permutation) {
  std::vector<int64_t> dims;
  for (const int64_t d : permutation) dims.push_back(shape.dim(d));
  return hlo::array_shape(shape.type, dims);
}

/// The computation that a call runs.
class CalleeBuilder {
 public:
  CalleeBuilder(const Computation& from, const CallPlan& plan) : from_(from), plan_(plan) {}

  /// What its parameters are: operands of the plan by number, 2 for the bias, 3 for the scale.
  const std::vector<int>& parameters() const { return parameters_; }
  /// Which parameter each argument of the work is.
  const std::vector<int>& arguments() const { return arguments_; }

  Computation build(const std::string& name) {
    target_.name = name;
    for (size_t i = 0; i < plan_.operands.size(); ++i) {
      const CallPlan::Operand& operand = plan_.operands[i];
      if (operand.permutation.empty()) {
        arguments_.push_back(parameter_of(operand.memory, static_cast<int>(i)));
      } else {
        const hlo::Shape shape = permuted(from_[operand.memory].shape, operand.permutation);
        transposes_[i] = add_parameter("operand" + std::to_string(i), shape, static_cast<int>(i));
        arguments_.push_back(static_cast<int>(parameters_.size()) - 1);
      }
    }
    if (plan_.swapped) std::swap(arguments_[0], arguments_[1]);
    if (plan_.scale) arguments_.push_back(parameter_of(*plan_.scale, 3));
    if (plan_.bias) arguments_.push_back(parameter_of(*plan_.bias, 2));
    target_.root = clone(plan_.result);
    return std::move(target_);
  }

 private:
  InstructionId add(Instruction it) {
    target_.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(target_.instructions.size()) - 1;
  }

  InstructionId add_parameter(const std::string& name, const hlo::Shape& shape, int role) {
    const auto number = static_cast<int64_t>(parameters_.size());
    parameters_.push_back(role);
    const InstructionId id = add({name, Opcode::Parameter, shape, {}, {}, hlo::ParameterAttributes{number}, {}});
    target_.parameters.push_back(id);
    return id;
  }

  int parameter_of(InstructionId memory, int role) {
    const auto known = cloned_.find(memory);
    if (known == cloned_.end()) {
      cloned_[memory] = add_parameter(from_[memory].name, from_[memory].shape, role);
      return static_cast<int>(parameters_.size()) - 1;
    }
    return static_cast<int>(target_[known->second].as<hlo::ParameterAttributes>().number);
  }

  InstructionId clone(InstructionId id) {
    const auto known = cloned_.find(id);
    if (known != cloned_.end()) return known->second;
    Instruction copy = from_[id];
    if (id == plan_.contraction) {
      copy.attributes = plan_.attributes;
      for (size_t i = 0; i < plan_.operands.size(); ++i) {
        copy.operands[i] = transposes_.contains(i) ? transposes_[i] : clone(copy.operands[i]);
      }
    } else {
      for (InstructionId& operand : copy.operands) operand = clone(operand);
    }
    if (!plan_.result_permutation.empty() && id == plan_.result) copy.shape = plan_.result_shape;
    return cloned_[id] = add(std::move(copy));
  }

  const Computation& from_;
  const CallPlan& plan_;
  Computation target_;
  std::vector<int> parameters_, arguments_;
  std::map<size_t, InstructionId> transposes_;
  std::map<InstructionId, InstructionId> cloned_;
};

/// What an operand is computed of by operators that a product's kernel takes in, and nothing else needs.
class Prologue {
 public:
  Prologue(const Computation& from, const Users& users, InstructionId operand) : from_(from), users_(users) {
    visit(operand);
    made_.root = moved_.at(operand);
  }

  bool computes() const { return computes_; }
  /// It alone, with parameters for what it reads.
  Computation take() { return std::move(made_); }
  /// As part of another computation.
  static InstructionId copy(const Computation& from, const Users& users, InstructionId operand, Computation& to) {
    Prologue made(from, users, operand, std::move(to));
    to = std::move(made.made_);
    return made.moved_.at(operand);
  }

 private:
  Prologue(const Computation& from, const Users& users, InstructionId operand, Computation to)
      : from_(from), users_(users), made_(std::move(to)) {
    visit(operand);
  }

  bool takes_in(InstructionId id) const {
    const Instruction& it = from_[id];
    if (it.opcode == Opcode::Constant || it.opcode == Opcode::Iota) return true;
    const bool moves = it.opcode == Opcode::Broadcast || it.opcode == Opcode::Reshape ||
                       it.opcode == Opcode::Transpose || it.opcode == Opcode::Slice || it.opcode == Opcode::Copy ||
                       it.opcode == Opcode::Concatenate;
    const bool small = it.opcode == Opcode::Broadcast && from_.operand_shape(it, 0).element_count() == 1;
    return (moves || hlo::is_elementwise(it.opcode)) && it.shape.is_array() &&
           (small || users_[static_cast<size_t>(id)].size() == 1);
  }

  void visit(InstructionId id) {
    if (moved_.contains(id)) return;
    Instruction it = from_[id];
    if (takes_in(id)) {
      computes_ |= hlo::is_elementwise(it.opcode);
      for (InstructionId& operand : it.operands) {
        visit(operand);
        operand = moved_.at(operand);
      }
    } else {
      const auto number = static_cast<int64_t>(made_.parameters.size());
      it = {it.name, Opcode::Parameter, it.shape, {}, {}, hlo::ParameterAttributes{number}, it.location};
      made_.parameters.push_back(static_cast<InstructionId>(made_.instructions.size()));
    }
    moved_[id] = static_cast<InstructionId>(made_.instructions.size());
    made_.instructions.push_back(std::move(it));
  }

  const Computation& from_;
  const Users& users_;
  Computation made_;
  std::map<InstructionId, InstructionId> moved_;
  bool computes_ = false;
};

class Rewriter {
 public:
  Rewriter(const hlo::Module& module, const Target& target, LibraryUse use)
      : module_(module), from_(module.entry_computation()), users_(users_of(from_)), use_(use), target_(target) {}

  LibraryCalls run() {
    result_.module = module_;
    for (size_t i = 0; i < from_.instructions.size(); ++i) consider(static_cast<InstructionId>(i));
    if (plans_.empty() && solvers_.empty()) return std::move(result_);
    rewrite();
    result_.module = hlo::extract_module(result_.module, entry_);
    return std::move(result_);
  }

 private:
  void consider(InstructionId id) {
    const Instruction& it = from_[id];
    // What is left of factors and solves is the libraries'; a cholesky has become a call of one before.
    const auto plan_of_solver = it.opcode == Opcode::Cholesky ? std::nullopt : plan_solver(from_, it, target_);
    if (const auto& plan = plan_of_solver) {
      const double microseconds = solver_microseconds(from_, it, *plan, target_);
      result_.calls[it.name] = {plan->work,
                                {},
                                microseconds,
                                fmt::format("{:.3g} µs by the model; loops would take {:.3g}", microseconds,
                                            loops_microseconds(from_, it, target_))};
      solvers_.insert(id);
      return;
    }
    const bool transforms = it.opcode == Opcode::Fft;
    if (it.opcode != Opcode::Dot && it.opcode != Opcode::Convolution && !transforms) return;
    Result<CallPlan> plan = transforms                 ? plan_transform(from_, users_, id)
                            : it.opcode == Opcode::Dot ? plan_product(from_, users_, id)
                                                       : plan_convolution(from_, users_, id, target_);
    if (!plan) {
      result_.kept[it.name] = plan.error().message;
      return;
    }
    if (transforms) {  // there are no kernels
      LibraryCall& call = result_.calls[from_[plan->result].name];
      call.work = plan->work;
      call.microseconds = library_seconds(plan->work, target_) * 1e6;
      call.reason = fmt::format("{:.3g} µs by the model", call.microseconds);
      plans_.emplace(plan->result, std::move(*plan));
      return;
    }
    const auto results = static_cast<double>(it.shape.element_count());
    const double terms = terms_of_result(from_, it);
    const double loop =
        it.opcode == Opcode::Convolution
            ? convolution_kernel_microseconds(from_, it, target_)
            : loop_microseconds(results, terms, 2 * hlo::byte_width(from_.operand_shape(it, 0).type), target_);
    double library = library_seconds(plan->work, target_) * 1e6;
    // A transpose reads and writes its array, and is launched.
    for (const CallPlan::Operand& operand : plan->operands) {
      const hlo::Shape& shape = from_[operand.memory].shape;
      if (operand.permutation.empty()) continue;
      const double moved = 2 * static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
      library += 1e6 * (target_.kernel_seconds() + moved / target_.rates.copy_bandwidth);
    }
    if (use_ == LibraryUse::WhereFaster && stays_narrow(it, id, library)) return;
    if (library >= loop && use_ == LibraryUse::WhereFaster) {
      result_.kept[it.name] =
          fmt::format("{} takes {:.3g} µs by the model, a kernel {:.3g}", library_of(plan->work), library, loop);
      return;
    }
    LibraryCall& call = result_.calls[from_[plan->result].name];
    call.work = plan->work;
    call.microseconds = library;
    call.reason = fmt::format("{:.3g} µs by the model; a kernel would take {:.3g}", library, loop);
    plans_.emplace(plan->result, std::move(*plan));
  }

  double microseconds_of(Computation computation, const std::string& name) const {
    computation.name = name;
    return estimated_microseconds(hlo::extract_module(module_, computation), target_);
  }

  /// Whether a product of few rows is faster as a kernel that computes its operands as it reads them: the library needs
  /// them in memory.
  bool stays_narrow(const Instruction& it, InstructionId id, double library) {
    const auto shape = it.opcode == Opcode::Dot ? product_shape(from_, id) : std::nullopt;
    if (!shape) return false;
    const InstructionId weights = it.operands[static_cast<size_t>(shape->weights)];
    Prologue before(from_, users_, weights);
    if (before.computes()) library += microseconds_of(before.take(), "before");
    // The other operand is small: it is computed before.
    Computation whole;
    Instruction product = it;
    product.operands[static_cast<size_t>(shape->weights)] = Prologue::copy(from_, users_, weights, whole);
    const auto number = static_cast<int64_t>(whole.parameters.size());
    const Instruction& rows = from_[it.operands[static_cast<size_t>(1 - shape->weights)]];
    product.operands[static_cast<size_t>(1 - shape->weights)] = static_cast<InstructionId>(whole.instructions.size());
    whole.parameters.push_back(static_cast<InstructionId>(whole.instructions.size()));
    whole.instructions.push_back(
        {rows.name + ".rows", Opcode::Parameter, rows.shape, {}, {}, hlo::ParameterAttributes{number}, {}});
    whole.root = static_cast<InstructionId>(whole.instructions.size());
    whole.instructions.push_back(std::move(product));
    whole.name = "product";
    const hlo::Module alone = hlo::extract_module(module_, std::move(whole));
    double kernel = estimated_microseconds(alone, target_);
    const bool shares = share_long_products(alone, target_).entry_computation().instructions.size() !=
                        alone.entry_computation().instructions.size();
    if (shares) kernel = std::min(kernel, microseconds(cut_entry(alone, target_, Parameters::Kept).parts));
    if (kernel >= library) return false;
    result_.kept[it.name] = fmt::format("{} each weight once take{} {:.3g} µs by the model, a library {:.3g}",
                                        shares ? "kernels that share its sums and read" : "a kernel that reads",
                                        shares ? "" : "s", kernel, library);
    return true;
  }

  InstructionId add(Instruction it) {
    for (int n = 1; !names_.insert(it.name).second; ++n) it.name += "." + std::to_string(n);
    entry_.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(entry_.instructions.size()) - 1;
  }

  void rewrite() {
    entry_.name = from_.name;
    for (const Instruction& it : from_.instructions) names_.insert(it.name);
    for (size_t i = 0; i < from_.instructions.size(); ++i) {
      const auto id = static_cast<InstructionId>(i);
      const auto plan = plans_.find(id);
      if (plan != plans_.end()) {
        moved_.push_back(add_call(plan->second));
        continue;
      }
      if (solvers_.contains(id)) {
        moved_.push_back(add_solver(from_[id]));
        continue;
      }
      Instruction copy = from_[id];
      for (InstructionId& operand : copy.operands) operand = moved_[static_cast<size_t>(operand)];
      moved_.push_back(static_cast<InstructionId>(entry_.instructions.size()));
      entry_.instructions.push_back(std::move(copy));
    }
    for (const InstructionId id : from_.parameters) entry_.parameters.push_back(moved_[static_cast<size_t>(id)]);
    entry_.root = moved_[static_cast<size_t>(from_.root)];
  }

  /// Row-major.
  InstructionId laid_out(InstructionId id) {
    const hlo::Shape shape = hlo::array_shape(entry_[id].shape.type, entry_[id].shape.dims);
    if (entry_[id].shape == shape) return id;
    return add({entry_[id].name + ".laid_out", Opcode::Copy, shape, {id}, {}, hlo::NoAttributes{}, {}});
  }

  InstructionId with_exchanged_dimensions(InstructionId id) {
    const hlo::Shape& shape = entry_[id].shape;
    return add({entry_[id].name + ".transposed",
                Opcode::Transpose,
                hlo::with_transposed_matrices(shape),
                {id},
                {},
                hlo::DimensionsAttributes{hlo::transposed_matrices_order(shape.rank())},
                {}});
  }

  /// What the value is the transpose of, matrix by matrix; else nothing.
  std::optional<InstructionId> transposed_source(InstructionId id) const {
    const auto [source, leaf] = hlo::source_of(entry_, id, 0);
    const Instruction& it = entry_[source];
    if (it.opcode != Opcode::Transpose || !entry_.operand_shape(it, 0).has_default_layout()) return std::nullopt;
    std::vector<int64_t> order = it.dimensions();
    if (order.size() < 2) return std::nullopt;
    std::swap(order[order.size() - 2], order.back());
    return std::is_sorted(order.begin(), order.end()) ? std::optional(it.operands[0]) : std::nullopt;
  }

  InstructionId add_solver(const Instruction& it) {
    std::vector<InstructionId> operands;
    for (const InstructionId operand : it.operands) operands.push_back(moved_[static_cast<size_t>(operand)]);
    SolverPlan plan = *plan_solver(from_, it, target_);
    if (const auto source = transposed_source(operands[0]); source && it.opcode == Opcode::TriangularSolve) {
      if (const auto other = plan_solver(from_, it, target_, /*transposed=*/true)) {
        plan = *other;
        operands[0] = *source;
      }
    } else if (plan.transposed) {
      operands[0] = source ? *source : with_exchanged_dimensions(laid_out(operands[0]));
    }
    if (plan.sides_transposed) {
      const auto sides = transposed_source(operands[1]);
      operands[1] = sides ? *sides : with_exchanged_dimensions(laid_out(operands[1]));
    }
    LibraryCall& call = result_.calls.at(it.name);
    call.work = plan.work;
    for (size_t i = 0; i < operands.size(); ++i) {
      operands[i] = laid_out(operands[i]);
      call.arguments.push_back(static_cast<int>(i));
    }
    const Computation callee = solver_callee(from_, it, plan);
    const hlo::Shape shape = callee.root_instruction().shape;
    result_.module.computations.push_back(callee);
    const auto called = static_cast<hlo::ComputationId>(result_.module.computations.size()) - 1;
    const auto id = static_cast<InstructionId>(entry_.instructions.size());
    entry_.instructions.push_back({it.name, Opcode::Call, shape, operands, {called}, hlo::NoAttributes{}, it.location});
    const auto as_before = [&](InstructionId value, bool transposed, const hlo::Shape& before) {
      if (transposed) value = with_exchanged_dimensions(value);
      if (entry_[value].shape == before) return value;
      return add({it.name + ".as_before", Opcode::Copy, before, {value}, {}, hlo::NoAttributes{}, {}});
    };
    if (!shape.is_tuple()) return as_before(id, plan.written[0].transposed, it.shape);
    constexpr InstructionId kUnwritten = -1;
    std::vector<InstructionId> elements(it.shape.elements.size(), kUnwritten);
    for (size_t i = 0; i < plan.written.size(); ++i) {
      const auto [element, transposed] = plan.written[i];
      const InstructionId value = add({it.name + ".element",
                                       Opcode::GetTupleElement,
                                       shape.elements[i],
                                       {id},
                                       {},
                                       hlo::TupleIndexAttributes{static_cast<int64_t>(i)},
                                       {}});
      elements[element] = as_before(value, transposed, it.shape.elements[element]);
    }
    for (size_t i = 0; i < elements.size(); ++i) {
      if (elements[i] == kUnwritten) elements[i] = zeros(it.name, it.shape.elements[i]);
    }
    return add({it.name + ".results", Opcode::Tuple, it.shape, elements, {}, hlo::NoAttributes{}, {}});
  }

  /// Of a result that the library does not write.
  InstructionId zeros(const std::string& name, const hlo::Shape& shape) {
    const hlo::Shape scalar = hlo::array_shape(shape.type, {});
    const InstructionId zero = add(
        {name + ".zero", Opcode::Constant, scalar, {}, {}, hlo::ConstantAttributes{hlo::Literal(scalar), false}, {}});
    if (shape.rank() == 0) return zero;
    return add({name + ".zeros", Opcode::Broadcast, shape, {zero}, {}, hlo::DimensionsAttributes{{}}, {}});
  }

  InstructionId add_call(const CallPlan& plan) {
    const Instruction& result = from_[plan.result];
    CalleeBuilder builder(from_, plan);
    const Computation callee = builder.build("library_" + result.name);
    LibraryCall& call = result_.calls.at(result.name);
    call.arguments = builder.arguments();
    std::vector<InstructionId> operands;
    for (const int role : builder.parameters()) {
      if (role >= 2) {
        operands.push_back(moved_[static_cast<size_t>(role == 2 ? *plan.bias : *plan.scale)]);
        continue;
      }
      const CallPlan::Operand& operand = plan.operands[static_cast<size_t>(role)];
      const InstructionId memory = moved_[static_cast<size_t>(operand.memory)];
      if (operand.permutation.empty()) {
        operands.push_back(memory);
        continue;
      }
      Instruction transpose = transposed(from_[operand.memory], memory, operand.permutation,
                                         permuted(from_[operand.memory].shape, operand.permutation));
      transpose.name += ".transposed";
      operands.push_back(add(std::move(transpose)));
    }
    result_.module.computations.push_back(callee);
    const auto called = static_cast<hlo::ComputationId>(result_.module.computations.size()) - 1;
    const bool whole = plan.result_permutation.empty();
    Instruction made{result.name,         Opcode::Call,   whole ? result.shape : plan.result_shape, operands, {called},
                     hlo::NoAttributes{}, result.location};
    const auto id = static_cast<InstructionId>(entry_.instructions.size());
    if (whole) {
      entry_.instructions.push_back(std::move(made));
      return id;
    }
    Instruction transpose = transposed(result, id, plan.result_permutation, result.shape);
    transpose.name += ".transposed";
    entry_.instructions.push_back(std::move(made));
    return add(std::move(transpose));
  }

  const hlo::Module& module_;
  const Computation& from_;
  const Users users_;
  const LibraryUse use_;
  const Target& target_;
  LibraryCalls result_;
  std::map<InstructionId, CallPlan> plans_;  ///< by what each computes
  std::set<InstructionId> solvers_;          ///< factors and solves
  Computation entry_;
  std::vector<InstructionId> moved_;
  std::set<std::string> names_;
};

}  // namespace

double loop_microseconds(double results, double terms, int64_t bytes_of_term, const Target& target) {
  // As in fusion/cost.cpp; and a thread goes through its terms one after the other.
  const Rates& rates = target.rates;
  const double all = results * terms;
  const double loads = all * static_cast<double>(bytes_of_term) / rates.cached_loads;
  return 1e6 *
         (target.kernel_seconds() + std::max(loads, 4 * all / (rates.scalar_rate / 2)) + rates.unrolled_term * terms);
}

double terms_of_result(const Computation& computation, const Instruction& it) {
  if (it.opcode == Opcode::Dot) {
    double terms = 1;
    for (const int64_t d : it.as<hlo::DotAttributes>().lhs_contracting)
      terms *= static_cast<double>(computation.operand_shape(it, 0).dim(d));
    return terms;
  }
  const auto& a = it.as<hlo::ConvolutionAttributes>();
  auto terms = static_cast<double>(computation.operand_shape(it, 1).dim(a.kernel_input_feature));
  for (const hlo::WindowDimension& each : a.window) terms *= static_cast<double>(each.size);
  return terms;
}

double convolution_kernel_microseconds(const Computation& computation, const Instruction& it, const Target& target) {
  const auto results = static_cast<double>(it.shape.element_count());
  const double terms = terms_of_result(computation, it);
  const double loop =
      loop_microseconds(results, terms, 2 * hlo::byte_width(computation.operand_shape(it, 0).type), target);
  const Result<WindowTiling> tiling = choose_window_tiling(computation, it, target);
  return tiling ? std::min(loop, tiling->microseconds) : loop;
}

LibraryCalls find_library_calls(const hlo::Module& module, const Target& target, LibraryUse use) {
  return Rewriter(module, target, use).run();
}

}  // namespace strata::emitters
