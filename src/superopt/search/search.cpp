#include "superopt/search/search.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <set>
#include <thread>
#include <tuple>

#include "ir/text.h"
#include "superopt/search/unit_search.h"
#include "support/parallel.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxGridRank = 3;
constexpr int kMaxBlockInputs = 5;
/// Of all stages: programs of many axes have more than memory, or any time limit, has room for.
constexpr int64_t kMaxSpaces = 1 << 16;

/// Requests a stop at the deadline or when the caller does, and reports progress meanwhile.
class Monitor {
 public:
  Monitor(const SearchOptions& options, std::stop_source& source, std::function<void()> report)
      : thread_([this, &options, &source, report = std::move(report)](const std::stop_token& ended) {
          const auto start = Clock::now();
          std::unique_lock lock(mutex_);
          while (!ended.stop_requested()) {
            wake_.wait_for(lock, ended, std::chrono::milliseconds(100), [] { return false; });
            const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
            if (options.time_limit > 0 && seconds >= options.time_limit) {
              timed_out_ = true;
              source.request_stop();
            }
            if (options.stop.stop_requested()) source.request_stop();
            report();
          }
        }) {}
  bool timed_out() const { return timed_out_; }

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::atomic<bool> timed_out_{false};
  std::jthread thread_;  // last: it uses the others
};

class Search {
 public:
  Search(const GraphPtr& program, const SearchOptions& options,
         const std::function<void(const SearchProgress&)>& progress)
      : context_(program, options), options_(options), progress_(progress), start_(Clock::now()) {}

  Result<SearchResult> run() {
    std::vector<GraphPtr> graphs;
    bool timed_out = false;
    {
      Monitor monitor(options_, context_.stop, [&] { report(); });
      const Result<void> built = context_.build();
      if (!built && built.error().code == ErrorCode::Unsupported) {
        skipped_ = "everything: " + built.error().message;
      } else if (!built && built.error().code != ErrorCode::Interrupted) {
        return tl::unexpected(built.error());
      } else if (context_.reachable()) {
        tbb::task_arena arena(options_.threads);
        arena.execute([&] { run_stages(); });
        graphs = assemble_all();
      } else if (!context_.stop.stop_requested()) {
        skipped_ = "everything: the program has an output that the search cannot express";
      }
      timed_out = monitor.timed_out();
    }
    if (damaged_) return tl::unexpected(std::move(*damaged_));
    // A search is more than the file that keeps its work; a shard is nothing but that.
    const Result<void> saved = options_.checkpoint ? options_.checkpoint->save() : Result<void>{};
    if (!saved && options_.shard_count > 1) return tl::unexpected(saved.error());
    SearchResult result;
    result.graphs = unique(std::move(graphs));
    result.statistics = statistics();
    result.stop_reason = !context_.stop.stop_requested()                ? StopReason::Exhausted
                         : options_.stop.stop_requested() || !timed_out ? StopReason::Interrupted
                                                                        : StopReason::TimeLimit;
    result.left_out = left_out();
    if (!saved) result.left_out += (result.left_out.empty() ? "" : "; ") + saved.error().message;
    return result;
  }

 private:
  // --- stages ---
  struct Group {
    std::vector<int> inputs, targets;
    bool whole;
    bool split;
    std::string name;
  };

  /// Spaces whose graphs have at least this many kernels.
  struct Stage {
    int kernels;
    std::vector<Unit> units;
    bool done = false;
  };

  /// Kernels that make the outputs from the inputs alone; then, while more launches can pay, reductions split over the
  /// grid and kernels that go through intermediate values. Likely seams come first, because a time limit may come
  /// before the end.
  void run_stages() {
    const std::vector<int> values = usable_values();
    const Group whole{context_.inputs, context_.outputs, true, false, "outputs"};
    const Group split{context_.inputs, context_.outputs, true, true, "split"};
    plan(1, {whole});
    plan(2, {split});
    plan(2, from_program_values(values));
    plan(3, split_from_program_values(values));
    plan(3, from_pairs(values));
    plan(2, from_other_values(values));
    for (Stage& stage : stages_) spaces_total_ += static_cast<int64_t>(stage.units.size());
    // Values of a model that was cut short have other numbers than those of the checkpoint.
    if (context_.stop.stop_requested()) return;
    damaged_ = resume();
    if (damaged_) return;
    for (Stage& stage : stages_) {
      if (context_.stop.stop_requested()) return;
      explore(stage);
    }
  }

