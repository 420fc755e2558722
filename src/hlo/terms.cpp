#include "hlo/terms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hlo/associative_scans.h"
#include "hlo/expand_ragged_dots.h"
#include "hlo/expand_solver_calls.h"

namespace strata::hlo {
namespace {

int64_t covered(const std::vector<WindowDimension>& window) {
  int64_t elements = 1;
  for (const WindowDimension& dimension : window) elements *= elements_beside_holes(dimension);
  return elements;
}

}  // namespace

int64_t elements_beside_holes(const WindowDimension& window) {
  const int64_t step = window.lhs_dilate / std::gcd(window.lhs_dilate, window.rhs_dilate);
  return (window.size + step - 1) / step;
}

int64_t terms_of(const Computation& computation, const Instruction& it) {
  const auto operand = [&](size_t n) -> const Shape& { return computation[it.operands[n]].shape; };
  int64_t terms = 1;
  switch (it.opcode) {
    case Opcode::Reduce:
      for (int64_t d : it.dimensions()) terms *= operand(0).dims[static_cast<size_t>(d)];
      return terms;
    case Opcode::Dot:
      for (int64_t d : it.as<DotAttributes>().lhs_contracting) terms *= operand(0).dims[static_cast<size_t>(d)];
      return terms;
    case Opcode::RaggedDot:
      return ragged_terms(computation, it);
    case Opcode::Scan:
      return operand(0).dims[static_cast<size_t>(it.as<ScanAttributes>().dimension)];
    case Opcode::ReduceWindow:
    case Opcode::SelectAndScatter:
      return covered(it.as<WindowAttributes>().window);
    case Opcode::Convolution: {
      const auto& attributes = it.as<ConvolutionAttributes>();
      return covered(attributes.window) * operand(1).dims[static_cast<size_t>(attributes.kernel_input_feature)];
    }
    case Opcode::Fft:
      for (int64_t length : it.as<FftAttributes>().lengths) terms *= std::max<int64_t>(length, 1);
      return terms;
    case Opcode::Cholesky:
    case Opcode::TriangularSolve:
      return operand(0).dims.back();
    case Opcode::CustomCall:
      return is_solver_call(computation, it) ? operand(0).dims.back() : 1;
    default:
      return 1;
  }
}

int64_t most_terms(const Module& module) {
  int64_t most = 1;
  for (const Computation& computation : module.computations) {
    for (const Instruction& it : computation.instructions) most = std::max(most, terms_of(computation, it));
  }
  return std::max(most, longest_scan_recursion(module));
}

std::vector<bool> transformed_results(const Module& module) {
  // Computations that are called stand before those that call them, and operands before their users.
  std::vector<bool> has(module.computations.size());
  std::vector<bool> reached;
  for (size_t c = 0; c < module.computations.size(); ++c) {
    const Computation& computation = module.computations[c];
    std::vector<bool> here(computation.instructions.size());
    for (size_t i = 0; i < here.size(); ++i) {
      const Instruction& it = computation.instructions[i];
      here[i] =
          family(it.opcode) == Family::LinearAlgebra || is_solver_call(computation, it) ||
          std::any_of(it.operands.begin(), it.operands.end(), [&](auto id) { return here[static_cast<size_t>(id)]; }) ||
          std::any_of(it.called.begin(), it.called.end(), [&](auto id) { return has[static_cast<size_t>(id)]; });
      has[c] = has[c] || here[i];
    }
    if (static_cast<ComputationId>(c) == module.entry) reached = std::move(here);
  }
  const Computation& entry = module.entry_computation();
  const Instruction& root = entry.root_instruction();
  if (root.opcode != Opcode::Tuple) return {reached[static_cast<size_t>(entry.root)]};
  std::vector<bool> results;
  for (const InstructionId id : root.operands) results.push_back(reached[static_cast<size_t>(id)]);
  return results;
}

double slack_of_terms(int64_t terms) { return std::max(1.0, std::sqrt(static_cast<double>(terms) / 64)); }

// Five standard deviations of n roundings of the partial sums of standard normal numbers, in tolerances of the type.
double slack_of_narrow_sums(int64_t terms) { return std::max(1.0, static_cast<double>(terms) / 4); }

}  // namespace strata::hlo
