#include "superopt/solver/solver.h"

#include <chrono>
#include <cmath>
#include <map>

#include "interpret/interpret.h"
#include "interpret/work.h"
#include "superopt/solver/cases.h"
#include "superopt/solver/conditions.h"
#include "superopt/solver/cut_points.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/memory.h"
#include "superopt/verify/reals.h"
#include "superopt/verify/reductions.h"
#include "support/deadline.h"
#include "support/hash.h"
#include "support/random.h"

namespace strata {
namespace {

using Inputs = std::vector<Tensor<double>>;
using Symbols = std::vector<Tensor<SymbolicValue>>;
using Clock = std::chrono::steady_clock;

constexpr int kExactTests = 24;
/// A difference at one point need not be one on a region. At kExactPoints around it, each entry drawn of kExactSteps
/// numbers, a set without volume (a kink, the zeros of a polynomial) is met each time by a chance of one in billions.
constexpr int kExactPoints = 6;
constexpr int64_t kExactStep = 4096;  ///< of one
constexpr uint64_t kExactSteps = 2049;
/// Programs above are not executed symbolically.
constexpr double kMostSymbolicWork = 4e5;
/// Programs above are not executed to find what they have in common.
constexpr double kMostCutWork = 3e8;
/// Programs above are tested at small shapes where no size matters, this many times.
constexpr double kLargeWork = 1e6;
constexpr uint64_t kSmallRounds = 16;

enum class Shapes { Full, Shrunk };

/// Two programs at common shapes.
struct Programs {
  const Graph& reference;
  const Graph& candidate;
  Shapes shapes;

  double work() const { return std::max(execution_work(reference), execution_work(candidate)); }
};

std::vector<int64_t> index_of(int64_t linear, const Shape& shape) {
  std::vector<int64_t> index;
  for (int64_t stride : row_major_strides(shape)) {
    index.push_back(linear / stride);
    linear %= stride;
  }
  return index;
}

/// By output: each is compared wherever it is defined itself.
using ConditionsByOutput = std::vector<std::vector<Condition>>;

ConditionsByOutput conditions_of(Formulas& formulas, const Symbols& outputs) {
  ConditionsByOutput conditions;
  for (const auto& output : outputs) conditions.push_back(formulas.conditions_of(output.data));
  return conditions;
}

class Proof {
 public:
  Proof(const Graph& reference, const Graph& candidate, const SolverOptions& options)
      : reference_(reference),
        candidate_(candidate),
        options_(options),
        limit_(std::min(options.time_limit, 1e6), options.stop),
        stop_(limit_.token()),
        deadline_(Clock::now() +
                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_.seconds_left()))) {}

  Result<SolverResult> run() {
    STRATA_CHECK(check_interface(reference_, candidate_));
    const auto attempted = attempt();
    if (!attempted && attempted.error().code != ErrorCode::Interrupted) return tl::unexpected(attempted.error());
    if (!attempted) STRATA_CHECK(undecided("time is up"));
    if (options_.stop.stop_requested()) {
      return tl::unexpected(Error{ErrorCode::Interrupted, "the proof was stopped", {}, {}});
    }
    return std::move(result_);
  }

 private:
  void step(std::string text) { result_.steps.push_back(std::move(text)); }
  Result<void> undecided(std::string reason) {
    result_.reason = std::move(reason);
    return {};
  }

  /// At full shape where that is affordable. At smaller ones where no size matters: where nothing is summed, or only
  /// what both programs sum alike.
  Result<void> attempt() {
    const Programs full{reference_, candidate_, Shapes::Full};
    if (const auto small = alike_at_small_shapes(reference_, candidate_)) {
      const Programs shrunk{*small->first, *small->second, Shapes::Shrunk};
      const bool large = full.work() > kLargeWork && shrunk.work() < full.work();
      STRATA_CHECK(random_tests(large ? shrunk : full, large ? kSmallRounds : 1));
      if (result_.verdict == Verdict::Different) return {};
      return prove(shrunk);
    }
    STRATA_CHECK(random_tests(full));
    if (result_.verdict == Verdict::Different) return {};
    if (!reduces(reference_) && !reduces(candidate_)) return prove(full);
    if (full.work() <= kMostCutWork && check_field_memory(reference_, candidate_) && !limit_.passed()) {
      VerifyOptions options;
      options.seed = options_.seed;
      options.stop = stop_;
      STRATA_TRY(const std::optional<CutPrograms> cut, cut_common_reductions(reference_, candidate_, options));
      if (cut && !reduces(*cut->reference) && !reduces(*cut->candidate)) {
        const auto small = alike_at_small_shapes(*cut->reference, *cut->candidate);
        STRATA_CHECK(small ? prove({*small->first, *small->second, Shapes::Shrunk})
                           : prove({*cut->reference, *cut->candidate, Shapes::Full}));
        if (result_.verdict == Verdict::Equivalent) {
          result_.error_bound = cut->error_bound;
          result_.argument += fmt::format("; {} sums that both compute alike by random tests, error bound {:.3g}",
                                          cut->cuts, cut->error_bound);
          return {};
        }
        // What was found of the rest may be false of the programs.
        result_.verdict = Verdict::Undecided;
        result_.counterexample.reset();
        step("where common sums are cut out: " + std::exchange(result_.reason, {}));
        result_.entries = result_.by_normal_form = result_.by_cases = result_.by_z3 = 0;
      }
    }
    return prove(full);
  }