  /// Takes what the checkpoint has of the planned units; what is wrong with it.
  std::optional<Error> resume() {
    if (!options_.checkpoint) return std::nullopt;
    key_ = search_key(*context_.program, options_);
    const Checkpoint::Units units = options_.checkpoint->finished(key_);
    for (const Stage& stage : stages_) {
      for (const Unit& unit : stage.units) {
        const auto stored = units.find(unit.name);
        if (stored == units.end()) continue;
        UnitResult& known = known_[unit.name];
        for (const Checkpoint::Entry& entry : stored->second) {
          auto choice = restored_choice(entry.result, entry.inputs, entry.graph, unit, context_);
          if (!choice) return options_.checkpoint->damaged(fmt::format("unit '{}': {}", unit.name, choice.error()));
          known.choices.push_back(std::move(*choice));
        }
      }
    }
    return std::nullopt;
  }

  /// Kernel-level values that can be a tensor between two kernels.
  std::vector<int> usable_values() const {
    std::vector<int> values;
    for (int c = 0; c < static_cast<int>(context_.kernel->classes().size()); ++c) {
      if (context_.kernel->at(c).kernel_tensor < 0 && context_.value(c).type) values.push_back(c);
    }
    return values;
  }

  int64_t bytes(int c) const { return context_.value(c).type->bytes(); }

  /// Every value from the inputs, and kernels that read one of the program's own intermediate values.
  std::vector<Group> from_program_values(const std::vector<int>& values) const {
    std::vector<int> parts;
    for (int c : values) {
      if (!context_.is_output(c)) parts.push_back(c);
    }
    std::vector<Group> groups{{context_.inputs, parts, false, false, "parts"}};
    for (int c : parts) {
      if (context_.program_values.count(c) != 0) groups.push_back(with_extra({c}, values));
    }
    return groups;
  }

  std::vector<Group> split_from_program_values(const std::vector<int>& values) const {
    std::vector<Group> groups;
    for (int c : values) {
      if (context_.is_output(c) || context_.program_values.count(c) == 0) continue;
      groups.push_back(with_extra({c}, context_.outputs));
      groups.back().split = true;
      groups.back().name = "split_" + groups.back().name;
    }
    return groups;
  }

  std::vector<Group> from_other_values(const std::vector<int>& values) const {
    std::vector<Group> groups;
    for (int c : values) {
      if (!context_.is_output(c) && context_.program_values.count(c) == 0) groups.push_back(with_extra({c}, values));
    }
    return groups;
  }

  /// Kernels that read two of the program's own intermediate values, the smallest first.
  std::vector<Group> from_pairs(const std::vector<int>& values) const {
    std::vector<std::pair<int64_t, std::vector<int>>> pairs;
    for (int a : context_.program_values) {
      for (int b : context_.program_values) {
        const bool usable =
            std::count(values.begin(), values.end(), a) + std::count(values.begin(), values.end(), b) == 2;
        if (a < b && usable && !context_.is_output(a) && !context_.is_output(b)) {
          pairs.push_back({bytes(a) + bytes(b), {a, b}});
        }
      }
    }
    std::sort(pairs.begin(), pairs.end());
    std::vector<Group> groups;
    for (const auto& [size, pair] : pairs) groups.push_back(with_extra(pair, context_.outputs));
    return groups;
  }

  Group with_extra(const std::vector<int>& extra, const std::vector<int>& all) const {
    Group group{context_.inputs, {}, false, false, "from"};
    for (int c : extra) {
      group.inputs.push_back(c);
      group.name += fmt::format("_{}", c);
    }
    for (int c : all) {
      if (std::find(extra.begin(), extra.end(), c) == extra.end()) group.targets.push_back(c);
    }
    return group;
  }

  static bool too_wide(const Group& group) {
    return static_cast<int>(group.inputs.size()) > kMaxBlockInputs + (group.whole ? 2 : 0);
  }

