#include "superopt/solver/cut_points.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "interpret/interpret.h"
#include "superopt/verify/domains.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/reductions.h"
#include "superopt/verify/sample.h"
#include "superopt/verify/subgraph.h"

namespace strata {
namespace {

/// What a tensor is on some samples: equal for tensors that are alike.
using Fingerprint = std::pair<Shape, std::vector<uint64_t>>;

/// By TensorId, of both programs; free operators and maxima are random functions.
Result<std::array<std::vector<Fingerprint>, 2>> fingerprints(const Graph& reference, const Graph& candidate,
                                                             const VerifyOptions& options) {
  constexpr uint64_t kSamples = 2;
  std::array<std::vector<Fingerprint>, 2> all;
  for (uint64_t n = 0; n < kSamples; ++n) {
    const Sampler sampler(reference, draw_field_primes(mix(options.seed + n)), true);
    FieldSample sample = sampler.draw(mix(options.seed ^ n), options.stop);
    for (size_t g = 0; g < 2; ++g) {
      const Graph& graph = g == 0 ? reference : candidate;
      const auto free = free_operators(graph);
      if (!free) return all;
      if (g == 1) sample.inputs = reordered(std::move(sample.inputs), input_order(reference, candidate));
      FieldArithmetic arithmetic = sample.arithmetic;
      arithmetic.free_operators = &*free;
      arithmetic.maximum = FieldArithmetic::Maximum::Free;
      arithmetic.wanted = FieldArithmetic::kResidueP;
      STRATA_TRY(const auto tensors, execute_all(graph, arithmetic, sample.inputs, options.stop));
      all[g].resize(tensors.size());
      for (size_t id = 0; id < tensors.size(); ++id) {
        all[g][id].first = tensors[id].shape;
        Hasher hasher;
        for (const auto& value : tensors[id].data) hasher.add(value.p);
        all[g][id].second.push_back(hasher.value());
      }
    }
  }
  return all;
}

/// Whether all that the candidate computes of its tensor `found` is undefined, in the reference, wherever the
/// reference's tensor `given`, computed by `part`, is.
bool stays_in_domain(const Graph& reference, const Graph& part, TensorId given, const Graph& candidate,
                     TensorId found) {
  const auto free = free_operators(part);
  if (!undefined_on_region(part, free ? &*free : nullptr)) return true;
  for (size_t n = 0; n < candidate.outputs().size(); ++n) {
    if (ancestors(candidate, candidate.outputs()[n]).count(found) == 0) continue;
    std::vector<bool> output(reference.outputs().size(), false);
    output[n] = true;
    if (!read_wholly(reference, output)[static_cast<size_t>(given)]) return false;
  }
  return true;
}

std::string name_of_cut(size_t cut) { return fmt::format("cut_{}", cut); }

/// The graph with some tensors as inputs after its own, and without what only they needed.
Result<GraphPtr> with_cuts(const Graph& graph, const std::map<TensorId, size_t>& cut,
                           const std::vector<TensorType>& types) {
  GraphBuilder builder(Level::Kernel, graph.name());
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  for (TensorId id : graph.inputs()) {
    STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(graph.tensor(id).name, graph.type(id)));
  }
  std::vector<TensorId> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    STRATA_TRY(const TensorId id, builder.input(name_of_cut(i), types[i]));
    inputs.push_back(id);
  }
  std::vector<bool> needed(graph.tensors().size(), false);
  for (TensorId id : graph.outputs()) needed[static_cast<size_t>(id)] = true;
  for (size_t i = graph.operations().size(); i-- > 0;) {
    const Operation& op = graph.operations()[i];
    const bool computed = std::any_of(op.results.begin(), op.results.end(), [&](TensorId id) {
      return needed[static_cast<size_t>(id)] && cut.count(id) == 0;
    });
    if (!computed) continue;
    for (TensorId id : op.operands) needed[static_cast<size_t>(id)] = true;
  }
  for (const auto& [id, number] : cut) ids[static_cast<size_t>(id)] = inputs[number];
  for (const Operation& op : graph.operations()) {
    const bool computed = std::any_of(op.results.begin(), op.results.end(), [&](TensorId id) {
      return needed[static_cast<size_t>(id)] && cut.count(id) == 0;
    });
    if (!computed) continue;
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    std::vector<TensorId> results;
    if (op.body) {
      STRATA_TRY(results, builder.add(op.body, operands));
    } else {
      STRATA_TRY(const TensorId id, builder.add(op.kind, operands, op.attributes));
      results.push_back(id);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (cut.count(op.results[i]) == 0) ids[static_cast<size_t>(op.results[i])] = results[i];
    }
  }
  for (TensorId id : graph.outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
  return builder.finish();
}

}  // namespace

Result<std::optional<CutPrograms>> cut_common_reductions(const Graph& reference, const Graph& candidate,
                                                         const VerifyOptions& options) {
  STRATA_TRY(const auto prints, fingerprints(reference, candidate, options));
  if (prints[0].size() != reference.tensors().size() || prints[1].size() != candidate.tensors().size()) {
    return std::nullopt;
  }
  std::map<Fingerprint, TensorId> of_reference;
  for (size_t id = 0; id < prints[0].size(); ++id) of_reference.emplace(prints[0][id], static_cast<TensorId>(id));
  std::map<TensorId, size_t> numbers;  // of the reference's tensors that are cut
  std::map<TensorId, size_t> of_candidate;
  std::vector<TensorType> types;
  CutPrograms cut;
  for (const Operation& op : candidate.operations()) {
    if (!reduces_here(candidate, op)) continue;
    for (TensorId id : op.results) {
      const auto match = of_reference.find(prints[1][static_cast<size_t>(id)]);
      if (match == of_reference.end() || reference.type(match->second) != candidate.type(id)) continue;
      STRATA_TRY(const GraphPtr first, part_computing(reference, match->second));
      if (!stays_in_domain(reference, *first, match->second, candidate, id)) continue;
      STRATA_TRY(const GraphPtr second, part_computing(candidate, id));
      STRATA_TRY(const VerifyResult verified, verify(*first, *second, options));
      if (verified.verdict != Verdict::Equivalent) continue;
      cut.error_bound += verified.error_bound;
      const auto [number, added] = numbers.emplace(match->second, types.size());
      if (added) types.push_back(candidate.type(id));
      of_candidate.emplace(id, number->second);
    }
  }
  if (types.empty()) return std::nullopt;
  STRATA_TRY(cut.reference, with_cuts(reference, numbers, types));
  STRATA_TRY(cut.candidate, with_cuts(candidate, of_candidate, types));
  cut.cuts = types.size();
  return cut;
}

}  // namespace strata