  // --- float64 ---
  void different(const Programs& programs, const RealDifference& at, std::string_view how) {
    const Graph& a = programs.reference;
    const TensorInfo& output = a.tensor(a.outputs()[at.output]);
    SolverCounterexample example{output.name, index_of(at.entry, output.type.shape), at.expected,
                                 at.found,    programs.shapes != Shapes::Full,       {}};
    const std::vector<TensorId> given = a.arguments();
    for (size_t n = 0; n < at.inputs.size(); ++n) {
      example.inputs.emplace_back(a.tensor(given[n]).name, at.inputs[n]);
    }
    result_.verdict = Verdict::Different;
    result_.reason = fmt::format("'{}' differs at {} {}", example.output, to_string(example.index), how);
    result_.counterexample = std::move(example);
  }

  RealCheckOptions reals() const { return {.seed = options_.seed, .stop = stop_}; }

  /// They may take half of the time. Small shapes have few entries, so there are several rounds of them.
  Result<void> random_tests(const Programs& programs, uint64_t rounds = 1) {
    const Deadline half = limit_.share(0.5);
    RealCheckOptions options = reals();
    options.stop = half.token();
    for (uint64_t round = 0; round < rounds && !half.passed(); ++round) {
      options.seed = round == 0 ? options_.seed : mix(options_.seed + round);
      const auto at = difference_over_reals(programs.reference, programs.candidate, options);
      if (!at && at.error().code != ErrorCode::Interrupted) return tl::unexpected(at.error());
      if (at && *at) {
        different(programs, **at, "in float64, on random inputs");
        return {};
      }
    }
    step(fmt::format("random float64 tests at {} agree, as far as they were affordable",
                     programs.shapes == Shapes::Full ? "full shape" : input_shapes(programs.reference)));
    return {};
  }

  // --- formulas ---
  Result<Symbols> execute_symbolically(const Graph& graph, Formulas& formulas, const Symbols& inputs,
                                       const std::vector<size_t>& order) {
    SymbolicArithmetic arithmetic{formulas};
    return execute(graph, arithmetic, reordered(inputs, order), stop_);
  }