  /// A group with too many inputs, target by target: what the program reads for the target from the group's values on.
  std::vector<Group> narrowed(const Group& group) const {
    std::vector<Group> groups;
    for (int target : group.targets) {
      std::set<int> needed{target};
      for (auto step = context_.steps.rbegin(); step != context_.steps.rend(); ++step) {
        const bool given = std::find(group.inputs.begin(), group.inputs.end(), step->result) != group.inputs.end();
        if (needed.count(step->result) != 0 && !given) needed.insert(step->operands.begin(), step->operands.end());
      }
      Group one{{}, {target}, group.whole, group.split, fmt::format("{}_for_{}", group.name, target)};
      for (int c : group.inputs) {
        if (needed.count(c) != 0) one.inputs.push_back(c);
      }
      if (one.inputs.size() < group.inputs.size() && !one.inputs.empty()) groups.push_back(std::move(one));
    }
    return groups;
  }

  /// Whether one block, which leaves a device empty, moves a group's tensors in the time of the kernels that it may
  /// replace. So rows without a dimension that a grid could cut, as of RMSNorm([1, n]), are one kernel.
  bool one_block_may_pay(const Group& group) const {
    double bytes = 0;
    for (const auto* classes : {&group.inputs, &group.targets}) {
      for (const int c : *classes) {
        const auto& type = context_.value(c).type;
        if (type) bytes += static_cast<double>(type->bytes());
      }
    }
    const Target& target = *options_.target;
    return bytes / target.rates.multiprocessor_bandwidth <
           static_cast<double>(context_.steps.size()) * target.kernel_seconds();
  }

  /// Adds a stage with the units of these groups.
  void plan(int kernels, const std::vector<Group>& wanted) {
    if (kernels > options_.max_kernel_ops) return;
    Stage stage{kernels, {}};
    std::vector<Group> groups;
    for (const Group& group : wanted) {
      if (!too_wide(group)) {
        groups.push_back(group);
        continue;
      }
      ++groups_too_wide_;
      for (Group& one : narrowed(group)) groups.push_back(std::move(one));
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      const Group& group = groups[g];
      if (context_.stop.stop_requested()) break;
      if (too_wide(group)) continue;
      if (spaces_planned_ >= kMaxSpaces) {
        ++groups_too_many_;
        continue;
      }
      std::vector<std::vector<int>> axes;
      for (int c : group.inputs) axes.push_back(context_.kernel->at(c).axes);
      const auto& spaces = spaces_.emplace_back(block_spaces(axes, kMaxGridRank, options_.rules.maps));
      for (size_t s = 0; s < spaces.size(); ++s) {
        if (options_.rules.sizes && !spaces[s].cuts_grid && spaces.size() > 1 && !one_block_may_pay(group)) continue;
        if (group.split && !options_.rules.maps) continue;  // which axis is split is known by axes alone
        const bool fits = std::any_of(group.targets.begin(), group.targets.end(), [&](int t) {
          return !options_.rules.maps || space_fits(spaces[s], context_.kernel->at(t).axes, group.split);
        });
        if (!fits) {
          context_.counters.pruned_axes.fetch_add(1, std::memory_order_relaxed);
          continue;
        }
        ++spaces_planned_;
        std::string name = fmt::format("{}/{}", group.name, s);
        const auto shards = static_cast<uint64_t>(options_.shard_count);
        if (Hasher{}.add(name).value() % shards != static_cast<uint64_t>(options_.shard_index)) continue;
        stage.units.push_back({std::move(name), group.inputs, group.targets, group.whole, group.split, &spaces[s], g});
      }
    }
    // Within a group simple spaces first. Threads take units in order, so that a time limit cuts the unlikely ones.
    std::stable_sort(stage.units.begin(), stage.units.end(), [](const Unit& a, const Unit& b) {
      return std::pair(a.group, a.space->loops) < std::pair(b.group, b.space->loops);
    });
    stages_.push_back(std::move(stage));
  }

  double lower_bound(const Stage& stage) const {
    return cost_lower_bound(*context_.program, stage.kernels, *options_.target);
  }

