#include "emitters/library/solvers.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "hlo/counted_loop.h"
#include "hlo/expand_solver_calls.h"
#include "hlo/text.h"
#include "hlo/unroll_loops.h"
#include "runtime/cusolver.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Transpose = hlo::TriangularSolveAttributes::Transpose;

std::optional<MatrixElement> element_of(hlo::ElementType type) {
  switch (type) {
    case hlo::ElementType::F32:
      return MatrixElement{false, false};
    case hlo::ElementType::F64:
      return MatrixElement{true, false};
    case hlo::ElementType::C64:
      return MatrixElement{false, true};
    case hlo::ElementType::C128:
      return MatrixElement{true, true};
    default:
      return std::nullopt;
  }
}

/// One call for all matrices of a batch where that is priced less.
template <class Work>
void choose_together(Work& work, const Target& target) {
  Work all = work;
  all.together = true;
  if (library_seconds(all, target) < library_seconds(work, target)) work = all;
}

std::optional<SolverPlan> plan_factor(const hlo::Shape& matrix, const hlo::SolverFactor& factor, const Target& target,
                                      int64_t reflectors = 0) {
  const auto element = element_of(matrix.type);
  if (!element) return std::nullopt;
  using Kind = hlo::SolverFactor::Kind;
  MatrixFactor work;
  work.kind = factor.kind == Kind::Cholesky ? FactorKind::Cholesky
              : factor.kind == Kind::Lu     ? FactorKind::Lu
              : factor.kind == Kind::Qr     ? FactorKind::Qr
                                            : FactorKind::Orthogonal;
  work.element = *element;
  work.rows = matrix.dims[matrix.dims.size() - 2];
  work.columns = matrix.dims.back();
  work.batch = matrix.element_count() / (work.rows * work.columns);
  work.reflectors = reflectors;
  if (!is_supported(work)) return std::nullopt;
  // Lower factors are computed in less than half the time of upper ones.
  work.upper = work.kind != FactorKind::Cholesky && factor.lower;
  const bool has_batches = work.kind == FactorKind::Qr || (work.rows == work.columns && reflectors == 0);
  if (work.batch > 1 && has_batches) choose_together(work, target);
  SolverPlan plan{work, work.kind != FactorKind::Cholesky || factor.lower};
  for (size_t i = 0; i < work.results(); ++i) plan.written.push_back({i, i == 0 && plan.transposed});
  return plan;
}

/// Whether anything reads this result of the call.
bool is_read(const Computation& computation, const Instruction& call, size_t element) {
  const auto named = [&](const Instruction& it) { return it.name == call.name; };
  const auto id = static_cast<InstructionId>(std::ranges::find_if(computation.instructions, named) -
                                             computation.instructions.begin());
  if (id == computation.root) return true;
  return std::ranges::any_of(computation.instructions, [&](const Instruction& it) {
    if (std::ranges::count(it.operands, id) == 0) return false;
    return it.opcode != Opcode::GetTupleElement ||
           it.as<hlo::TupleIndexAttributes>().index == static_cast<int64_t>(element);
  });
}

std::optional<SolverPlan> plan_spectrum(const Computation& computation, const Instruction& call,
                                        const hlo::SolverFactor& factor) {
  const hlo::Shape& matrix = computation.operand_shape(call, 0);
  const auto element = element_of(matrix.type);
  if (!element) return std::nullopt;
  MatrixSpectrum work;
  work.element = *element;
  work.rows = matrix.dims[matrix.dims.size() - 2];
  work.columns = matrix.dims.back();
  work.batch = matrix.element_count() / (work.rows * work.columns);
  SolverPlan plan{work};
  if (factor.kind == hlo::SolverFactor::Kind::Eigen) {
    work.upper = !factor.lower;
    if (is_read(computation, call, 0)) work.vectors = SpectrumVectors::Full;
    plan.transposed = true;
    plan.written = {{0, true}, {1, false}, {2, false}};
  } else {
    const hlo::SingularForm& form = factor.singular;
    const bool read = is_read(computation, call, form.left) || is_read(computation, call, form.right);
    work.kind = SpectrumKind::Singular;
    if (read && form.vectors != hlo::SingularVectors::None)
      work.vectors = form.vectors == hlo::SingularVectors::Full ? SpectrumVectors::Full : SpectrumVectors::Thin;
    // As it lies a matrix is its transpose, whose left vectors are the matrix's right ones. That of the two which has
    // more rows is taken.
    plan.transposed = work.rows >= work.columns;
    plan.written = {{0, plan.transposed}, {1, false}};
    if (work.has_factors()) {
      // Vectors are columns, and lie as rows: as those of vᵀ.
      plan.written.insert(plan.written.end(), {{form.left, true}, {form.right, form.right_transposed}});
      if (!plan.transposed) std::swap(plan.written[2], plan.written[3]);
    }
    plan.written.push_back({4, false});
    if (!plan.transposed) std::swap(work.rows, work.columns);
  }
  if (!is_supported(work)) return std::nullopt;
  plan.work = work;
  return plan;
}

