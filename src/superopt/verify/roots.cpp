#include "superopt/verify/roots.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "interpret/liveness.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/subgraph.h"

namespace strata {
namespace {

/// A sample leaves each argument's residuosity as it was with probability 1/2.
constexpr int kRounds = 64;
/// Products of pairs are only formed of this many arguments.
constexpr size_t kMostPairs = 64;
/// Comparisons of one argument with one that is known, for one sample; and scans of all that are allowed anyway.
constexpr int64_t kMostSteps = 1'000'000;
constexpr int64_t kFewScans = 4;
/// Constant factors between the arguments of roots have numerators and denominators up to this.
constexpr uint64_t kMostFactor = uint64_t{1} << 24;

constexpr int kUntied = -1;

/// For each dimension of one input, the dimension of a tensor that walks with it: its entries at index i read the input
/// at index i there; kUntied where they may read others. Empty: they read nothing of the input.
using Ties = std::vector<int>;

void merge(Ties& into, const Ties& other) {
  if (into.empty()) {
    into = other;
    return;
  }
  for (size_t d = 0; d < other.size(); ++d) {
    if (into[d] != other[d]) into[d] = kUntied;
  }
}

/// By TensorId, the ties of all tensors of a kernel graph to one of them.
std::vector<Ties> ties_to(const Graph& graph, TensorId input) {
  std::vector<Ties> ties(graph.tensors().size());
  Ties& identity = ties[static_cast<size_t>(input)];
  for (size_t d = 0; d < graph.type(input).shape.size(); ++d) identity.push_back(static_cast<int>(d));
  // A scalar input has no dimension to tie; one untied entry says that it is read.
  if (identity.empty()) identity.push_back(kUntied);
  for (const Operation& op : graph.operations()) {
    IndexLabels labels;
    if (!op.body) labels = op_def(op.kind).labels(graph.types(op.operands), op.attributes);
    Ties result;
    for (size_t n = 0; n < op.operands.size(); ++n) {
      Ties of_operand = ties[static_cast<size_t>(op.operands[n])];
      for (int& dim : of_operand) {
        if (dim == kUntied || op.body) {
          dim = kUntied;
          continue;
        }
        const int label = labels.operands[n][static_cast<size_t>(dim)];
        const auto at = std::find(labels.result.begin(), labels.result.end(), label);
        const bool tied = label != IndexLabels::kFree && at != labels.result.end();
        dim = tied ? static_cast<int>(at - labels.result.begin()) : kUntied;
      }
      if (!of_operand.empty()) merge(result, of_operand);
    }
    for (TensorId id : op.results) {
      if (id != input) ties[static_cast<size_t>(id)] = result;
    }
  }
  return ties;
}

/// Whether different entries of a tensor read different slices of the input.
bool disjoint(const Graph& graph, TensorId tensor, const Ties& ties) {
  const Shape& shape = graph.type(tensor).shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && std::find(ties.begin(), ties.end(), static_cast<int>(d)) == ties.end()) return false;
  }
  return true;
}

/// Whether every entry of what `argument` computes is a residue at some samples and none at others, when one input is
/// drawn again and the rest stays.
Result<bool> residuosity_varies(const Graph& argument, size_t input, uint8_t residues, const FieldPrimes& primes,
                                uint64_t seed, const std::stop_token& stop) {
  FieldSample sample = draw_sample(argument, primes, seed, stop);
  sample.arithmetic.wanted = residues;
  Random random(mix(seed));
  std::vector<uint8_t> first, varied;
  for (int round = 0; round < kRounds; ++round) {
    FieldArithmetic arithmetic = sample.arithmetic;
    STRATA_TRY(const auto values, execute(argument, arithmetic, sample.inputs, stop));
    if (arithmetic.divided_by_zero) return false;
    const FieldTensor& entries = values.front();
    varied.resize(entries.data.size(), static_cast<uint8_t>(FieldArithmetic::kBothResidues & ~residues));
    for (size_t i = 0; i < entries.data.size(); ++i) {
      if (stops_at(i, stop))
        return tl::unexpected(Error{ErrorCode::Interrupted, "the verification was stopped", {}, {}});
      uint8_t is = 0;
      if (arithmetic.fp.is_residue(entries.data[i].p)) is = FieldArithmetic::kResidueP;
      if (arithmetic.fq.is_residue(entries.data[i].q)) is = static_cast<uint8_t>(is | FieldArithmetic::kResidueQ);
      if (round == 0) first.push_back(is);
      varied[i] = static_cast<uint8_t>(varied[i] | (is ^ first[i]));
    }
    if (std::all_of(varied.begin(), varied.end(), [](uint8_t v) { return v == FieldArithmetic::kBothResidues; })) {
      return true;
    }
    fill_uniformly(sample.inputs[input], sample.arithmetic, random, stop);
  }
  return false;
}

}  // namespace

