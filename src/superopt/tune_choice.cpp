// What follows from measurements: ranks, the choice, and the reasons.
#include <algorithm>
#include <cmath>

#include "runtime/compile.h"
#include "superopt/codegen/libraries.h"
#include "superopt/prove.h"
#include "superopt/tune.h"

namespace strata {

const TunedRow& Tuning::program() const {
  return *std::find_if(rows.begin(), rows.end(), [](const TunedRow& row) { return row.is_program; });
}

int Tuning::count(MeasureVerdict verdict) const {
  return static_cast<int>(
      std::count_if(rows.begin(), rows.end(), [&](const TunedRow& row) { return row.measurement.verdict == verdict; }));
}

int Tuning::corrected_place() const {
  return 1 + static_cast<int>(std::count_if(rows.begin(), rows.end(), [&](const TunedRow& row) {
           return row.measurement.verdict == MeasureVerdict::Right && row.corrected_us < result().corrected_us;
         }));
}

std::string Tuning::why_not(const TunedRow& row) const {
  const Measurement& m = row.measurement;
  if (&row == &rows[chosen]) return m.reason;
  if (m.verdict != MeasureVerdict::Right) return fmt::format("{}: {}", name_of(m.verdict), m.reason);
  if (rows[chosen].measurement.verdict != MeasureVerdict::Right) return "the model's choice was not measured";
  return fmt::format("{:.2f}x slower", m.cold_us / rows[chosen].measurement.cold_us);
}

std::string row_label(const TunedRow& row) { return label(row.schedules) + (row.grouped ? "" : " apart"); }

std::optional<double> rank_correlation(const std::vector<std::pair<double, double>>& pairs) {
  if (pairs.size() < 3) return std::nullopt;
  const auto ranks = [&](auto value) {
    std::vector<double> of(pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      for (const auto& other : pairs) {
        if (value(other) < value(pairs[i])) of[i] += 1;
        if (value(other) == value(pairs[i])) of[i] += 0.5;
      }
      of[i] -= static_cast<double>(pairs.size()) / 2;  // the mean
    }
    return of;
  };
  const std::vector<double> a = ranks([](const auto& pair) { return pair.first; });
  const std::vector<double> b = ranks([](const auto& pair) { return pair.second; });
  double both = 0;
  double of_a = 0;
  double of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += a[i] * b[i];
    of_a += a[i] * a[i];
    of_b += b[i] * b[i];
  }
  if (of_a == 0 || of_b == 0) return std::nullopt;
  return both / std::sqrt(of_a * of_b);
}

