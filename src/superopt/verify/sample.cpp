#include "superopt/verify/sample.h"

#include <algorithm>
#include <bit>
#include <set>

#include "interpret/liveness.h"

namespace strata {
namespace {

using Value = FieldArithmetic::Value;

/// Rounds in which slices are drawn again; each halves what is left, so 2^40 roots would do with 100.
constexpr int kRounds = 100;

/// Uniform in [0, modulus). A uniform Montgomery form is that of a uniform element.
uint64_t uniform(const PrimeField& field, Random& random) {
  const int shift = std::countl_zero(field.modulus());
  for (;;) {
    if (const uint64_t value = random() >> shift; value < field.modulus()) return value;
  }
}

std::set<TensorId> ancestors(const Graph& graph, TensorId of) {
  std::set<TensorId> found{of};
  for (size_t i = graph.operations().size(); i-- > 0;) {
    const Operation& op = graph.operations()[i];
    if (std::any_of(op.results.begin(), op.results.end(), [&](TensorId id) { return found.count(id) > 0; })) {
      found.insert(op.operands.begin(), op.operands.end());
    }
  }
  return found;
}

/// The part of `graph` that computes one tensor, with all of its inputs.
Result<GraphPtr> part(const Graph& graph, TensorId output) {
  const std::set<TensorId> needed = ancestors(graph, output);
  GraphBuilder builder(Level::Kernel, graph.name());
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  for (TensorId id : graph.inputs()) {
    STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(graph.tensor(id).name, graph.type(id)));
  }
  for (const Operation& op : graph.operations()) {
    if (std::none_of(op.results.begin(), op.results.end(), [&](TensorId id) { return needed.count(id) > 0; })) continue;
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    if (op.body) {
      STRATA_TRY(const auto results, builder.add(op.body, operands));
      for (size_t i = 0; i < results.size(); ++i) ids[static_cast<size_t>(op.results[i])] = results[i];
    } else {
      STRATA_TRY(ids[static_cast<size_t>(op.results[0])], builder.add(op.kind, operands, op.attributes));
    }
  }
  STRATA_CHECK(builder.output(ids[static_cast<size_t>(output)]));
  return builder.finish();
}

}  // namespace

Sampler::Sampler(const Graph& reference, const FieldPrimes& primes)
    : reference_(reference), primes_(primes), fp_(primes.p), fq_(primes.q) {
  UnionFind axes;
  std::vector<int> nodes;
  for (const TensorInfo& tensor : reference.tensors()) {
    nodes.push_back(axes.size());
    for (size_t d = 0; d < tensor.type.shape.size(); ++d) axes.add();
  }
  for (const Operation& op : reference.operations()) {
    if (!op.body) unite_labels(reference, op, nodes, axes);
  }
  const ResidueLiveness live = residue_liveness(reference, FieldArithmetic::kResidueP);
  std::set<TensorId> taken;  // inputs that earlier roots depend on
  for (const Operation& op : reference.operations()) {
    if (op.body || !op_def(op.kind).traits.lax.root) continue;
    const TensorId argument = op.operands[0];
    auto computes = part(reference, argument);
    if (!computes) continue;
    Root best{*computes, live.at(&reference)[static_cast<size_t>(op.results[0])], 0, {}};
    // An input that earlier roots do not depend on, of which the argument's entries read disjoint slices, if there is.
    int best_score = -1;
    const std::set<TensorId> needed = ancestors(reference, argument);
    for (size_t i = 0; i < reference.inputs().size(); ++i) {
      const TensorId input = reference.inputs()[i];
      if (needed.count(input) == 0) continue;
      std::vector<int> dims(reference.type(input).shape.size(), -1);
      int linked = 0;
      for (size_t d = 0; d < dims.size(); ++d) {
        for (size_t e = 0; e < reference.type(argument).shape.size(); ++e) {
          const int of_input = axes.find(nodes[static_cast<size_t>(input)] + static_cast<int>(d));
          const int of_argument = axes.find(nodes[static_cast<size_t>(argument)] + static_cast<int>(e));
          if (of_input == of_argument && reference.type(input).shape[d] == reference.type(argument).shape[e]) {
            dims[d] = static_cast<int>(e);
            ++linked;
            break;
          }
        }
      }
      const int score = linked + (taken.count(input) > 0 ? 0 : 100);
      if (score > best_score) {
        best_score = score;
        best.input = i;
        best.dims = dims;
      }
    }
    if (best_score < 0) continue;  // the root of a constant
    taken.insert(needed.begin(), needed.end());
    roots_.push_back(std::move(best));
  }
}