/// A kernel that writes the array in another order.
double transpose_seconds(const hlo::Shape& shape, const Target& target) {
  const double bytes = 2 * static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  return target.kernel_seconds() + bytes / target.rates.copy_bandwidth;
}

std::optional<SolverPlan> plan_solve(const hlo::TriangularSolveAttributes& how, const hlo::Shape& matrix,
                                     const hlo::Shape& sides, const Target& target, bool transposed) {
  const auto element = element_of(matrix.type);
  if (!element || sides.type != matrix.type || sides.element_count() == 0) return std::nullopt;
  const bool real = !element->complex;
  Transpose operation = how.transpose_a == Transpose::Adjoint && real ? Transpose::Transpose : how.transpose_a;
  if (transposed && operation == Transpose::Adjoint) return std::nullopt;
  if (transposed) operation = operation == Transpose::NoTranspose ? Transpose::Transpose : Transpose::NoTranspose;
  MatrixSolve work;
  work.element = *element;
  work.order = matrix.dims.back();
  work.batch = matrix.element_count() / (work.order * work.order);
  work.sides = sides.element_count() / work.batch / work.order;
  work.right = how.left_side;
  work.upper = how.lower != transposed;
  work.unit = how.unit_diagonal;
  work.operation = static_cast<MatrixSolve::Operation>(operation);
  if (!is_supported(work)) return std::nullopt;
  if (work.batch > 1) choose_together(work, target);
  // From the left, of transposed sides: then the matrix is the other way round.
  const SolverPlan as_asked{work, transposed, false, {{0, false}}};
  if (work.together || !work.right || operation == Transpose::Adjoint) return as_asked;
  MatrixSolve left = work;
  left.right = false;
  left.operation =
      operation == Transpose::NoTranspose ? MatrixSolve::Operation::Transpose : MatrixSolve::Operation::None;
  const bool pays =
      library_seconds(left, target) + 2 * transpose_seconds(sides, target) < library_seconds(work, target);
  return pays ? SolverPlan{left, transposed, true, {{0, true}}} : as_asked;
}

hlo::Shape row_major(const hlo::Shape& shape) { return hlo::array_shape(shape.type, shape.dims); }

/// Of a computation and what it calls, once: an iteration of a loop is a kernel, and one more for each product and
/// reduction.
class LoopPrice {
 public:
  /// Rotations' sweeps, which go on until all is done: 5 to 12.
  static constexpr double kSweeps = 8;

  LoopPrice(const hlo::Module& module, const Target& target) : module_(module), target_(target) {}