  Result<void> prove(const Programs& programs) {
    const Graph& a = programs.reference;
    const Graph& b = programs.candidate;
    if (programs.work() > kMostSymbolicWork)
      return undecided("the programs are too large for formulas, and sizes may matter");
    result_.shrunk = !same_structure(a, reference_);
    const std::vector<size_t> order = input_order(a, b);
    const std::vector<TensorId> given = a.arguments();
    const size_t own = reference_.arguments().size();
    std::vector<size_t> same(given.size());
    for (size_t i = 0; i < same.size(); ++i) same[i] = i;
    Formulas formulas({deadline_, options_.stop});
    Symbols inputs;
    for (size_t n = 0; n < given.size(); ++n) {
      const TensorInfo& info = a.tensor(given[n]);
      Tensor<SymbolicValue>& input = inputs.emplace_back(info.type.shape);
      for (int64_t i = 0; i < input.size(); ++i) {
        // Beyond the programs' own are common sums that were cut out.
        input[i] = formulas.input(fmt::format("{}{}", info.name, to_string(index_of(i, info.type.shape))), n >= own);
      }
    }
    STRATA_TRY(const Symbols expected, execute_symbolically(a, formulas, inputs, same));
    const ConditionsByOutput assumed = conditions_of(formulas, expected);
    STRATA_TRY(const Symbols found, execute_symbolically(b, formulas, inputs, order));
    const ConditionsByOutput needed = conditions_of(formulas, found);
    if (!formulas.failure().empty()) return undecided(formulas.failure());

    // Both programs are defined wherever equality is asked for; that the candidate is so comes last.
    ConditionsByOutput both;
    std::vector<std::pair<size_t, Polynomial>> differences;  // with their outputs
    for (size_t o = 0; o < expected.size(); ++o) {
      both.push_back(together(formulas, assumed[o], needed[o]));
      const Defined defined = formulas.defined_by(both[o]);
      for (int64_t i = 0; i < expected[o].size(); ++i) {
        ++result_.entries;
        Polynomial difference = formulas[expected[o][i]] - formulas[found[o][i]];
        difference = formulas.without_denominators(std::move(difference), defined);
        if (!formulas.failure().empty()) return undecided(formulas.failure());
        if (difference.empty()) {
          ++result_.by_normal_form;
        } else {
          differences.emplace_back(o, std::move(difference));
        }
      }
    }
    step(fmt::format("{} of {} entries have equal normal forms", result_.by_normal_form, result_.entries));
    if (!differences.empty()) {
      STRATA_CHECK(exact_tests(programs));
      if (result_.verdict == Verdict::Different) return {};
    }
    for (auto& [output, difference] : differences) {
      const std::vector<Condition> conditions = about(formulas, both[output], difference);
      if (Cases(formulas, {deadline_, options_.stop}).vanishes(difference, conditions)) {
        ++result_.by_cases;
        continue;
      }
      STRATA_TRY(const bool proved, ask_z3(programs, formulas, inputs, conditions, std::move(difference)));
      if (!proved) return {};
    }
    if (!differences.empty()) {
      step(fmt::format("cases of signs show {} entries, Z3 {}", result_.by_cases, result_.by_z3));
    }
    for (size_t o = 0; o < expected.size(); ++o) {
      const auto missing = not_implied(formulas, assumed[o], needed[o], {deadline_, options_.stop});
      if (!missing) continue;
      return undecided(fmt::format("the candidate {} of something that may be {} where the reference is defined",
                                   missing->nonzero ? "takes a quotient" : "takes a root",
                                   missing->nonzero ? "0" : "negative"));
    }
    result_.verdict = Verdict::Equivalent;
    result_.argument = argument(programs);
    return {};
  }

  std::string argument(const Programs& programs) const {
    const char* bounded = result_.shrunk ? " (no size matters)" : "";
    const std::string by_cases = result_.by_cases == 0 ? "" : fmt::format("{} by cases, ", result_.by_cases);
    return fmt::format("{} entries by normal form, {}{} by Z3, at {}{}", result_.by_normal_form, by_cases,
                       result_.by_z3, input_shapes(programs.reference), bounded);
  }

  using RationalInputs = std::vector<Tensor<Rational>>;
  /// Output and entry, with what both programs have there.
  using UnequalEntries = std::map<std::pair<size_t, int64_t>, std::pair<Number, Number>>;

  static Inputs in_float64(const RationalInputs& inputs) {
    Inputs converted;
    for (const auto& input : inputs) {
      Tensor<double>& values = converted.emplace_back(input.shape);
      for (int64_t i = 0; i < values.size(); ++i) values[i] = input[i].to_double();
    }
    return converted;
  }

  /// The entries at which both programs are defined and have two rational values.
  Result<UnequalEntries> unequal_entries(const Programs& programs, const RationalInputs& inputs) {
    const std::vector<size_t> order = input_order(programs.reference, programs.candidate);
    std::vector<size_t> same(order.size());
    for (size_t i = 0; i < same.size(); ++i) same[i] = i;
    Formulas numbers({deadline_, options_.stop});
    Symbols symbols;
    for (const auto& input : inputs) {
      Tensor<SymbolicValue>& symbol = symbols.emplace_back(input.shape);
      for (int64_t i = 0; i < input.size(); ++i) symbol[i] = numbers.constant(input[i]);
    }
    STRATA_TRY(const Symbols expected, execute_symbolically(programs.reference, numbers, symbols, same));
    STRATA_TRY(const Symbols found, execute_symbolically(programs.candidate, numbers, symbols, order));
    UnequalEntries entries;
    if (!numbers.failure().empty()) return entries;
    for (size_t o = 0; o < expected.size(); ++o) {
      for (int64_t i = 0; i < expected[o].size(); ++i) {
        const std::array both{expected[o][i], found[o][i]};
        const auto x = constant_of(numbers[both[0]]);
        const auto y = constant_of(numbers[both[1]]);
        if (!x || !y || !x->valid() || !y->valid() || *x == *y) continue;
        // Of numbers those conditions are left that do not hold.
        if (numbers.conditions_of(both).empty() && numbers.failure().empty()) entries[{o, i}] = {*x, *y};
      }
    }
    return entries;
  }

