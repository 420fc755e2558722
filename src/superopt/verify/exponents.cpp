#include "superopt/verify/exponents.h"

#include <algorithm>
#include <map>
#include <set>

#include "superopt/verify/bound.h"
#include "superopt/verify/decided.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/sample.h"
#include "superopt/verify/shrink.h"

namespace strata {
namespace {

/// Shrunk programs beyond these are not looked at; both count executions.
constexpr size_t kMostExponentials = 2048;
constexpr size_t kMostColumns = 2048;

bool exponentiates(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(), [](const Operation& op) {
    return op.body ? exponentiates(*op.body) : op_def(op.kind).traits.lax.exponentiations > 0;
  });
}

/// Both graphs on one sample: outputs of the two, and the arguments of their exponentials, one after the other.
class Pair {
 public:
  Pair(const Graph& reference, const Graph& candidate, const FieldPrimes& primes, uint64_t seed, bool maxima_cancel,
       bool free, const std::stop_token& stop)
      : stop_(stop),
        graphs_{&reference, &candidate},
        order_(input_order(reference, candidate)),
        sample_(Sampler(reference, primes, free).draw(seed, stop)) {
    if (maxima_cancel) sample_.arithmetic.maximum = FieldArithmetic::Maximum::Zero;
    if (!free) return;
    sample_.arithmetic.maximum = FieldArithmetic::Maximum::Free;
    free_ = {free_operators(reference), free_operators(candidate)};
  }

  struct Run {
    std::array<std::vector<FieldTensor>, 2> outputs;
    std::array<std::vector<uint64_t>, 2> arguments;
  };

  /// `disturbed`: an exponential of graph `which`, or −1.
  Run run(size_t which = 0, int64_t disturbed = -1) const {
    Run result;
    for (size_t g = 0; g < 2; ++g) {
      FieldArithmetic arithmetic = sample_.arithmetic;
      FieldArithmetic::ExponentLog log;
      log.factor = arithmetic.fp.from_integer(3);
      if (g == which) log.disturbed = disturbed;
      arithmetic.log = &log;
      arithmetic.free_operators = free_[g] ? &*free_[g] : nullptr;
      std::vector<FieldTensor> inputs = sample_.inputs;
      if (g == 1) inputs = reordered(std::move(inputs), order_);
      if (auto outputs = execute(*graphs_[g], arithmetic, inputs, stop_)) result.outputs[g] = std::move(*outputs);
      result.arguments[g] = std::move(log.arguments);
    }
    return result;
  }

  FieldSample& sample() { return sample_; }

 private:
  const std::stop_token& stop_;
  std::array<const Graph*, 2> graphs_;
  std::vector<size_t> order_;
  FieldSample sample_;
  std::array<std::optional<FreeOperators>, 2> free_;
};

/// Arguments of the reference in which the arguments of all exponentials are polynomials of degree at most 1.
std::vector<size_t> affine_inputs(const Graph& reference, const Graph& candidate, bool maxima_cancel, bool free) {
  constexpr double kNotAffine = 2;
  const auto affine = [&](const Graph& graph, const std::string& input) {
    const auto random = free ? free_operators(graph) : std::nullopt;
    std::vector<double> degrees;
    for (TensorId id : graph.inputs()) degrees.push_back(graph.tensor(id).name == input ? 1 : 0);
    const auto outputs = output_degrees(graph, degrees, maxima_cancel, random ? &*random : nullptr, kNotAffine);
    return std::all_of(outputs.begin(), outputs.end(), [](const DegreeArithmetic::Value& value) {
      return value.argument_num <= 1 && value.argument_den == 0;
    });
  };
  std::vector<size_t> found;
  const std::vector<TensorId> arguments = reference.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = reference.tensor(arguments[i]).name;
    if (affine(reference, name) && affine(candidate, name)) found.push_back(i);
  }
  return found;
}

bool full_rank(const PrimeField& field, std::vector<std::vector<uint64_t>> rows) {
  size_t column = 0;
  for (size_t done = 0; done < rows.size(); ++column) {
    if (column == rows[0].size()) return false;
    const auto pivot = std::find_if(rows.begin() + static_cast<int64_t>(done), rows.end(),
                                    [&](const auto& row) { return row[column] != 0; });
    if (pivot == rows.end()) continue;
    std::swap(rows[done], *pivot);
    const uint64_t inverse = field.inverse(rows[done][column]);
    for (size_t r = done + 1; r < rows.size(); ++r) {
      const uint64_t scale = field.mul(rows[r][column], inverse);
      if (scale == 0) continue;
      for (size_t c = column; c < rows[r].size(); ++c) {
        rows[r][c] = field.sub(rows[r][c], field.mul(scale, rows[done][c]));
      }
    }
    ++done;
  }
  return true;
}