  double seconds(const Computation& computation) const {
    double sum = 0, elements = 0, bytes = 0;
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      const Instruction& it = computation.instructions[i];
      if (it.opcode == Opcode::While) {
        const auto counted = hlo::counted_loop(module_, computation, static_cast<InstructionId>(i));
        sum += (counted ? static_cast<double>(counted->count) : kSweeps) * seconds(module_[it.called[1]]);
      } else if (it.opcode == Opcode::Call) {
        sum += seconds(module_[it.called[0]]);
      } else if (it.opcode == Opcode::Dot) {
        sum += product_seconds(computation, it);
      } else if (it.opcode == Opcode::Reduce) {
        sum += target_.kernel_seconds();
      } else if (it.shape.is_array() && it.opcode != Opcode::Parameter) {
        const auto count = static_cast<double>(it.shape.element_count());
        elements += count;
        bytes = std::max(bytes, count * hlo::byte_width(it.shape.type));
      }
    }
    if (elements == 0) return sum;
    // What is read and written lies in the L2 cache.
    return sum + target_.kernel_seconds() + elements / target_.rates.thread_elements +
           2 * bytes / target_.rates.l2_bandwidth;
  }

 private:
  double product_seconds(const Computation& computation, const Instruction& it) const {
    double terms = 1;
    const hlo::Shape& left = computation.operand_shape(it, 0);
    for (const int64_t d : it.as<hlo::DotAttributes>().lhs_contracting) terms *= static_cast<double>(left.dim(d));
    const auto results = static_cast<double>(it.shape.element_count());
    const double operations = 2 * results * terms * (hlo::is_complex(it.shape.type) ? 4 : 1);
    return target_.rates.launch + target_.rates.library_start + operations / (target_.rates.scalar_rate / 2);
  }

  const hlo::Module& module_;
  const Target& target_;
};

}  // namespace

std::optional<SolverPlan> plan_solver(const Computation& computation, const Instruction& it, const Target& target,
                                      bool transposed) {
  if (it.operands.empty()) return std::nullopt;
  const hlo::Shape& matrix = computation.operand_shape(it, 0);
  if (!matrix.is_array() || matrix.element_count() == 0) return std::nullopt;
  if (it.opcode == Opcode::Cholesky)
    return plan_factor(matrix, {hlo::SolverFactor::Kind::Cholesky, it.as<hlo::CholeskyAttributes>().lower}, target);
  if (it.opcode == Opcode::TriangularSolve)
    return plan_solve(it.as<hlo::TriangularSolveAttributes>(), matrix, computation.operand_shape(it, 1), target,
                      transposed);
  if (it.opcode != Opcode::CustomCall) return std::nullopt;
  const auto factor = hlo::solver_factor(computation, it);
  if (!factor) return std::nullopt;
  using Kind = hlo::SolverFactor::Kind;
  if (factor->kind == Kind::Eigen || factor->kind == Kind::Singular) return plan_spectrum(computation, it, *factor);
  const bool orthogonal = factor->kind == Kind::Orthogonal;
  return plan_factor(matrix, *factor, target, orthogonal ? computation.operand_shape(it, 1).dims.back() : 0);
}

Computation solver_callee(const Computation& computation, const Instruction& it, const SolverPlan& plan) {
  Computation made;
  made.name = "library_" + it.name;
  const auto add = [&](std::string name, Opcode opcode, hlo::Shape shape, std::vector<InstructionId> operands,
                       hlo::Attributes attributes) {
    made.instructions.push_back(
        {std::move(name), opcode, std::move(shape), std::move(operands), {}, std::move(attributes), it.location});
    return static_cast<InstructionId>(made.instructions.size()) - 1;
  };
  std::vector<InstructionId> operands;
  for (size_t i = 0; i < it.operands.size(); ++i) {
    const hlo::Shape shape = row_major(computation.operand_shape(it, i));
    const bool transposed = (plan.transposed && i == 0) || (plan.sides_transposed && i == 1);
    const InstructionId parameter =
        add(fmt::format("operand{}", i), Opcode::Parameter, transposed ? hlo::with_transposed_matrices(shape) : shape,
            {}, hlo::ParameterAttributes{static_cast<int64_t>(i)});
    made.parameters.push_back(parameter);
    operands.push_back(transposed ? add("matrices", Opcode::Transpose, shape, {parameter},
                                        hlo::DimensionsAttributes{hlo::transposed_matrices_order(shape.rank())})
                                  : parameter);
  }
  const auto row_major_call = [&](const hlo::Shape& shape) {
    return add(it.name, it.opcode, shape, operands, it.attributes);
  };
  const auto as_written = [&](InstructionId value, bool transposed) {
    const hlo::Shape shape = made[value].shape;
    return transposed ? add("written", Opcode::Transpose, hlo::with_transposed_matrices(shape), {value},
                            hlo::DimensionsAttributes{hlo::transposed_matrices_order(shape.rank())})
                      : value;
  };
  if (!it.shape.is_tuple()) {
    made.root = as_written(row_major_call(row_major(it.shape)), plan.written[0].transposed);
    return made;
  }
  std::vector<hlo::Shape> shapes;
  for (const hlo::Shape& shape : it.shape.elements) shapes.push_back(row_major(shape));
  const InstructionId call = row_major_call(hlo::tuple_shape(shapes));
  std::vector<InstructionId> results;
  for (const auto& [element, transposed] : plan.written) {
    const InstructionId value = add(fmt::format("element{}", element), Opcode::GetTupleElement, shapes[element], {call},
                                    hlo::TupleIndexAttributes{static_cast<int64_t>(element)});
    results.push_back(as_written(value, transposed));
  }
  std::vector<hlo::Shape> written;
  for (const InstructionId result : results) written.push_back(made[result].shape);
  made.root = add("results", Opcode::Tuple, hlo::tuple_shape(written), results, hlo::NoAttributes{});
  return made;
}