  /// An entry at which the programs differ at all of several points around the inputs.
  Result<std::optional<RealDifference>> exact_difference_near(const Programs& programs, const RationalInputs& inputs,
                                                              UnequalEntries entries, Random& random) {
    std::optional<RealDifference> last;
    for (int point = 0; point < kExactPoints; ++point) {
      RationalInputs here = inputs;
      for (auto& input : here) {
        for (Rational& x : input.data) {
          const int64_t steps = static_cast<int64_t>(random.below(kExactSteps)) - static_cast<int64_t>(kExactSteps / 2);
          STRATA_TRY(x, make_rational(x.num * kExactStep + steps, kExactStep));
        }
      }
      STRATA_TRY(const UnequalEntries now, unequal_entries(programs, here));
      std::erase_if(entries, [&](const auto& entry) { return !now.contains(entry.first); });
      if (entries.empty()) return std::nullopt;
      const auto& [place, values] = *now.find(entries.begin()->first);
      const auto number = [](const Number& n) { return static_cast<double>(n.num) / static_cast<double>(n.den); };
      last = RealDifference{place.first, place.second, number(values.first), number(values.second), in_float64(here)};
    }
    return last;
  }

  /// Small integers, where comparisons meet equal numbers, in exact arithmetic.
  Result<void> exact_tests(const Programs& programs) {
    const Graph& a = programs.reference;
    Random random(mix(options_.seed));
    for (int test = 0; test < kExactTests && !limit_.passed(); ++test) {
      RationalInputs inputs;
      for (TensorId id : a.arguments()) {
        for (Rational& x : inputs.emplace_back(a.type(id).shape).data)
          x = {static_cast<int64_t>(random.below(5)) - 2, 1};
      }
      STRATA_TRY(const auto entries, unequal_entries(programs, inputs));
      if (entries.empty()) continue;
      STRATA_TRY(const auto at, difference_near(a, programs.candidate, in_float64(inputs), reals()));
      if (at) {
        different(programs, *at, "in float64, near small integers");
        return {};
      }
      // Rounding may decide what rational numbers tell apart: √x² − x is 0 for x > 0, and in float64 almost 0.
      STRATA_TRY(const auto exact, exact_difference_near(programs, inputs, entries, random));
      if (!exact) continue;
      different(programs, *exact, "in exact arithmetic, near small integers");
      return {};
    }
    step(fmt::format("{} exact tests on small integers agree", kExactTests));
    return {};
  }

  // --- Z3 ---
  /// True if the entry is proved; otherwise the result says what happened.
  Result<bool> ask_z3(const Programs& programs, Formulas& formulas, const Symbols& inputs,
                      const std::vector<Condition>& conditions, Polynomial difference) {
    std::vector<Constraint> constraints = constraints_of(conditions);
    constraints.push_back({std::move(difference), Relation::NotZero});
    const Defined defined = formulas.defined_by(conditions);
    const Z3Answer answer = satisfiable(formulas, constraints, defined, {deadline_, options_.stop});
    if (answer.satisfiable == Satisfiable::No) {
      ++result_.by_z3;
      return true;
    }
    if (answer.satisfiable == Satisfiable::Unknown) {
      const bool late = Clock::now() >= deadline_ || answer.reason.find("timeout") != std::string::npos ||
                        answer.reason.find("canceled") != std::string::npos;
      const std::string within = late ? fmt::format(" within {:g} s", options_.time_limit) : "";
      STRATA_CHECK(undecided(fmt::format("Z3 gives up{}: {}", within, answer.reason)));
      return false;
    }
    Inputs model;
    for (const auto& input : inputs) {
      Tensor<double>& values = model.emplace_back(input.shape);
      for (int64_t i = 0; i < input.size(); ++i) {
        const auto it = answer.inputs.find(formulas[input[i]][0].monomial[0].atom);
        values[i] = it == answer.inputs.end() ? 1 : it->second;
      }
    }
    STRATA_TRY(const auto at, difference_near(programs.reference, programs.candidate, model, reals()));
    if (at) {
      different(programs, *at, "in float64, near inputs that Z3 found");
    } else {
      STRATA_CHECK(undecided("Z3 finds inputs on which float64 shows no difference"));
    }
    return false;
  }

  const Graph& reference_;
  const Graph& candidate_;
  const SolverOptions& options_;
  Deadline limit_;
  std::stop_token stop_;  ///< the limit's
  Clock::time_point deadline_;
  bool full_shape_agrees_ = false;  ///< on random inputs, in float64
  SolverResult result_;
};

}  // namespace

Result<SolverResult> prove_with_solver(const Graph& reference, const Graph& candidate, const SolverOptions& options) {
  return Proof(reference, candidate, options).run();
}

}  // namespace strata
