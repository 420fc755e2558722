#include "superopt/verify/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "superopt/verify/decided.h"

namespace strata {
namespace {

/// A number below 2^h has at most h/59 prime factors among those that are drawn, all above 2^59.
constexpr double kLeastPrimeBits = 59;

using Degree = DegreeArithmetic::Value;

/// The sum of n values of one degree: their n denominators are multiplied.
Degree sum_of(Degree v, double n) {
  v.num += (n - 1) * v.den;
  v.exp_num += (n - 1) * v.exp_den;
  v.terms_num *= n * (v.terms_den == 1 ? 1 : std::pow(v.terms_den, n - 1));
  if (v.terms_den != 1) v.terms_den = std::pow(v.terms_den, n);
  v.height_num += (n - 1) * v.height_den + std::log2(n);
  v.height_den *= n;
  v.den *= n;
  v.exp_den *= n;
  v.exponents *= n;
  v.roots *= n;
  v.calls *= n;
  return v;
}

Degree larger(const Degree& a, const Degree& b) {
  Degree result{std::max(a.num, b.num),
                std::max(a.den, b.den),
                std::max(a.exp_num, b.exp_num),
                std::max(a.exp_den, b.exp_den),
                std::max(a.terms_num, b.terms_num),
                std::max(a.terms_den, b.terms_den)};
  result = DegreeArithmetic::with_context_of(result, a, b);
  result.exponents = std::max(a.exponents, b.exponents);
  result.roots = std::max(a.roots, b.roots);
  result.calls = std::max(a.calls, b.calls);
  result.height_num = std::max(a.height_num, b.height_num);
  result.height_den = std::max(a.height_den, b.height_den);
  return result;
}

/// Constants: of elements that count, the first or the last is the largest.
Degree of_iota(const TensorType& type) {
  const DegreeArithmetic arithmetic;
  const int64_t size = type.shape[static_cast<size_t>(type.iota->dim)];
  return larger(arithmetic.constant(type.iota->at(0)), arithmetic.constant(type.iota->at(size - 1)));
}

class DegreePass {
 public:
  DegreePass(bool maxima_cancel, const FreeOperators* free, double function_degree) : free_(free) {
    arithmetic_.maxima_cancel = maxima_cancel;
    arithmetic_.function_degree = function_degree;
    arithmetic_.maxima_free = free != nullptr;
  }

  /// Of a program's outputs.
  std::vector<Degree> of_program(const Graph& graph, const std::vector<Degree>& inputs) {
    decided_ = decided_operators(graph);
    return run(graph, inputs);
  }

 private:
  std::vector<Degree> run(const Graph& graph, const std::vector<Degree>& inputs) {
    std::vector<Degree> degrees(graph.tensors().size());
    for (size_t i = 0; i < inputs.size(); ++i) degrees[static_cast<size_t>(graph.inputs()[i])] = inputs[i];
    for (size_t index = 0; index < graph.operations().size(); ++index) {
      const Operation& op = graph.operations()[index];
      std::vector<Degree> operands;
      for (TensorId id : op.operands) operands.push_back(degrees[static_cast<size_t>(id)]);
      if (free_ != nullptr && free_->at(&graph)[index]) {
        Degree& result = degrees[static_cast<size_t>(op.results[0])];
        result = operands[0];
        for (size_t n = 1; n < operands.size(); ++n) result = joined(result, operands[n]);
        result = arithmetic_.function(result, {});
      } else if (op.body) {
        const std::vector<Degree> results = run(*op.body, operands);
        for (size_t i = 0; i < results.size(); ++i) degrees[static_cast<size_t>(op.results[i])] = results[i];
      } else if (decided_.at(&graph)[index]) {
        // 0 or 1 for all inputs, or one of two values.
        degrees[static_cast<size_t>(op.results[0])] =
            op.kind == OpKind::Greater ? Degree{} : larger(operands[1], operands[2]);
      } else {
        degrees[static_cast<size_t>(op.results[0])] = apply(graph, op, operands);
      }
    }
    std::vector<Degree> outputs;
    for (TensorId id : graph.outputs()) outputs.push_back(degrees[static_cast<size_t>(id)]);
    return outputs;
  }

