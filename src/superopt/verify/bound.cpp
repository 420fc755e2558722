#include "superopt/verify/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace strata {
namespace {

using Degree = DegreeArithmetic::Value;

/// The sum of n values of one degree: their n denominators are multiplied.
Degree sum_of(Degree v, double n) {
  v.num += (n - 1) * v.den;
  v.exp_num += (n - 1) * v.exp_den;
  v.terms_num *= n * (v.terms_den == 1 ? 1 : std::pow(v.terms_den, n - 1));
  if (v.terms_den != 1) v.terms_den = std::pow(v.terms_den, n);
  v.den *= n;
  v.exp_den *= n;
  v.exponents *= n;
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
  return result;
}

class DegreePass {
 public:
  explicit DegreePass(bool maxima_cancel) { arithmetic_.maxima_cancel = maxima_cancel; }

  std::vector<Degree> run(const Graph& graph, const std::vector<Degree>& inputs) {
    std::vector<Degree> degrees(graph.tensors().size());
    for (size_t i = 0; i < inputs.size(); ++i) degrees[static_cast<size_t>(graph.inputs()[i])] = inputs[i];
    for (const Operation& op : graph.operations()) {
      std::vector<Degree> operands;
      for (TensorId id : op.operands) operands.push_back(degrees[static_cast<size_t>(id)]);
      if (op.body) {
        const std::vector<Degree> results = run(*op.body, operands);
        for (size_t i = 0; i < results.size(); ++i) degrees[static_cast<size_t>(op.results[i])] = results[i];
      } else {
        degrees[static_cast<size_t>(op.results[0])] = apply(graph, op, operands);
      }
    }
    std::vector<Degree> outputs;
    for (TensorId id : graph.outputs()) outputs.push_back(degrees[static_cast<size_t>(id)]);
    return outputs;
  }

 private:
  Degree apply(const Graph& graph, const Operation& op, const std::vector<Degree>& operands) {
    const auto extent = [&](size_t operand, size_t from_last) {
      const Shape& shape = graph.type(op.operands[operand]).shape;
      return static_cast<double>(shape[shape.size() - from_last]);
    };
    switch (op.kind) {
      case OpKind::InIter:
      case OpKind::OutSaver:
      case OpKind::Reshape:
      case OpKind::Repeat:
      case OpKind::Transpose:
      case OpKind::Slice:
        return operands[0];
      case OpKind::Concat: {
        Degree result = operands[0];
        for (const Degree& operand : operands) result = larger(result, operand);
        return result;
      }
      case OpKind::Accum: {
        const bool sum = op.attributes.word("kind") == "sum";
        if (op.attributes.word("kind") == "max") return arithmetic_.max(operands[0], operands[0]);
        return sum ? sum_of(operands[0], static_cast<double>(graph.launch().loop)) : operands[0];
      }
      case OpKind::ReduceMax:
        return arithmetic_.max(operands[0], operands[0]);
      case OpKind::AccumRescale: {
        const Degree factor = arithmetic_.exp(arithmetic_.sub(operands[1], operands[1]));
        return sum_of(arithmetic_.mul(operands[0], factor), static_cast<double>(graph.launch().loop));
      }
      case OpKind::Sum: {
        const Shape& from = graph.type(op.operands[0]).shape;
        const auto group = element_count(from) / graph.type(op.results[0]).elements();
        return sum_of(operands[0], static_cast<double>(group));
      }
      case OpKind::Matmul:
        return sum_of(arithmetic_.mul(operands[0], operands[1]), extent(0, 1));
      case OpKind::Conv2d: {
        const TensorType& filter = graph.type(op.operands[1]);
        return sum_of(arithmetic_.mul(operands[0], operands[1]),
                      static_cast<double>(filter.elements() / filter.shape[0]));
      }
      case OpKind::ConcatMatmul:
        return arithmetic_.add(sum_of(arithmetic_.mul(operands[0], operands[2]), extent(0, 1)),
                               sum_of(arithmetic_.mul(operands[1], operands[3]), extent(1, 1)));
      default:
        return elementwise(graph, op, operands);
    }
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
};

/// Exponentials that a graph computes in all: a second bound on those in one entry.
double exponentials(const Graph& graph) {
  double count = 0;
  for (const Operation& op : graph.operations()) {
    if (op.body) {
      double runs = static_cast<double>(op.body->launch().loop);
      for (int64_t size : op.body->launch().grid) runs *= static_cast<double>(size);
      count += runs * exponentials(*op.body);
    } else if (op_def(op.kind).traits.lax.exponentiations > 0) {
      count += static_cast<double>(graph.type(op.results[0]).elements());
    }
  }
  return count;
}

}  // namespace

std::vector<Degree> output_degrees(const Graph& graph, const std::vector<double>& of_inputs, bool maxima_cancel) {
  std::vector<Degree> inputs;
  for (double degree : of_inputs) inputs.push_back({.num = degree});
  return DegreePass(maxima_cancel).run(graph, inputs);
}

TestBound test_bound(const Graph& reference, const Graph& candidate, const FieldPrimes& primes, bool independent,
                     bool maxima_cancel) {
  const auto p = static_cast<double>(primes.p);
  const auto q = static_cast<double>(primes.q);
  const auto ones = [](const Graph& graph) { return std::vector<double>(graph.inputs().size(), 1.0); };
  const std::vector<Degree> first = output_degrees(reference, ones(reference), maxima_cancel);
  const std::vector<Degree> second = output_degrees(candidate, ones(candidate), maxima_cancel);
  TestBound worst{0, {}};
  for (size_t i = 0; i < first.size(); ++i) {
    const Degree& a = first[i];
    const Degree& b = second[i];
    const double dx = std::max(a.num + b.den, b.num + a.den);
    const double roots = a.root || b.root ? 4 : 1;
    double bound = roots * dx / p;
    std::string text =
        fmt::format("Schwartz–Zippel, degree {:.0f}{}, p = {}", dx, roots > 1 ? " with roots" : "", primes.p);
    const double n = std::min(a.exponents, exponentials(reference)) + std::min(b.exponents, exponentials(candidate));
    if (n > 0) {
      const double dy = 2 * std::max(a.exp_num + b.exp_den, b.exp_num + a.exp_den);
      const double argument = std::max(a.argument_num + a.argument_den, b.argument_num + b.argument_den);
      const double argument_roots = a.argument_root || b.argument_root ? 4 : 1;
      if (independent) {
        bound += dy / q + argument_roots * n * argument / q;
        text += fmt::format("; independent exponents: degree {:.0f} in {:.0f} exponentials, rank lost at degree {:.0f}",
                            dy, n, n * argument);
      } else {
        const double k = a.terms_num * b.terms_den + b.terms_num * a.terms_den;
        bound += 1 - 1 / k + 1 / q + argument_roots * k * k * dy * argument / (2 * q);
        text += fmt::format("; random root of unity, {:.3g} exponential terms", k);
      }
    }
    // The test is conditioned on no division by zero, which the same degree bounds.
    bound = std::isfinite(bound) && bound < 1 ? (bound < 0.5 ? bound / (1 - bound) : bound) : 1;
    if (bound >= worst.per_test) worst = {bound, text};
  }
  return worst;
}

}  // namespace strata