namespace {

/// The share of the time that is left for proofs; the rest compiles.
constexpr double kProofShare = 0.6;

/// The rows in the order in which they are taken, should those before be turned down: the fastest that are right; where
/// the choice is a guess, the model's next guesses; at last the program.
std::vector<size_t> order_of_choice(const Tuning& tuning) {
  const auto place_of = [&](const TunedRow& row) { return static_cast<size_t>(&row - tuning.rows.data()); };
  std::vector<size_t> order{tuning.chosen};
  std::vector<size_t> guesses;
  for (const TunedRow& row : tuning.rows) {
    if (row.measurement.verdict == MeasureVerdict::Right) order.push_back(place_of(row));
    if (row.measurement.verdict == MeasureVerdict::NotMeasured) guesses.push_back(place_of(row));
  }
  if (tuning.result().measurement.verdict == MeasureVerdict::NotMeasured) {
    std::stable_sort(guesses.begin(), guesses.end(),
                     [&](size_t a, size_t b) { return tuning.rows[a].place < tuning.rows[b].place; });
    order.insert(order.end(), guesses.begin(), guesses.end());
  }
  order.push_back(place_of(tuning.program()));
  return order;
}

/// Chooses the first row in the order of choice whose graph holds at full shape.
void choose_proved(Superoptimized& result, Tuning& tuning, const SuperoptimizeOptions& proofs) {
  const std::vector<size_t> rows = order_of_choice(tuning);
  std::vector<size_t> candidates;
  for (const size_t row : rows) {
    const int candidate = tuning.rows[row].candidate;
    if (tuning.rows[row].is_program || candidate < 0) break;  // it needs no proof
    const auto c = static_cast<size_t>(candidate);
    if (std::find(candidates.begin(), candidates.end(), c) == candidates.end()) candidates.push_back(c);
  }
  first_proved(result.candidates, candidates, proofs, proofs.deadline.value_or(Deadline()).share(kProofShare));
  const auto refuted = [&](const TunedRow& row) {
    return row.candidate < 0 ? std::string() : refutation(result.candidates[static_cast<size_t>(row.candidate)]);
  };
  const size_t chosen =
      *std::find_if(rows.begin(), rows.end(), [&](size_t row) { return refuted(tuning.rows[row]).empty(); });
  // What is turned down leaves rows and candidates.
  std::vector<TunedRow> kept;
  for (size_t i = 0; i < tuning.rows.size(); ++i) {
    if (!refuted(tuning.rows[i]).empty()) continue;
    if (i == chosen) tuning.chosen = kept.size();
    kept.push_back(tuning.rows[i]);
  }
  tuning.rows = std::move(kept);
  for (size_t c = result.candidates.size(); c-- > 0;) {
    const std::string reason = refutation(result.candidates[c]);
    if (reason.empty()) continue;
    if (result.unproved++ == 0) result.unproved_reason = reason;
    result.candidates.erase(result.candidates.begin() + static_cast<std::ptrdiff_t>(c));
    for (TunedRow& row : tuning.rows) row.candidate -= row.candidate > static_cast<int>(c) ? 1 : 0;
  }
}

}  // namespace

Result<void> take_chosen(Superoptimized& result, Tuning& tuning, const TuneOptions& options,
                         const SuperoptimizeOptions& proofs) {
  choose_proved(result, tuning, proofs);
  TunedRow& chosen = tuning.rows[tuning.chosen];
  const int from = chosen.candidate;
  const auto begin = result.candidates.begin();
  if (from < 0) {
    result.candidates.insert(begin, as_candidate(result.program, *options.target));
  } else {
    std::rotate(begin, begin + from, begin + from + 1);
  }
  for (TunedRow& row : tuning.rows) {
    if (row.candidate == from) {
      row.candidate = 0;
    } else if (row.candidate >= 0 && (from < 0 || row.candidate < from)) {
      ++row.candidate;
    }
  }
  if (from != 0 && !result.whole_check.empty() && chosen.measurement.verdict == MeasureVerdict::Right) {
    result.whole_check = fmt::format(
        "on the GPU it agrees with {}, error {:.2e}{}", tuning.reference, chosen.measurement.error,
        chosen.measured_at.empty() ? "" : fmt::format(" (from the cache; measured {})", chosen.measured_at));
  }
  Candidate& first = result.candidates.front();
  first.schedules = chosen.schedules;
  first.cost = scheduled_cost(*first.graph, *options.target, library_part(first.schedules));
  const Deadline whole = proofs.deadline.value_or(Deadline());
  Passes passes = options.passes;
  passes.grouping = passes.grouping && chosen.grouped;
  passes.libraries = passes.libraries && !tuning.device.cublas_lt.empty();  // of emitters' products
  STRATA_TRY(result.code, generate_cuda(*chosen.graph, *options.target, chosen.schedules, passes));
  first.cost = generated_cost(first.cost, *first.graph, *options.target, result.code);
  auto cubin = options.compile ? options.compile(result.code.source)
                               : cubin_of(result.code.source, *options.target, options.cache, whole.token());
  result.cubin.clear();
  result.compile_error.reset();
  if (cubin) {
    result.cubin = std::move(*cubin);
  } else {
    result.compile_error = cubin.error();
  }
  return {};
}

}  // namespace strata