  Degree apply(const Graph& graph, const Operation& op, const std::vector<Degree>& operands) {
    const OpDef& definition = op_def(op.kind);
    if (definition.traits.products > 0) {
      std::optional<Degree> sum;
      for (int i = 0; i < definition.traits.products; ++i) {
        const auto first = static_cast<size_t>(i), second = static_cast<size_t>(i + definition.traits.products);
        const int64_t terms = product_terms(definition, graph.types(op.operands), op.attributes, i);
        const Degree one = sum_of(arithmetic_.mul(operands[first], operands[second]), static_cast<double>(terms));
        sum = sum ? arithmetic_.add(*sum, one) : one;
      }
      return *sum;
    }
    if (definition.traits.moves) {
      Degree result = operands[0];
      for (size_t i = 1; i < operands.size(); ++i) result = larger(result, operands[i]);
      return result;
    }
    switch (op.kind) {
      case OpKind::Accum: {
        const bool sum = op.attributes.word("kind") == "sum";
        const auto loop = static_cast<double>(graph.launch().loop);
        if (op.attributes.word("kind") == "max") return maximum_of(operands[0], loop);
        return sum ? sum_of(operands[0], loop) : operands[0];
      }
      case OpKind::ReduceMax:
        return maximum_of(operands[0], group_size(graph, op));
      case OpKind::AccumRescale: {
        const Degree factor = arithmetic_.exp(arithmetic_.sub(operands[1], operands[1]));
        return sum_of(arithmetic_.mul(operands[0], factor), static_cast<double>(graph.launch().loop));
      }
      case OpKind::Sum:
        return sum_of(operands[0], group_size(graph, op));
      default:
        return elementwise(graph, op, operands);
    }
  }

  static double group_size(const Graph& graph, const Operation& op) {
    return static_cast<double>(graph.type(op.operands[0]).elements() / graph.type(op.results[0]).elements());
  }

  /// Of n values of one degree.
  Degree maximum_of(const Degree& v, double n) const {
    Degree result = arithmetic_.max(v, v);
    for (double* count : {&result.exponents, &result.roots, &result.calls}) *count *= n;
    return result;
  }

  /// Operands of one random function: the larger of their degrees, all that they depend on.
  static Degree joined(const Degree& a, const Degree& b) {
    Degree result = larger(a, b);
    result.exponents = a.exponents + b.exponents;
    result.roots = a.roots + b.roots;
    result.calls = a.calls + b.calls;
    return result;
  }

  /// The operator's own scalar meaning, on tensors of one element. One that is not elementwise and not above has no
  /// known degree: infinity leaves the programs undecided.
  Degree elementwise(const Graph& graph, const Operation& op, const std::vector<Degree>& operands) {
    const OpDef& def = op_def(op.kind);
    if (!def.traits.elementwise) return {.num = std::numeric_limits<double>::infinity()};
    std::vector<Tensor<Degree>> tensors;
    for (const Degree& operand : operands) tensors.emplace_back(Shape{1}, std::vector<Degree>{operand});
    std::vector<const Tensor<Degree>*> pointers;
    for (const Tensor<Degree>& tensor : tensors) pointers.push_back(&tensor);
    Tensor<Degree> result(Shape{1});
    const OpScope scope = graph.scope();
    def.run(EvalArgs<DegreeArithmetic>{arithmetic_, scope, {}, op.attributes, pointers, result});
    return result[0];
  }