  /// Searches a stage's units, unless none of their graphs can be the cheapest.
  void explore(Stage& stage) {
    const double bound = lower_bound(stage);
    if (options_.rules.cost && bound >= best_seconds_) {
      spaces_skipped_ += static_cast<int64_t>(stage.units.size());
      stage.done = true;
      if (!skipped_.empty()) return;
      skipped_ =
          fmt::format("graphs of {} or more kernels: none is estimated below {:.2f} µs, the best found takes {:.2f} µs",
                      stage.kernels, bound * 1e6, best_seconds_ * 1e6);
      return;
    }
    std::vector<UnitResult> results(stage.units.size());
    std::atomic<size_t> next{0};
    const auto search_one = [&](size_t i) {
      const Unit& unit = stage.units[i];
      if (const auto known = known_.find(unit.name); known != known_.end()) {
        results[i] = known->second;
      } else {
        results[i] = search_unit(unit, context_);
        if (context_.stop.stop_requested()) return;
        if (options_.checkpoint) options_.checkpoint->record(key_, unit.name, results[i]);
      }
      context_.counters.units_done.fetch_add(1, std::memory_order_relaxed);
    };
    TaskOrder order;
    tbb::parallel_for(0, options_.threads, [&](int) STRATA_UNORDERED {
      order.run([&] {
        for (size_t i = next++; i < stage.units.size() && !context_.stop.stop_requested(); i = next++) search_one(i);
      });
    });
    order.join();
    for (UnitResult& result : results) {
      for (KernelChoice& choice : result.choices) choices_.push_back(std::move(choice));
    }
    stage.done = !context_.stop.stop_requested();
    update_best();
  }

  // --- results ---
  AssemblyLimits assembly_limits() const {
    AssemblyLimits limits;
    limits.max_kernel_ops = options_.max_kernel_ops;
    if (options_.keep_all) limits.max_graphs = std::numeric_limits<size_t>::max();
    return limits;
  }

  std::vector<GraphPtr> assemble_all() const {
    return assemble(*context_.program, *context_.kernel, context_.values, context_.outputs, choices_, assembly_limits(),
                    *options_.target);
  }

  void update_best() {
    const double seconds = cheapest_assembly(*context_.kernel, context_.values, context_.outputs, choices_,
                                             assembly_limits(), *options_.target);
    if (seconds < best_seconds_) best_seconds_ = seconds;
  }

