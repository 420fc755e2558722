#include "superopt/search/search.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <set>
#include <thread>
#include <tuple>

#include "ir/text.h"
#include "superopt/search/assemble.h"
#include "superopt/search/checkpoint.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

/// Graphs read off one space for one value, and how many of the resulting kernels are kept for graphs of several.
constexpr int64_t kDerivedGraphs = 1000;
constexpr int64_t kDerivedGraphsOfPart = 100;
constexpr size_t kChoicesOfPart = 8;
constexpr int kMaxGridRank = 3;
constexpr int kMaxBlockInputs = 5;

/// Block graphs over some kernel values in one space.
struct Unit {
  std::string name;
  std::vector<int> inputs;   ///< kernel classes
  std::vector<int> targets;  ///< kernel classes
  bool whole = false;        ///< makes the program's outputs from its inputs: everything found is kept
  const BlockSpace* space = nullptr;
  size_t group = 0;
};

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
      : program_(program), options_(options), progress_(progress), start_(Clock::now()) {}

  Result<SearchResult> run() {
    STRATA_TRY(Model model, Model::build(program_, forms_, options_.seed));
    model_.emplace(std::move(model));
    for (TensorId id : program_->outputs()) {
      if (program_->tensor(id).producer < 0) return invalid("output '{}' is an input", program_->tensor(id).name);
    }
    std::vector<ExprId> targets;
    for (TensorId id : program_->outputs()) targets.push_back(model_->tensor(id).expression);
    oracle_.emplace(forms_, targets);
    if (options_.rules.axes && options_.rules.expression && model_->extents_by_axis()) {
      axis_filter_.emplace(*model_, forms_, *oracle_);
    }
    STRATA_TRY(checkpoint_, Checkpoint::open(options_.checkpoint, options_key()));
    collect_program_attributes();
    std::vector<GraphPtr> graphs;
    bool timed_out = false;
    {
      Monitor monitor(options_, stop_, [&] { report(); });
      build_kernel_classes();
      const bool reachable = std::find(outputs_.begin(), outputs_.end(), -1) == outputs_.end();
      if (reachable) {
        tbb::task_arena arena(options_.threads);
        arena.execute([&] { run_stages(); });
        graphs = assemble_all();
      } else if (!stop_.stop_requested()) {
        skipped_ = "everything: the program has an output that the search cannot express";
      }
      timed_out = monitor.timed_out();
    }
    STRATA_CHECK(checkpoint_->save());
    SearchResult result;
    result.graphs = unique(std::move(graphs));
    result.statistics = statistics();
    result.stop_reason = !stop_.stop_requested() ? StopReason::Exhausted
                         : timed_out             ? StopReason::TimeLimit
                                                 : StopReason::Interrupted;
    result.left_out = left_out();
    return result;
  }

 private:
  uint64_t options_key() const {
    Hasher hasher;
    hasher.add(print(*program_)).add(options_.target->name).add(options_.seed);
    hasher.add(static_cast<uint64_t>(options_.max_kernel_ops)).add(static_cast<uint64_t>(options_.max_block_ops));
    hasher.add(options_.rules.expression).add(options_.rules.axes).add(options_.rules.sizes);
    return hasher.value();
  }

  void collect_program_attributes() {
    std::set<std::string> seen;
    for (const Operation& op : model_->graph().operations()) {
      with_max_ |= op.kind == OpKind::Max || op.kind == OpKind::ReduceMax;
      const bool implied = (op.kind == OpKind::Sum || op.kind == OpKind::ReduceMax) && !op.attributes.has("every");
      if (op.attributes.entries().empty() || implied || op_def(op.kind).traits.arity != 1) continue;
      std::string text(op.name());
      for (const auto& [name, value] : op.attributes.entries()) text += name + to_string(value);
      if (seen.insert(text).second) program_attributes_.emplace_back(op.kind, op.attributes);
    }
  }

  ClassGraphOptions class_options(int max_ops) {
    ClassGraphOptions options;
    options.max_ops = max_ops;
    options.prune_expression = options_.rules.expression;
    options.axis_filter = axis_filter_ ? &*axis_filter_ : nullptr;
    options.program_attributes = program_attributes_;
    options.max_elements = largest_value();
    options.with_max = with_max_;
    options.stop = stop_.get_token();
    return options;
  }

  /// Values many times larger than all of the program's are outer products and repetitions of repetitions: no fast
  /// kernel makes them, and they would fill the memory.
  int64_t largest_value() const {
    int64_t largest = 4096;
    for (size_t i = 0; i < program_->tensors().size(); ++i) {
      largest = std::max(largest, element_count(model_->tensor(static_cast<TensorId>(i)).shape));
    }
    return 8 * largest;
  }

  /// Kernel-level values: the program's tensors, then whatever predefined operators make.
  void build_kernel_classes() {
    // Values, not graphs: a value that takes many predefined operators may be one block graph.
    ClassGraphOptions options = class_options(std::numeric_limits<int>::max());
    options.prune_expression = true;
    options.scope = options.extents = {Level::Kernel, {}, 1};
    kernel_.emplace(model_->arithmetic(), forms_, *oracle_, counters_, std::move(options));
    std::vector<int> class_of(program_->tensors().size(), -1);
    for (size_t i = 0; i < program_->inputs().size(); ++i) {
      const TensorId id = program_->inputs()[i];
      const ModelTensor& tensor = model_->tensor(id);
      ValueClass value;
      value.shape = tensor.shape;
      value.extents = tensor.extents;
      value.axes = tensor.axes;
      value.expression = tensor.expression;
      value.kernel_tensor = static_cast<int>(i);
      value.values = {tensor.value};
      class_of[static_cast<size_t>(id)] = kernel_->add_input(std::move(value));
      inputs_.push_back(class_of[static_cast<size_t>(id)]);
    }
    for (const Operation& op : model_->graph().operations()) {
      std::vector<int> operands;
      for (TensorId id : op.operands) operands.push_back(class_of[static_cast<size_t>(id)]);
      const bool known = std::find(operands.begin(), operands.end(), -1) == operands.end();
      const TensorId result = op.results[0];
      // A value that no output depends on is pruned: nothing can use it.
      const int c = known ? kernel_->apply(op.kind, op.attributes, operands) : -1;
      class_of[static_cast<size_t>(result)] = c;
      if (c < 0) continue;
      kernel_->set_axes(c, model_->tensor(result).axes);
      program_steps_.push_back({op.kind, op.attributes, operands, c});
      names_.emplace(c, program_->tensor(result).name);
      if (kernel_->at(c).kernel_tensor < 0) program_values_.insert(c);
    }
    for (TensorId id : program_->outputs()) outputs_.push_back(class_of[static_cast<size_t>(id)]);
    kernel_->limit_ops(options_.max_kernel_ops);
    kernel_->saturate();
    const DType dtype = program_->type(program_->outputs()[0]).dtype;
    for (size_t c = 0; c < kernel_->classes().size(); ++c) {
      const ValueClass& value = kernel_->classes()[c];
      KernelValue info;
      const auto named = names_.find(static_cast<int>(c));
      info.name = value.kernel_tensor >= 0
                      ? program_->tensor(program_->inputs()[static_cast<size_t>(value.kernel_tensor)]).name
                  : named != names_.end() ? named->second
                                          : free_name(c);
      if (value.kernel_tensor >= 0) {
        info.type = program_->type(program_->inputs()[static_cast<size_t>(value.kernel_tensor)]);
      } else if (auto shape = model_->real_shape(value.axes)) {
        info.type = TensorType{dtype, *shape};
      }
      values_.push_back(std::move(info));
    }
  }

  std::string free_name(size_t c) const {
    std::string name = fmt::format("K{}", c);
    while (program_->find_tensor(name)) name += "_";
    return name;
  }

  // --- stages ---
  struct Group {
    std::vector<int> inputs, targets;
    bool whole;
    std::string name;
  };

  /// Kernels that make the outputs from the inputs alone; then, while more launches can pay, those that go through
  /// intermediate values. Likely seams come first, because a time limit may come before the end.
  void run_stages() {
    explore({{inputs_, outputs_, true, "outputs"}});
    const std::vector<int> values = usable_values();
    later_stage(2, [&] { return from_program_values(values); });
    later_stage(3, [&] { return from_pairs(values); });
    later_stage(2, [&] { return from_other_values(values); });
  }

  /// Explores groups whose graphs have at least `kernels` launches, unless none of them can be the cheapest.
  void later_stage(int kernels, const std::function<std::vector<Group>()>& groups) {
    if (kernels > options_.max_kernel_ops || stop_.stop_requested()) return;
    const double bound = cost_lower_bound(*program_, kernels, *options_.target);
    if (options_.rules.cost && bound >= best_seconds_) {
      const std::string text =
          fmt::format("graphs of {} or more kernels: none is estimated below {:.2f} µs, the best found takes {:.2f} µs",
                      kernels, bound * 1e6, best_seconds_ * 1e6);
      if (skipped_.empty()) skipped_ = text;
      return;
    }
    explore(groups());
  }

  /// Kernel-level values that can be a tensor between two kernels.
  std::vector<int> usable_values() const {
    std::vector<int> values;
    for (int c = 0; c < static_cast<int>(kernel_->classes().size()); ++c) {
      if (kernel_->at(c).kernel_tensor < 0 && values_[static_cast<size_t>(c)].type) values.push_back(c);
    }
    return values;
  }

  bool is_output(int c) const { return std::find(outputs_.begin(), outputs_.end(), c) != outputs_.end(); }
  int64_t bytes(int c) const { return values_[static_cast<size_t>(c)].type->bytes(); }

  /// Every value from the inputs, and kernels that read one of the program's own intermediate values.
  std::vector<Group> from_program_values(const std::vector<int>& values) const {
    std::vector<int> parts;
    for (int c : values) {
      if (!is_output(c)) parts.push_back(c);
    }
    std::vector<Group> groups{{inputs_, parts, false, "parts"}};
    for (int c : parts) {
      if (program_values_.count(c) != 0) groups.push_back(with_extra({c}, values));
    }
    return groups;
  }

  std::vector<Group> from_other_values(const std::vector<int>& values) const {
    std::vector<Group> groups;
    for (int c : values) {
      if (!is_output(c) && program_values_.count(c) == 0) groups.push_back(with_extra({c}, values));
    }
    return groups;
  }

  /// Kernels that read two of the program's own intermediate values, the smallest first.
  std::vector<Group> from_pairs(const std::vector<int>& values) const {
    std::vector<std::pair<int64_t, std::vector<int>>> pairs;
    for (int a : program_values_) {
      for (int b : program_values_) {
        const bool usable =
            std::count(values.begin(), values.end(), a) + std::count(values.begin(), values.end(), b) == 2;
        if (a < b && usable && !is_output(a) && !is_output(b)) pairs.push_back({bytes(a) + bytes(b), {a, b}});
      }
    }
    std::sort(pairs.begin(), pairs.end());
    std::vector<Group> groups;
    for (const auto& [size, pair] : pairs) groups.push_back(with_extra(pair, outputs_));
    return groups;
  }

  Group with_extra(const std::vector<int>& extra, const std::vector<int>& all) const {
    Group group{inputs_, {}, false, "from"};
    for (int c : extra) {
      group.inputs.push_back(c);
      group.name += fmt::format("_{}", c);
    }
    for (int c : all) {
      if (std::find(extra.begin(), extra.end(), c) == extra.end()) group.targets.push_back(c);
    }
    return group;
  }

  void explore(const std::vector<Group>& groups) {
    std::vector<Unit> units;
    std::vector<std::vector<BlockSpace>> spaces(groups.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      if (static_cast<int>(groups[g].inputs.size()) > kMaxBlockInputs + (groups[g].whole ? 2 : 0)) {
        ++groups_too_wide_;
        continue;
      }
      std::vector<std::vector<int>> axes;
      for (int c : groups[g].inputs) axes.push_back(kernel_->at(c).axes);
      spaces[g] = block_spaces(axes, kMaxGridRank, options_.rules.axes);
      for (size_t s = 0; s < spaces[g].size(); ++s) {
        // One block on a whole device is never wanted where a grid can be had.
        if (options_.rules.sizes && !spaces[g][s].cuts_grid && spaces[g].size() > 1) continue;
        units.push_back({fmt::format("{}/{}", groups[g].name, s), groups[g].inputs, groups[g].targets, groups[g].whole,
                         &spaces[g][s], g});
      }
    }
    std::vector<UnitResult> results(units.size());
    spaces_total_ += static_cast<int64_t>(units.size());
    // Within a group simple spaces first. Threads take units in order, so that a time limit cuts the unlikely ones.
    std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
      return std::pair(a.group, a.space->loops) < std::pair(b.group, b.space->loops);
    });
    std::atomic<size_t> next{0};
    const auto search_one = [&](size_t i) {
      if (auto known = checkpoint_->find(units[i].name)) {
        results[i] = std::move(*known);
      } else {
        results[i] = search_unit(units[i]);
        if (stop_.stop_requested()) return;
        checkpoint_->record(units[i].name, results[i]);
      }
      counters_.units_done.fetch_add(1, std::memory_order_relaxed);
    };
    tbb::parallel_for(0, options_.threads, [&](int) {
      for (size_t i = next++; i < units.size() && !stop_.stop_requested(); i = next++) search_one(i);
    });
    for (UnitResult& result : results) {
      for (KernelChoice& choice : result.choices) choices_.push_back(std::move(choice));
    }
    update_best();
  }

  UnitResult search_unit(const Unit& unit) {
    UnitResult found;
    std::vector<std::string> names;
    for (int c : unit.inputs) {
      names.push_back(values_[static_cast<size_t>(c)].name);
    }
    std::vector<int> targets;
    for (int t : unit.targets) {
      if (!options_.rules.axes || !unit.space->cuts_grid || has_axes(kernel_->at(t).axes, unit.space->grid_axes)) {
        targets.push_back(t);
      } else {
        counters_.pruned_axes.fetch_add(1, std::memory_order_relaxed);
      }
    }
    if (targets.empty()) return found;
    auto graph = explore_block(*unit.space, unit.inputs, *kernel_, program_steps_, *model_, forms_, *oracle_, counters_,
                               class_options(options_.max_block_ops));
    if (!graph) return found;
    if (graph->overflowed()) spaces_overflowed_.fetch_add(1);
    for (int t : targets) {
      if (stop_.stop_requested()) break;
      std::vector<KernelChoice> choices = kernels_for(unit, *graph, names, t);
      if (!unit.whole && choices.size() > kChoicesOfPart) {
        std::stable_sort(choices.begin(), choices.end(),
                         [](const KernelChoice& a, const KernelChoice& b) { return a.seconds < b.seconds; });
        choices.resize(kChoicesOfPart);
      }
      for (KernelChoice& choice : choices) found.choices.push_back(std::move(choice));
    }
    return found;
  }

  static bool has_axes(const std::vector<int>& axes, const std::vector<int>& wanted) {
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); });
  }

  std::vector<KernelChoice> kernels_for(const Unit& unit, const ClassGraph& graph,
                                        const std::vector<std::string>& names, int target) {
    std::vector<KernelChoice> choices;
    const ValueClass& whole = kernel_->at(target);
    const LoopStage last = unit.space->loops ? LoopStage::After : LoopStage::Body;
    for (int c = 0; c < static_cast<int>(graph.classes().size()); ++c) {
      const ValueClass& tile = graph.at(c);
      if (tile.stage != last || tile.derivations.empty()) continue;
      const auto omaps = output_maps(*unit.space, tile, whole, options_.rules.axes, model_->arithmetic(), counters_);
      for (const auto& omap : omaps) {
        const int64_t budget = !options_.rules.sizes ? std::numeric_limits<int64_t>::max() / 128
                               : unit.whole          ? kDerivedGraphs
                                                     : kDerivedGraphsOfPart;
        const bool complete =
            derive(graph, c, options_.max_block_ops, budget, stop_.get_token(), [&](const Derived& derived) {
              counters_.verified.fetch_add(1, std::memory_order_relaxed);
              add_kernels(unit, graph, derived, c, omap, names, target, choices);
            });
        if (!complete) derivations_cut_.fetch_add(1);
      }
    }
    return choices;
  }

  void add_kernels(const Unit& unit, const ClassGraph& graph, const Derived& derived, int result,
                   const std::vector<int64_t>& omap, const std::vector<std::string>& names, int target,
                   std::vector<KernelChoice>& choices) {
    const DType dtype = program_->type(program_->outputs()[0]).dtype;
    auto made = build_template(*unit.space, graph, derived, result, omap, unit.inputs, names, dtype,
                               values_[static_cast<size_t>(target)].name);
    if (!made) return;
    std::vector<TensorType> types;
    for (int c : made->inputs) {
      if (!values_[static_cast<size_t>(c)].type) return;
      types.push_back(*values_[static_cast<size_t>(c)].type);
    }
    const SizeRules rules{options_.rules.sizes, options_.rules.sizes};
    for (GraphPtr& body : instantiate(*made->body, types, *options_.target, rules, counters_)) {
      if (body->type(body->outputs()[0]).shape != values_[static_cast<size_t>(target)].type->shape) continue;
      const double seconds = kernel_seconds(body);
      choices.push_back({target, made->inputs, std::move(body), nullptr, seconds});
    }
  }

  double kernel_seconds(const GraphPtr& body) const {
    GraphBuilder builder(Level::Kernel);
    std::vector<TensorId> operands;
    for (TensorId id : body->inputs()) {
      auto input = builder.input({}, body->type(id));
      if (!input) return 1e30;
      operands.push_back(*input);
    }
    if (!builder.add(body, operands)) return 1e30;
    return estimate_operation(builder.peek(), builder.peek().operations()[0], *options_.target).seconds;
  }

  // --- results ---
  std::vector<GraphPtr> assemble_all() const {
    AssemblyLimits limits;
    limits.max_kernel_ops = options_.max_kernel_ops;
    if (!options_.rules.sizes) limits.max_graphs = std::numeric_limits<size_t>::max();
    return assemble(*program_, *kernel_, values_, outputs_, choices_, limits, *options_.target);
  }

  void update_best() {
    for (const GraphPtr& graph : assemble_all()) {
      const double seconds = estimate_cost(*graph, *options_.target).seconds;
      if (seconds < best_seconds_) best_seconds_ = seconds;
      break;  // cheapest first
    }
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
      const auto& own = program_->operations();
      const bool used = std::any_of(own.begin(), own.end(), [&](const Operation& o) { return o.kind == op.kind; });
      count += structural || used ? 0 : 1;
    }
    return count;
  }

  SearchStatistics statistics() const {
    SearchStatistics s;
    s.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    s.threads = options_.threads;
    s.generated = counters_.generated;
    s.pruned_shape = counters_.pruned_shape;
    s.pruned_memory = counters_.pruned_memory;
    s.pruned_expression = counters_.pruned_expression;
    s.pruned_axes = counters_.pruned_axes;
    s.verified = counters_.verified;
    s.rejected = counters_.rejected;
    s.spaces_total = spaces_total_;
    s.spaces_searched = counters_.units_done;
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
    if (spaces_overflowed_ > 0) {
      also(fmt::format("values beyond the first {} in {} spaces", ClassGraph::kMaxClasses, spaces_overflowed_.load()));
    }
    if (derivations_cut_ > 0) also(fmt::format("some derivations of {} values", derivations_cut_.load()));
    if (groups_too_wide_ > 0)
      also(fmt::format("{} sets of more than {} block inputs", groups_too_wide_, kMaxBlockInputs));
    if (kernel_ && kernel_->overflowed()) also("some kernel-level intermediate values");
    return text;
  }

  GraphPtr program_;
  const SearchOptions& options_;
  const std::function<void(const SearchProgress&)>& progress_;
  Clock::time_point start_;
  NormalForms forms_;
  std::optional<SubexpressionOracle> oracle_;
  std::optional<Model> model_;
  std::optional<AxisFilter> axis_filter_;
  std::unique_ptr<Checkpoint> checkpoint_;
  SharedCounters counters_;
  std::stop_source stop_;
  std::vector<std::pair<OpKind, Attributes>> program_attributes_;
  bool with_max_ = false;
  std::optional<ClassGraph> kernel_;
  std::vector<KernelValue> values_;
  std::map<int, std::string> names_;
  std::set<int> program_values_;
  std::vector<ProgramStep> program_steps_;
  std::vector<int> inputs_, outputs_;
  std::vector<KernelChoice> choices_;
  std::atomic<double> best_seconds_{1e30};
  std::atomic<int64_t> spaces_total_{0};
  std::atomic<int> spaces_overflowed_{0};
  std::atomic<int> derivations_cut_{0};
  int groups_too_wide_ = 0;
  std::string skipped_;
};

}  // namespace

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
  return Search(program, options, progress).run();
}

}  // namespace strata