void Sampler::fill(FieldTensor& tensor, Random& random) const {
  for (Value& value : tensor.data) value = {uniform(fp_, random), uniform(fq_, random)};
}

FieldSample Sampler::draw(uint64_t seed) const {
  Random random(seed);
  // A random element's ((p − 1)/q)-th power is a uniform q-th root of unity; 1 is none we can use.
  uint64_t omega = fp_.one();
  while (omega == fp_.one() || omega == 0) omega = fp_.pow(uniform(fp_, random), (primes_.p - 1) / primes_.q);
  FieldSample sample{FieldArithmetic{fp_, fq_, omega, random()}, {}};
  sample.arithmetic.powers = std::make_shared<PowerTable>(fp_, omega);
  sample.arithmetic.wanted = FieldArithmetic::kResidueP;
  for (TensorId id : reference_.inputs()) fill(sample.inputs.emplace_back(reference_.type(id).shape), random);
  for (int round = 0; round < kRounds; ++round) {
    // The first root that is not clean: later ones may depend on what is drawn again for it.
    const bool clean =
        std::all_of(roots_.begin(), roots_.end(), [&](const Root& root) { return condition(root, sample, random); });
    if (clean) break;
  }
  return sample;
}

bool Sampler::condition(const Root& root, FieldSample& sample, Random& random) const {
  FieldArithmetic arithmetic = sample.arithmetic;
  arithmetic.wanted = root.residues;
  auto arguments = execute(*root.argument, arithmetic, sample.inputs);
  if (!arguments) return true;
  const FieldTensor& argument = arguments->front();
  std::vector<bool> residue(argument.data.size());
  for (size_t i = 0; i < residue.size(); ++i) {
    residue[i] = (!(root.residues & FieldArithmetic::kResidueP) || fp_.is_residue(argument.data[i].p)) &&
                 (!(root.residues & FieldArithmetic::kResidueQ) || fq_.is_residue(argument.data[i].q));
  }
  if (std::all_of(residue.begin(), residue.end(), [](bool is) { return is; })) return true;
  // Project the argument's entries to slices of the input: a slice with one bad entry is drawn again.
  FieldTensor& input = sample.inputs[root.input];
  const auto input_strides = row_major_strides(input.shape);
  std::vector<int64_t> slice_strides(input.shape.size(), 0);
  std::vector<int64_t> argument_strides(argument.shape.size(), 0);
  for (size_t d = 0; d < input.shape.size(); ++d) {
    if (root.dims[d] < 0) continue;
    slice_strides[d] = argument_strides[static_cast<size_t>(root.dims[d])] = input_strides[d];
  }
  std::vector<bool> again(input.data.size(), false);  // by the index of a slice's first element
  for_each_index<1>(argument.shape, {argument_strides}, [&](int64_t i, const std::array<int64_t, 1>& at) {
    if (!residue[static_cast<size_t>(i)]) again[static_cast<size_t>(at[0])] = true;
  });
  for_each_index<1>(input.shape, {slice_strides}, [&](int64_t i, const std::array<int64_t, 1>& at) {
    if (again[static_cast<size_t>(at[0])]) input[i] = {uniform(fp_, random), uniform(fq_, random)};
  });
  return false;
}

}  // namespace strata
