#include "superopt/verify/sample.h"

#include <algorithm>
#include <bit>
#include <set>

#include "interpret/liveness.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/subgraph.h"

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

}  // namespace

void fill_uniformly(FieldTensor& tensor, const FieldArithmetic& field, Random& random, const std::stop_token& stop) {
  for (size_t i = 0; i < tensor.data.size() && !stops_at(i, stop); ++i) {
    tensor.data[i] = {uniform(field.fp, random), uniform(field.fq, random)};
  }
}

FieldSample draw_sample(const Graph& program, const FieldPrimes& primes, uint64_t seed, const std::stop_token& stop) {
  Random random(seed);
  const PrimeField fp(primes.p);
  const PrimeField fq(primes.q);
  // A random element's ((p − 1)/q)-th power is a uniform q-th root of unity; 1 is none we can use.
  uint64_t omega = fp.one();
  while (omega == fp.one() || omega == 0) omega = fp.pow(uniform(fp, random), (primes.p - 1) / primes.q);
  FieldSample sample{FieldArithmetic{fp, fq, omega, random()}, {}};
  sample.arithmetic.powers = std::make_shared<PowerTable>(fp, omega);
  sample.arithmetic.wanted = FieldArithmetic::kResidueP;
  for (TensorId id : program.arguments()) {
    fill_uniformly(sample.inputs.emplace_back(program.type(id).shape), sample.arithmetic, random, stop);
  }
  return sample;
}

Sampler::Sampler(const Graph& reference, const FieldPrimes& primes, bool free)
    : reference_(reference), primes_(primes) {
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
  const std::vector<TensorId> given = reference.arguments();
  std::set<TensorId> taken;  // inputs that earlier roots depend on
  for (const Operation& op : reference.operations()) {
    if (op.body || !op_def(op.kind).traits.lax.root) continue;
    const TensorId argument = op.operands[0];
    auto computes = part_computing(reference, argument);
    if (!computes) continue;
    Root best{*computes, live.at(&reference)[static_cast<size_t>(op.results[0])], 0, {}, {}};
    // An input of which the argument's entries read slices of their own, and better one that earlier roots do not
    // depend on: what all entries share would have to suit all of them at once.
    int best_score = -1;
    const std::set<TensorId> needed = ancestors(reference, argument);
    for (size_t i = 0; i < given.size(); ++i) {
      const TensorId input = given[i];
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
      const int score = 2 * linked + (taken.count(input) > 0 ? 0 : 1);
      if (score > best_score) {
        best_score = score;
        best.input = i;
        best.dims = dims;
      }
    }
    if (best_score < 0) continue;  // the root of a constant
    if (free) best.free = free_operators(*best.argument);
    taken.insert(needed.begin(), needed.end());
    roots_.push_back(std::move(best));
  }
}

FieldSample Sampler::draw(uint64_t seed, const std::stop_token& stop) const {
  FieldSample sample = draw_sample(reference_, primes_, seed, stop);
  Random random(mix(seed));
  for (int round = 0; round < kRounds; ++round) {
    // The first root that is not clean: later ones may depend on what is drawn again for it.
    const bool clean = std::all_of(roots_.begin(), roots_.end(),
                                   [&](const Root& root) { return condition(root, sample, random, stop); });
    if (clean) break;
  }
  return sample;
}

bool Sampler::condition(const Root& root, FieldSample& sample, Random& random, const std::stop_token& stop) const {
  FieldArithmetic arithmetic = sample.arithmetic;
  arithmetic.wanted = root.residues;
  arithmetic.free_operators = root.free ? &*root.free : nullptr;
  if (root.free) arithmetic.maximum = FieldArithmetic::Maximum::Free;
  auto arguments = execute(*root.argument, arithmetic, sample.inputs, stop);
  if (!arguments) return true;
  const FieldTensor& argument = arguments->front();
  std::vector<bool> residue(argument.data.size());
  for (size_t i = 0; i < residue.size(); ++i) {
    if (stops_at(i, stop)) return true;
    residue[i] =
        (!(root.residues & FieldArithmetic::kResidueP) || sample.arithmetic.fp.is_residue(argument.data[i].p)) &&
        (!(root.residues & FieldArithmetic::kResidueQ) || sample.arithmetic.fq.is_residue(argument.data[i].q));
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
    if (again[static_cast<size_t>(at[0])]) {
      input[i] = {uniform(sample.arithmetic.fp, random), uniform(sample.arithmetic.fq, random)};
    }
  });
  return false;
}

}  // namespace strata
