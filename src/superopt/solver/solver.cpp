#include "superopt/solver/solver.h"

#include <chrono>
#include <cmath>

#include "interpret/interpret.h"
#include "interpret/work.h"
#include "superopt/solver/cases.h"
#include "superopt/solver/conditions.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/shrink.h"
#include "support/hash.h"
#include "support/random.h"

namespace strata {
namespace {

using Inputs = std::vector<Tensor<double>>;
using Symbols = std::vector<Tensor<SymbolicValue>>;
using Clock = std::chrono::steady_clock;

/// Rounding in float64 stays below, relative to an output's largest entry, or to intermediates where that is 0.
constexpr double kReal = 1e-6;
constexpr double kRealAbsolute = 1e-9;
constexpr int kFloatTests = 4;
constexpr int kFewFloatTests = 2;
constexpr int kNearby = 8;
constexpr int kExactTests = 24;
/// Programs above are executed at shrunk shapes only, or not at all.
constexpr double kMostFloatWork = 2e8;
constexpr double kMostSymbolicWork = 4e5;
/// Above, smaller shapes are tried first where there are any.
constexpr double kQuickSymbolicWork = 2e3;

enum class Shapes { Full, Sound, Loose };

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

/// Whether it compares: where it does, rounding may be seen in full.
bool has_steps(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(), [](const Operation& op) {
    return op.body ? has_steps(*op.body) : op.kind == OpKind::Greater || op.kind == OpKind::Select;
  });
}

/// Entries of both signs, such that rows of matrices have length 1 or so; of one test all positive, so that roots are
/// defined.
Inputs draw(const Graph& graph, uint64_t seed, int test) {
  Random random(mix(seed + static_cast<uint64_t>(test)));
  Inputs inputs;
  for (TensorId id : graph.inputs()) {
    const Shape& shape = graph.type(id).shape;
    Tensor<double>& input = inputs.emplace_back(shape);
    const double scale = shape.size() > 1 ? 1 / std::sqrt(static_cast<double>(shape.back())) : 1;
    for (double& x : input.data) {
      x = (test == 2 ? 5 : 2) * scale * (2 * random.uniform() - 1);
      if (test == 1) x = std::fabs(x);
    }
  }
  return inputs;
}

std::vector<Condition> conditions_of(Formulas& formulas, const Symbols& outputs) {
  std::vector<SymbolicValue> values;
  for (const auto& output : outputs) values.insert(values.end(), output.data.begin(), output.data.end());
  return formulas.conditions_of(values);
}

class Proof {
 public:
  Proof(const Graph& reference, const Graph& candidate, const SolverOptions& options)
      : reference_(reference),
        candidate_(candidate),
        options_(options),
        deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(std::min(options.time_limit, 1e6)))) {}

  Result<SolverResult> run() {
    STRATA_CHECK(check_interface(reference_, candidate_));
    STRATA_CHECK(attempt());
    if (options_.stop.stop_requested()) {
      return tl::unexpected(Error{ErrorCode::Interrupted, "the proof was stopped", {}, {}});
    }
    return std::move(result_);
  }

 private:
  double seconds_left() const { return std::chrono::duration<double>(deadline_ - Clock::now()).count(); }
  void step(std::string text) { result_.steps.push_back(std::move(text)); }
  Result<void> undecided(std::string reason) {
    result_.reason = std::move(reason);
    return {};
  }

  Result<void> attempt() {
    const auto sound = shrink(reference_, candidate_, Shrinking::Sound);
    const auto loose = shrink(reference_, candidate_, Shrinking::Loose);
    const Programs full{reference_, candidate_, Shapes::Full};
    const Programs small = sound ? Programs{*sound->first, *sound->second, Shapes::Sound} : full;
    const Programs smallest = loose ? Programs{*loose->first, *loose->second, Shapes::Loose} : small;
    const bool fits = full.work() <= kMostFloatWork;
    if (fits) STRATA_CHECK(random_tests(full));
    if (!fits && small.shapes == Shapes::Sound) STRATA_CHECK(random_tests(small));
    if (result_.verdict == Verdict::Different) return {};
    // Where a size may be a factor of a result, a proof at other sizes needs the tests at full shape beside it.
    const bool smaller = !same_structure(smallest.reference, small.reference);
    if (!smaller || small.work() <= kQuickSymbolicWork || !full_shape_agrees_) STRATA_CHECK(prove(small));
    if (result_.verdict == Verdict::Undecided && smaller && full_shape_agrees_) {
      if (!result_.reason.empty()) step(std::exchange(result_.reason, {}));
      result_.entries = result_.by_normal_form = result_.by_cases = result_.by_z3 = 0;
      STRATA_CHECK(prove(smallest));
    }
    return {};
  }

  // --- float64 ---
  struct Difference {
    size_t output;
    int64_t entry;
    double expected, found;
  };

  /// The first entry that differs on these inputs, or whether `only` does. Where the reference is not defined nothing
  /// is compared.
  Result<std::optional<Difference>> find_difference(const Programs& programs, const Inputs& inputs,
                                                    const std::optional<Difference>& only = std::nullopt) {
    const Graph& a = programs.reference;
    const Graph& b = programs.candidate;
    Float64Arithmetic arithmetic;
    STRATA_TRY(const Inputs expected, execute(a, arithmetic, inputs, options_.stop));
    STRATA_TRY(const Inputs found, execute(b, arithmetic, reordered(inputs, input_order(a, b)), options_.stop));
    for (size_t o = 0; o < expected.size(); ++o) {
      double largest = kRealAbsolute / kReal;
      for (double x : expected[o].data) {
        if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
      }
      for (int64_t i = 0; i < expected[o].size(); ++i) {
        if (only && (only->output != o || only->entry != i)) continue;
        const double x = expected[o][i];
        const double y = found[o][i];
        if (!std::isfinite(x) || (std::isfinite(y) && std::fabs(x - y) <= kReal * largest)) continue;
        return Difference{o, i, x, y};
      }
    }
    return std::nullopt;
  }

  void different(const Programs& programs, const Inputs& inputs, const Difference& at, std::string_view how) {
    const Graph& a = programs.reference;
    const TensorInfo& output = a.tensor(a.outputs()[at.output]);
    SolverCounterexample example{output.name, index_of(at.entry, output.type.shape), at.expected,
                                 at.found,    programs.shapes != Shapes::Full,       {}};
    for (size_t n = 0; n < inputs.size(); ++n) {
      example.inputs.emplace_back(a.tensor(a.inputs()[n]).name, inputs[n]);
    }
    result_.verdict = Verdict::Different;
    result_.reason = fmt::format("'{}' differs at {} in float64, {}", example.output, to_string(example.index), how);
    result_.counterexample = std::move(example);
  }

  /// Whether the difference is of the programs and not of float64: an overflow goes away where the inputs are smaller,
  /// and a comparison of equal numbers that rounding decides goes the other way somewhere nearby.
  Result<bool> persists(const Programs& programs, const Inputs& inputs, const Difference& at) {
    Random random(options_.seed);
    const bool overflow = !std::isfinite(at.found);
    const int tests = overflow ? 1 : has_steps(programs.reference) || has_steps(programs.candidate) ? kNearby : 0;
    for (int test = 0; test < tests; ++test) {
      Inputs nearby = inputs;
      for (auto& input : nearby) {
        for (double& x : input.data) x *= overflow ? 1.0 / 16 : 1 + 1e-9 * random.uniform();
      }
      STRATA_TRY(const auto still, find_difference(programs, nearby, at));
      if (!still) return false;
    }
    return true;
  }

  Result<void> random_tests(const Programs& programs) {
    const int tests = programs.work() > kMostFloatWork / 10 ? kFewFloatTests : kFloatTests;
    for (int test = 0; test < tests; ++test) {
      const Inputs inputs = draw(programs.reference, options_.seed, test);
      STRATA_TRY(const auto at, find_difference(programs, inputs));
      if (!at) continue;
      STRATA_TRY(const bool real, persists(programs, inputs, *at));
      if (real) {
        different(programs, inputs, *at, "on random inputs");
        return {};
      }
      step("a difference in float64 is one of rounding or overflow");
      return {};
    }
    full_shape_agrees_ = programs.shapes == Shapes::Full;
    step(fmt::format("{} random float64 tests at {} shape agree", tests, full_shape_agrees_ ? "full" : "shrunk"));
    return {};
  }

  // --- formulas ---
  Result<Symbols> execute_symbolically(const Graph& graph, Formulas& formulas, const Symbols& inputs,
                                       const std::vector<size_t>& order) {
    SymbolicArithmetic arithmetic{formulas};
    return execute(graph, arithmetic, reordered(inputs, order), options_.stop);
  }

  Result<void> prove(const Programs& programs) {
    const Graph& a = programs.reference;
    const Graph& b = programs.candidate;
    if (programs.work() > kMostSymbolicWork) return undecided("the programs are too large even at small shapes");
    result_.shrunk = !same_structure(a, reference_);
    const std::vector<size_t> order = input_order(a, b);
    std::vector<size_t> same(a.inputs().size());
    for (size_t i = 0; i < same.size(); ++i) same[i] = i;
    Formulas formulas({deadline_, options_.stop});
    Symbols inputs;
    for (size_t n = 0; n < a.inputs().size(); ++n) {
      const TensorInfo& info = a.tensor(a.inputs()[n]);
      Tensor<SymbolicValue>& input = inputs.emplace_back(info.type.shape);
      for (int64_t i = 0; i < input.size(); ++i) {
        input[i] = formulas.input(fmt::format("{}{}", info.name, to_string(index_of(i, info.type.shape))));
      }
    }
    STRATA_TRY(const Symbols expected, execute_symbolically(a, formulas, inputs, same));
    const std::vector<Condition> assumed = conditions_of(formulas, expected);
    STRATA_TRY(const Symbols found, execute_symbolically(b, formulas, inputs, order));
    const std::vector<Condition> needed = conditions_of(formulas, found);
    if (!formulas.failure().empty()) return undecided(formulas.failure());

    // Both programs are defined wherever equality is asked for; that the candidate is so comes last.
    const std::vector<Condition> both = together(formulas, assumed, needed);
    const Defined defined = formulas.defined_by(both);
    std::vector<Polynomial> differences;
    for (size_t o = 0; o < expected.size(); ++o) {
      for (int64_t i = 0; i < expected[o].size(); ++i) {
        ++result_.entries;
        Polynomial difference = formulas[expected[o][i]] - formulas[found[o][i]];
        difference = formulas.without_denominators(std::move(difference), defined);
        if (!formulas.failure().empty()) return undecided(formulas.failure());
        if (difference.empty()) {
          ++result_.by_normal_form;
        } else {
          differences.push_back(std::move(difference));
        }
      }
    }
    step(fmt::format("{} of {} entries have equal normal forms", result_.by_normal_form, result_.entries));
    if (!differences.empty()) {
      STRATA_CHECK(exact_tests(programs));
      if (result_.verdict == Verdict::Different) return {};
    }
    for (Polynomial& difference : differences) {
      const std::vector<Condition> conditions = about(formulas, both, difference);
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
    if (const auto missing = not_implied(formulas, assumed, needed, {deadline_, options_.stop})) {
      return undecided(fmt::format("the candidate {} of something that may be {} where the reference is defined",
                                   missing->nonzero ? "takes a quotient" : "takes a root",
                                   missing->nonzero ? "0" : "negative"));
    }
    result_.verdict = Verdict::Equivalent;
    result_.argument = argument(programs);
    return {};
  }

  std::string argument(const Programs& programs) const {
    const Graph& a = programs.reference;
    std::string shapes;
    for (TensorId id : a.inputs()) {
      shapes += fmt::format("{}{}{}", shapes.empty() ? "" : ", ", a.tensor(id).name, to_string(a.type(id).shape));
    }
    const char* bounded = !result_.shrunk ? ""
                          : programs.shapes == Shapes::Sound
                              ? " (bounded: shapes are shrunk)"
                              : " (bounded: shapes are shrunk, with random tests at full shape)";
    const std::string by_cases = result_.by_cases == 0 ? "" : fmt::format("{} by cases, ", result_.by_cases);
    return fmt::format("{} entries by normal form, {}{} by Z3, at {}{}", result_.by_normal_form, by_cases,
                       result_.by_z3, shapes, bounded);
  }

  /// Small integers, where comparisons meet equal numbers, in exact arithmetic.
  Result<void> exact_tests(const Programs& programs) {
    if (programs.shapes == Shapes::Loose) return {};
    const Graph& a = programs.reference;
    const Graph& b = programs.candidate;
    Random random(mix(options_.seed));
    const std::vector<size_t> order = input_order(a, b);
    std::vector<size_t> same(order.size());
    for (size_t i = 0; i < same.size(); ++i) same[i] = i;
    for (int test = 0; test < kExactTests && seconds_left() > 0; ++test) {
      Formulas numbers({deadline_, options_.stop});
      Inputs inputs;
      Symbols symbols;
      for (TensorId id : a.inputs()) {
        Tensor<double>& input = inputs.emplace_back(a.type(id).shape);
        Tensor<SymbolicValue>& symbol = symbols.emplace_back(a.type(id).shape);
        for (int64_t i = 0; i < input.size(); ++i) {
          const auto n = static_cast<int64_t>(random.below(5)) - 2;
          input[i] = static_cast<double>(n);
          symbol[i] = numbers.constant({n, 1});
        }
      }
      STRATA_TRY(const Symbols expected, execute_symbolically(a, numbers, symbols, same));
      STRATA_TRY(const Symbols found, execute_symbolically(b, numbers, symbols, order));
      if (!numbers.failure().empty()) continue;
      bool unequal = false;
      for (size_t o = 0; o < expected.size(); ++o) {
        for (int64_t i = 0; i < expected[o].size(); ++i) {
          const auto x = constant_of(numbers[expected[o][i]]);
          const auto y = constant_of(numbers[found[o][i]]);
          unequal |= x && y && *x != *y;
        }
      }
      if (!unequal) continue;
      STRATA_TRY(const auto at, find_difference(programs, inputs));
      if (!at) continue;
      different(programs, inputs, *at, "on small integers");
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
      STRATA_CHECK(undecided(fmt::format("Z3 gives up within {:g} s: {}", options_.time_limit, answer.reason)));
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
    if (programs.shapes == Shapes::Loose) {
      STRATA_CHECK(undecided("the programs differ at shapes at which equal ones may"));
      return false;
    }
    STRATA_TRY(const auto at, find_difference(programs, model));
    if (at) {
      different(programs, model, *at, "on inputs that Z3 found");
    } else {
      STRATA_CHECK(undecided("Z3 finds inputs on which float64 shows no difference"));
    }
    return false;
  }

  const Graph& reference_;
  const Graph& candidate_;
  const SolverOptions& options_;
  Clock::time_point deadline_;
  bool full_shape_agrees_ = false;  ///< on random inputs, in float64
  SolverResult result_;
};

}  // namespace

Result<SolverResult> prove_with_solver(const Graph& reference, const Graph& candidate, const SolverOptions& options) {
  return Proof(reference, candidate, options).run();
}

}  // namespace strata