double loops_microseconds(const Computation& computation, const Instruction& it, const Target& target) {
  const bool call = it.opcode == Opcode::CustomCall;
  // A call for a Cholesky factor becomes a cholesky first, which costs the same.
  Instruction factor = it;
  const auto asked = call ? hlo::solver_factor(computation, it) : std::nullopt;
  if (asked && asked->kind == hlo::SolverFactor::Kind::Cholesky) {
    factor.opcode = Opcode::Cholesky;
    factor.attributes = hlo::CholeskyAttributes{asked->lower};
    factor.shape = it.shape.elements[0];
  }
  const auto module =
      hlo::parse_module(factor.opcode == Opcode::CustomCall ? hlo::solver_call_loops(computation, factor)
                                                            : hlo::linear_algebra_loops(computation, factor));
  if (!module) return 0;
  std::optional<hlo::Module> unrolled;
  if (hlo::has_short_loops(**module)) {
    if (auto made = hlo::unroll_loops(**module)) unrolled = *std::move(made);
  }
  const hlo::Module& priced = unrolled ? *unrolled : **module;
  return 1e6 * LoopPrice(priced, target).seconds(priced.entry_computation());
}

double solver_microseconds(const Computation& computation, const Instruction& it, const SolverPlan& plan,
                           const Target& target) {
  double seconds = library_seconds(plan.work, target);
  const hlo::Shape& matrix = computation.operand_shape(it, 0);
  const double kernel = transpose_seconds(matrix, target);
  if (plan.sides_transposed) seconds += 2 * transpose_seconds(computation.operand_shape(it, 1), target);
  // The operand is copied or transposed to where the result is to be. LU's factors have to be transposed, too, where
  // something other than a solve reads them; of a cholesky it is seen whether there is a factor.
  const bool solves = std::holds_alternative<MatrixSolve>(plan.work);
  const bool spectrum = std::holds_alternative<MatrixSpectrum>(plan.work);
  const auto transposed = std::ranges::count_if(plan.written, [](const auto& written) { return written.transposed; });
  const auto after = static_cast<double>(solves ? 0 : spectrum ? transposed : 1);
  return 1e6 * (seconds + (1 + after) * kernel);
}

hlo::IsOfLibrary solver_choice(Solvers solvers, LibraryUse use, const Target& target) {
  if (use == LibraryUse::Never || solvers == Solvers::None) return {};
  // Opened where something is worth it: they are large.
  struct Opened {
    std::optional<Cusolver> solver;
    bool both = false;
  };
  const auto found = std::make_shared<std::optional<Opened>>();
  return [=](const Computation& computation, const Instruction& it) {
    const auto plan = plan_solver(computation, it, target);
    if (!plan) return false;
    if (use == LibraryUse::WhereFaster &&
        solver_microseconds(computation, it, *plan, target) >= loops_microseconds(computation, it, target))
      return false;
    if (solvers == Solvers::Assumed) return true;
    if (!*found) {
      Opened& opened = found->emplace();
      if (const auto solver = open_cusolver()) opened.solver = *solver;
      opened.both = opened.solver && open_cublas().has_value();
    }
    const auto* spectrum = std::get_if<MatrixSpectrum>(&plan->work);
    return (*found)->both && (spectrum == nullptr || is_there(*(*found)->solver, *spectrum));
  };
}

}  // namespace strata::emitters