  DegreeArithmetic arithmetic_;
  const FreeOperators* free_;
  DecidedOperators decided_;
};

/// How often a graph applies an operator with the property in all: a second bound on what one entry depends on.
template <class Property>
double applications(const Graph& graph, const Property& property) {
  double count = 0;
  for (const Operation& op : graph.operations()) {
    if (op.body) {
      double runs = static_cast<double>(op.body->launch().loop);
      for (int64_t size : op.body->launch().grid) runs *= static_cast<double>(size);
      count += runs * applications(*op.body, property);
    } else if (property(op_def(op.kind).traits.lax)) {
      count += static_cast<double>(graph.type(op.results[0]).elements());
    }
  }
  return count;
}

double exponentials(const Graph& graph) {
  return applications(graph, [](const LaxProperty& lax) { return lax.exponentiations > 0; });
}

}  // namespace

std::vector<Degree> output_degrees(const Graph& graph, const std::vector<double>& of_inputs, bool maxima_cancel,
                                   const FreeOperators* free, double function_degree) {
  std::vector<Degree> inputs;
  for (size_t n = 0; n < of_inputs.size(); ++n) {
    const TensorType& type = graph.type(graph.inputs()[n]);
    inputs.push_back(type.iota ? of_iota(type) : Degree{.num = of_inputs[n]});
  }
  return DegreePass(maxima_cancel, free, function_degree).of_program(graph, inputs);
}

TestBound test_bound(const Graph& reference, const Graph& candidate, const BoundOptions& options) {
  const auto p = static_cast<double>(options.p);
  const double q = (p - 1) / 2;
  const auto ones = [](const Graph& graph) { return std::vector<double>(graph.inputs().size(), 1.0); };
  const auto [free_a, free_b] = options.free;
  const std::vector<Degree> first = output_degrees(reference, ones(reference), options.maxima_cancel, free_a);
  const std::vector<Degree> second = output_degrees(candidate, ones(candidate), options.maxima_cancel, free_b);
  TestBound worst{0, 0, {}};
  const auto roots_of = [](const Graph& graph) {
    return applications(graph, [](const LaxProperty& lax) { return lax.root; });
  };
  for (size_t i = 0; i < first.size(); ++i) {
    const Degree& a = first[i];
    const Degree& b = second[i];
    const double dx = std::max(a.num + b.den, b.num + a.den);
    const double roots = a.root || b.root ? 4 : 1;
    double bound = roots * dx / p;
    std::string text = fmt::format("Schwartz–Zippel, degree {:.0f}{}", dx, roots > 1 ? " with roots" : "");
    // Primes that divide a coefficient which is not 0.
    const double height = std::max(a.height_num + b.height_den, b.height_num + a.height_den) + 1;
    double unlucky = height / kLeastPrimeBits;
    const double calls = a.calls + b.calls;
    if (calls > 0) {
      // Operands of two calls that differ as functions and agree at the sample; exponents are counted below.
      const double degree = std::max(a.call_degree, b.call_degree);
      const double exp_degree = std::max(a.call_exp_degree, b.call_exp_degree);
      bound += calls * calls / 2 * (2 * roots * degree / p + 2 * exp_degree / q);
      unlucky += calls * calls / 2 * (2 * std::max(a.call_height, b.call_height) + 1) / kLeastPrimeBits;
      text += fmt::format("; {:.0f} values of random functions", calls);
    }
    const double n = std::min(a.exponents, exponentials(reference)) + std::min(b.exponents, exponentials(candidate));
    if (n > 0) {
      const double dy = 2 * std::max(a.exp_num + b.exp_den, b.exp_num + a.exp_den);
      const double argument = std::max(a.argument_num + a.argument_den, b.argument_num + b.argument_den);
      const double argument_roots = a.argument_root || b.argument_root ? 4 : 1;
      const double argument_height = 2 * std::max(a.argument_height, b.argument_height) + std::log2(dy + 1);
      if (options.independent) {
        bound += dy / q + argument_roots * n * argument / q;
        unlucky += n * argument_height / kLeastPrimeBits;
        text += fmt::format("; independent exponents: degree {:.0f} in {:.0f} exponentials, rank lost at degree {:.0f}",
                            dy, n, n * argument);
      } else {
        const double k = a.terms_num * b.terms_den + b.terms_num * a.terms_den;
        bound += 1 - 1 / k + 1 / q + argument_roots * k * k * dy * argument / (2 * q);
        unlucky += k * k * argument_height / kLeastPrimeBits;
        text += fmt::format("; random root of unity, {:.3g} exponential terms", k);
      }
    }
    // Maxima that cancel are tested with values of their own.
    if (options.maxima_cancel) bound *= 2;
    if (options.random_primes) {
      bound += unlucky / kFieldPrimePairs;
      text += fmt::format("; primes drawn for each test, {:.3g} bits of coefficients", height);
    } else {
      text += fmt::format("; p = {}", options.p);
    }
    // The test is conditioned on no division by zero, which the same degree bounds.
    bound = std::isfinite(bound) && bound < 1 ? (bound < 0.5 ? bound / (1 - bound) : bound) : 1;
    worst.roots =
        std::max(worst.roots, std::min(a.roots, roots_of(reference)) + std::min(b.roots, roots_of(candidate)));
    if (bound >= worst.per_test) {
      worst.per_test = bound;
      worst.argument = text;
    }
  }
  return worst;
}

}  // namespace strata