  std::vector<GraphPtr> unique(std::vector<GraphPtr> graphs) const {
    struct Ranked {
      double seconds;
      int foreign;  ///< operators that the program does not use: of equals, the familiar one
      std::string text;
      GraphPtr graph;
    };
    std::vector<Ranked> ranked;
    std::set<std::string> seen;
    for (GraphPtr& graph : graphs) {
      std::string text = print(*graph);
      if (!seen.insert(text).second) continue;
      const double seconds = estimate_cost(*graph, *options_.target).seconds;
      const int foreign = foreign_operators(*graph);
      ranked.push_back({seconds, foreign, std::move(text), std::move(graph)});
    }
    std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
      return std::tie(a.seconds, a.foreign, a.text) < std::tie(b.seconds, b.foreign, b.text);
    });
    std::vector<GraphPtr> result;
    for (Ranked& r : ranked) result.push_back(std::move(r.graph));
    return result;
  }

  int foreign_operators(const Graph& graph) const {
    int count = 0;
    for (const Operation& op : graph.operations()) {
      if (op.body) {
        count += foreign_operators(*op.body);
        continue;
      }
      const bool structural = !op_def(op.kind).traits.levels.kernel;
      const auto& own = context_.program->operations();
      const bool used = std::any_of(own.begin(), own.end(), [&](const Operation& o) { return o.kind == op.kind; });
      count += structural || used ? 0 : 1;
    }
    return count;
  }

  SearchStatistics statistics() const {
    SearchStatistics s;
    s.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    s.threads = options_.threads;
    s.generated = context_.counters.generated;
    s.pruned_shape = context_.counters.pruned_shape;
    s.pruned_memory = context_.counters.pruned_memory;
    s.pruned_expression = context_.counters.pruned_expression;
    s.pruned_axes = context_.counters.pruned_axes;
    s.pruned_stability = context_.counters.pruned_stability;
    s.verified = context_.counters.verified;
    s.rejected = context_.counters.rejected;
    s.spaces_total = spaces_total_;
    s.spaces_searched = context_.counters.units_done;
    return s;
  }

  void report() {
    if (!progress_) return;
    const double best = best_seconds_;
    progress_({statistics(), best >= 1e30 ? 0 : best});
  }

  std::string left_out() const {
    std::string text = skipped_;
    const auto also = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    if (context_.stop.stop_requested() && spaces_total_ > 0) {
      const int64_t left = spaces_total_ - spaces_skipped_ - context_.counters.units_done;
      std::optional<double> bound;
      for (const Stage& stage : stages_) {
        if (!stage.done) bound = bound ? std::min(*bound, lower_bound(stage)) : lower_bound(stage);
      }
      also(fmt::format("{} of {} spaces ({:.0f} %)", left, spaces_total_.load(),
                       100.0 * static_cast<double>(left) / static_cast<double>(spaces_total_)));
      if (bound) text += fmt::format("; no graph of theirs is estimated below {:.2f} µs", *bound * 1e6);
    }
    if (context_.spaces_overflowed > 0) {
      also(fmt::format("values beyond the first {}, or {} MiB, in {} spaces", ClassGraph::kMaxClasses,
                       ClassGraph::kMaxBytes >> 20, context_.spaces_overflowed.load()));
    }
    if (context_.derivations_cut > 0)
      also(fmt::format("some derivations of {} values", context_.derivations_cut.load()));
    if (groups_too_wide_ > 0)
      also(fmt::format("{} sets of more than {} block inputs", groups_too_wide_, kMaxBlockInputs));
    if (groups_too_many_ > 0)
      also(fmt::format("{} sets of block inputs beyond the first {} spaces", groups_too_many_, kMaxSpaces));
    if (context_.kernel && context_.kernel->overflowed()) also("some kernel-level intermediate values");
    return text;
  }

  SearchContext context_;
  const SearchOptions& options_;
  const std::function<void(const SearchProgress&)>& progress_;
  Clock::time_point start_;
  std::string key_;                             ///< of this search in the checkpoint
  std::map<std::string, UnitResult> known_;     ///< from the checkpoint
  std::optional<Error> damaged_;                ///< the checkpoint
  std::deque<std::vector<BlockSpace>> spaces_;  ///< what units point to
  std::vector<Stage> stages_;
  std::vector<KernelChoice> choices_;
  std::atomic<double> best_seconds_{1e30};
  std::atomic<int64_t> spaces_total_{0};
  int64_t spaces_skipped_ = 0;  ///< because they can be no faster
  int groups_too_wide_ = 0;
  int64_t spaces_planned_ = 0;
  int groups_too_many_ = 0;
  std::string skipped_;
};

}  // namespace

SearchStatistics& operator+=(SearchStatistics& total, const SearchStatistics& more) {
  total.seconds += more.seconds;
  total.threads = more.threads;
  total.generated += more.generated;
  total.pruned_shape += more.pruned_shape;
  total.pruned_memory += more.pruned_memory;
  total.pruned_expression += more.pruned_expression;
  total.pruned_axes += more.pruned_axes;
  total.pruned_stability += more.pruned_stability;
  total.verified += more.verified;
  total.rejected += more.rejected;
  total.spaces_total += more.spaces_total;
  total.spaces_searched += more.spaces_searched;
  return total;
}

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::Exhausted:
      return "exhausted";
    case StopReason::TimeLimit:
      return "time limit";
    case StopReason::Interrupted:
      return "interrupted";
  }
  return "?";
}

Result<SearchResult> search(const GraphPtr& program, const SearchOptions& options,
                            const std::function<void(const SearchProgress&)>& progress) {
  if (options.max_kernel_ops < 1 || options.max_block_ops < 1 || options.threads < 1) {
    return invalid("threads, kernel operators and block operators must be at least 1");
  }
  for (const Operation& op : program->operations()) {
    if (!op.body) continue;
    return tl::unexpected(Error{ErrorCode::Unsupported, "the program has a graph-defined operator already",
                                "write it with predefined operators; `strata ops` lists them", op.location});
  }
  if (options.shard_count < 1 || options.shard_index < 0 || options.shard_index >= options.shard_count) {
    return invalid("shard {} of {} does not exist", options.shard_index, options.shard_count);
  }
  return Search(program, options, progress).run();
}

}  // namespace strata