/// Whether the exponents of every entry have a Jacobian of full rank, with respect to one of these inputs and, where
/// `root` says so, the root of unity.
bool full_rank_at(const Graph& reference, const Graph& candidate, const std::vector<size_t>& inputs, bool root,
                  const FieldPrimes& primes, uint64_t seed, bool maxima_cancel, bool free,
                  const std::stop_token& stop) {
  Pair pair(reference, candidate, primes, seed, maxima_cancel, free, stop);
  const PrimeField& field = pair.sample().arithmetic.fq;
  const Pair::Run base = pair.run();
  if (stop.stop_requested()) return false;
  if (base.arguments[0].size() + base.arguments[1].size() > kMostExponentials) return false;

  // Exponents of one value, or of opposite values, are one function; this holds but with probability of degree / q.
  std::map<uint64_t, int> classes;
  std::vector<std::pair<size_t, size_t>> representatives;     // graph, call
  std::map<std::pair<size_t, int64_t>, std::set<int>> cones;  // by (output, entry); shared by both graphs
  for (size_t g = 0; g < 2; ++g) {
    for (size_t call = 0; call < base.arguments[g].size(); ++call) {
      const uint64_t value = base.arguments[g][call];
      if (value == 0) continue;  // exp(0) is a constant
      const auto [it, added] =
          classes.emplace(std::min(value, field.sub(0, value)), static_cast<int>(representatives.size()));
      if (added) representatives.emplace_back(g, call);
      if (stop.stop_requested()) return false;
      const Pair::Run disturbed = pair.run(g, static_cast<int64_t>(call));
      if (stop.stop_requested()) return false;  // what was stopped has no outputs
      for (size_t o = 0; o < base.outputs[g].size(); ++o) {
        for (int64_t i = 0; i < base.outputs[g][o].size(); ++i) {
          if (disturbed.outputs[g][o][i].p != base.outputs[g][o][i].p) cones[{o, i}].insert(it->second);
        }
      }
    }
  }
  std::set<std::set<int>> distinct;
  for (const auto& [entry, cone] : cones) distinct.insert(cone);

  return std::any_of(inputs.begin(), inputs.end(), [&](size_t input) {
    if (pair.sample().inputs[input].data.size() > kMostColumns) return false;
    std::vector<std::vector<uint64_t>> jacobian(representatives.size());
    for (int64_t i = 0; i < pair.sample().inputs[input].size(); ++i) {
      uint64_t& entry = pair.sample().inputs[input][i].q;
      const uint64_t kept = entry;
      entry = field.add(entry, field.one());
      const Pair::Run moved = pair.run();
      entry = kept;
      if (stop.stop_requested()) return false;
      for (size_t c = 0; c < representatives.size(); ++c) {
        const auto [g, call] = representatives[c];
        jacobian[c].push_back(field.sub(moved.arguments[g][call], base.arguments[g][call]));
      }
    }
    // The root of unity is random as well: ω^E with ω = g^r is g^(r·E), and r·E is linear in r times the input and in
    // r.
    for (size_t c = 0; root && c < representatives.size(); ++c) {
      const auto [g, call] = representatives[c];
      jacobian[c].push_back(base.arguments[g][call]);
    }
    return std::all_of(distinct.begin(), distinct.end(), [&](const std::set<int>& cone) {
      std::vector<std::vector<uint64_t>> rows;
      for (int c : cone) rows.push_back(jacobian[static_cast<size_t>(c)]);
      return full_rank(field, std::move(rows));
    });
  });
}

}  // namespace

bool exponents_independent(const Graph& reference, const Graph& candidate, const FieldPrimes& primes, uint64_t seed,
                           bool maxima_cancel, bool free, const std::stop_token& stop) {
  if (!exponentiates(reference) && !exponentiates(candidate)) return true;
  const std::vector<size_t> inputs = affine_inputs(reference, candidate, maxima_cancel, free);
  if (inputs.empty()) return false;
  const auto holds = [&](const Graph& first, const Graph& second, bool root) {
    return full_rank_at(first, second, inputs, root, primes, seed, maxima_cancel, free, stop);
  };
  // Masks shrink as well: which scores are masked matters to no other score's exponent. Where positions are factors of
  // scores they do not: multiples of one exponent are dependent, of which a smaller shape has fewer. Smaller masks may
  // hide all scores, or none: those that a larger one shows must be independent of each other, without the help of the
  // root, and what hides them must be one constant, whose exponent the root alone makes random.
  const bool counts = (has_iotas(reference) || has_iotas(candidate)) && only_hides_exponents(reference) &&
                      only_hides_exponents(candidate);
  if (counts) {
    const auto shrunk = shrink(reference, candidate, Shrinking::Masks);
    const auto all = [&](Masks masks) {
      const auto first = with_masks(*shrunk->first, masks), second = with_masks(*shrunk->second, masks);
      return first && second && holds(**first, **second, masks == Masks::Hide);
    };
    if (shrunk && holds(*shrunk->first, *shrunk->second, true) && all(Masks::Show) && all(Masks::Hide)) return true;
    if (stop.stop_requested()) return false;
  }
  const auto shrunk = shrink(reference, candidate, Shrinking::Sound);
  return shrunk && holds(*shrunk->first, *shrunk->second, true);
}

}  // namespace strata