Result<bool> roots_independent(const Graph& graph, const FieldPrimes& primes, uint64_t seed,
                               const std::stop_token& stop) {
  std::vector<std::vector<Ties>> ties;
  const std::vector<TensorId> given = graph.arguments();
  for (TensorId input : given) ties.push_back(ties_to(graph, input));
  const ResidueLiveness live = residue_liveness(graph, FieldArithmetic::kResidueP);
  std::set<TensorId> arguments, roots, read;  // read: inputs, by the roots so far
  for (const Operation& op : graph.operations()) {
    if (op.body ? takes_roots(*op.body) : op_def(op.kind).traits.lax.maximum) return false;
    if (op.body || !op_def(op.kind).traits.lax.root) continue;
    if (op.operands.size() != 1) return false;
    const TensorId argument = op.operands[0];
    const std::set<TensorId> needed = ancestors(graph, argument);
    if (std::any_of(needed.begin(), needed.end(), [&](TensorId id) { return roots.count(id) > 0; })) return false;
    roots.insert(op.results[0]);
    if (!arguments.insert(argument).second) continue;
    size_t input = 0;
    for (; input < given.size(); ++input) {
      const TensorId id = given[input];
      const Ties& of_argument = ties[input][static_cast<size_t>(argument)];
      if (!of_argument.empty() && read.count(id) == 0 && disjoint(graph, argument, of_argument)) break;
    }
    if (input == given.size()) return false;
    STRATA_TRY(const GraphPtr part, part_computing(graph, argument));
    const uint8_t residues = live.at(&graph)[static_cast<size_t>(op.results[0])];
    STRATA_TRY(const bool varies, residuosity_varies(*part, input, residues, primes, mix(seed + roots.size()), stop));
    if (!varies) return false;
    for (TensorId id : needed) read.insert(id);
  }
  return true;
}

double roots_in_entry(const Graph& graph) {
  std::set<TensorId> arguments;
  std::vector<double> counts(graph.outputs().size(), 0);
  for (const Operation& op : graph.operations()) {
    if (op.body && takes_roots(*op.body)) return std::numeric_limits<double>::infinity();
    if (op.body || !op_def(op.kind).traits.lax.root || !arguments.insert(op.operands[0]).second) continue;
    // Two operators of one argument take one root, so all that follows from the argument is looked at.
    const TensorId argument = op.operands[0];
    const std::vector<Ties> ties = ties_to(graph, argument);
    const Shape& shape = graph.type(argument).shape;
    for (size_t o = 0; o < counts.size(); ++o) {
      const Ties& of_output = ties[static_cast<size_t>(graph.outputs()[o])];
      double entries = of_output.empty() ? 0 : 1;
      for (size_t d = 0; d < shape.size() && d < of_output.size(); ++d) {
        if (of_output[d] == kUntied) entries *= static_cast<double>(shape[d]);
      }
      counts[o] += entries;
    }
  }
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

RootMatch::RootMatch(const std::vector<FieldArithmetic::Value>& known, const FieldArithmetic& arithmetic,
                     std::stop_token stop)
    : p_{arithmetic.fp}, q_{arithmetic.fq}, stop_(std::move(stop)) {
  for (const auto& value : known) {
    p_.values.push_back(value.p);
    q_.values.push_back(value.q);
  }
  size_t most = 1;
  for (Known* of : {&p_, &q_}) {
    std::vector<uint64_t>& values = of->values;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (!values.empty() && values.front() == 0) values.erase(values.begin());
    for (size_t i = 0; i < values.size() && !stops_at(i, stop_); ++i) {
      of->inverses.push_back(of->field.inverse(values[i]));
    }
    most = std::max(most, values.size());
  }
  scans_ = std::max<int64_t>(kFewScans, kMostSteps / static_cast<int64_t>(most));
}

bool RootMatch::matches(const FieldArithmetic::Value& argument) {
  if (stop_.stop_requested()) return false;
  return (argument.p == 0 || matches_in(p_, argument.p)) && (argument.q == 0 || matches_in(q_, argument.q));
}

namespace {

/// Whether value = n/d modulo the prime for n, d ≤ kMostFactor whose roots are in the field what they are over the
/// reals (Wang's rational reconstruction): one of 2^35 residues is by chance.
bool is_positive_constant(const PrimeField& field, uint64_t value) {
  uint64_t r0 = field.modulus(), r1 = field.to_integer(value);
  int64_t t0 = 0, t1 = 1;
  while (r1 > kMostFactor) {
    const uint64_t quotient = r0 / r1;
    r0 = std::exchange(r1, r0 - quotient * r1);
    if (quotient > kMostFactor) return false;
    t0 = std::exchange(t1, t0 - static_cast<int64_t>(quotient) * t1);
    if (t1 > static_cast<int64_t>(kMostFactor) || t1 < -static_cast<int64_t>(kMostFactor)) return false;
  }
  return r1 != 0 && t1 > 0 && is_always_square(r1) && is_always_square(static_cast<uint64_t>(t1));
}

}  // namespace

bool RootMatch::matches_in(Known& known, uint64_t value) {
  const PrimeField& field = known.field;
  const auto has = [&](uint64_t x) { return std::binary_search(known.values.begin(), known.values.end(), x); };
  // Most roots of a program are alike: one factor serves all of them.
  const auto has_by_factor = [&](uint64_t inverse) { return has(field.mul(value, inverse)); };
  if (has(value) || std::any_of(known.factors.begin(), known.factors.end(), has_by_factor)) return true;
  if (is_positive_constant(field, value)) return true;
  if (--scans_ < 0 || stop_.stop_requested()) return false;
  const uint64_t inverse = field.inverse(value);
  for (size_t i = 0; i < known.values.size(); ++i) {
    const uint64_t a = known.values[i];
    const uint64_t ratio = field.mul(value, known.inverses[i]);
    if (has(ratio) || has(field.mul(value, a)) || has(field.mul(a, inverse))) return true;  // a·b, b/a, a/b
    if (is_positive_constant(field, ratio)) {                                               // c·a
      known.factors.push_back(field.inverse(ratio));
      return true;
    }
    if (known.values.size() > kMostPairs) continue;
    for (const uint64_t b : known.inverses) {
      if (is_positive_constant(field, field.mul(ratio, b))) return true;  // c·a·b
    }
  }
  return false;
}

}  // namespace strata
