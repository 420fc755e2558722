#include "megakernel/tgraph/task_graph.h"

#include <unordered_map>

#include "block/overlap.h"
#include "indexing/map_checks.h"

namespace strata::megakernel {

using indexing::IndexingMap;

namespace {

/// So many blocks are looked at to find the distinct sets, at about 10 μs each.
constexpr int64_t kMostLooks = 1 << 17;
/// Where the consumer's blocks are too many, distinct sets are found from so many of the producer's.
constexpr int64_t kMostProducerLooks = 1 << 10;

struct GridSetHash {
  size_t operator()(const GridSet& set) const { return set.hash(); }
};

using Pairs = std::vector<std::pair<GridSet, GridSet>>;

/// A grid by the digits of its coordinates that decide where a block's region lies: one class of blocks for each value
/// of these. Blocks of a class have the same region.
class Classes {
 public:
  explicit Classes(const GridRegions& regions) : digits_(regions.grid, firsts(regions)), within_(inside(regions)) {
    // What is no multiple of a digit depends on whole coordinates.
    std::vector<bool> whole(regions.grid.size(), false);
    for (size_t axis = 0; axis < regions.axes.size(); ++axis) {
      for (size_t g = 0; g < whole.size(); ++g) {
        if (!digits_.form(axis).exact())
          whole[g] = whole[g] || regions.axes[axis].first.uses(indexing::ExprKind::Dimension, static_cast<int>(g));
      }
    }
    const std::vector<size_t> unused = digits_.unused();
    for (size_t i = 0; i < digits_.digits().size(); ++i) {
      if (whole[digits_.digits()[i].coordinate] || std::find(unused.begin(), unused.end(), i) == unused.end())
        used_.push_back(i);
    }
  }

  int64_t count() const {
    int64_t count = 1;
    for (size_t i : used_) count = indexing::saturating_mul(count, digits_.digits()[i].extent);
    return count;
  }

  /// All classes that have blocks with a region.
  void for_each(const std::function<void(const GridSet&)>& visit) const {
    GridDigits::DigitBox box = digits_.everything();
    const std::function<void(size_t)> along = [&](size_t n) {
      if (n == used_.size()) {
        const GridSet blocks = intersect(GridSet::of(digits_.blocks(box)), within_);
        if (!blocks.empty()) visit(blocks);
        return;
      }
      for (int64_t value = 0; value < digits_.digits()[used_[n]].extent; ++value) {
        box[used_[n]] = {value, value};
        along(n + 1);
      }
    };
    along(0);
  }

 private:
  static std::vector<indexing::Expr> firsts(const GridRegions& regions) {
    std::vector<indexing::Expr> exprs;
    for (const RegionAxis& axis : regions.axes) exprs.push_back(axis.first);
    return exprs;
  }
  static GridSet inside(const GridRegions& regions) {
    BlockBox box;
    for (size_t g = 0; g < regions.grid.size(); ++g) {
      const indexing::Interval blocks = intersect(regions.blocks[g], indexing::below(regions.grid[g]));
      if (blocks.empty()) return {};
      box.push_back({blocks.lo, {{1, blocks.size()}}});
    }
    return GridSet::of(box);
  }

  GridDigits digits_;
  GridSet within_;
  std::vector<size_t> used_;
};

/// The distinct sets of producers, each with all its consumers. Nothing where there are too many to look at.
std::optional<Pairs> distinct_sets(const BlockOverlap& overlap) {
  Pairs pairs;
  if (overlap.empty()) return pairs;
  if (overlap.is_all_to_all()) {
    pairs.emplace_back(GridSet::all(overlap.producer().grid), GridSet::all(overlap.consumer().grid));
    return pairs;
  }
  const Classes consumers(overlap.consumer());
  if (consumers.count() <= kMostLooks) {
    std::unordered_map<GridSet, size_t, GridSetHash> known;
    std::vector<std::vector<GridSet>> outs;
    consumers.for_each([&](const GridSet& blocks) {
      GridSet in = GridSet::of(overlap.producers_of(blocks.first()));
      if (in.empty()) return;
      const auto [found, added] = known.emplace(in, pairs.size());
      if (added) {
        pairs.emplace_back(std::move(in), GridSet());
        outs.emplace_back();
      }
      outs[found->second].push_back(blocks);
    });
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i].second = unite(std::move(outs[i]));
    return pairs;
  }
  // From the producer's side: consumers are divided until those of a part have the same producers.
  const Classes producers(overlap.producer());
  if (producers.count() > kMostProducerLooks) return std::nullopt;
  producers.for_each([&](const GridSet& blocks) {
    GridSet rest = GridSet::of(overlap.consumers_of(blocks.first()));
    Pairs divided;
    for (auto& [in, out] : pairs) {
      GridSet both = intersect(out, rest);
      if (both.empty()) {
        divided.emplace_back(std::move(in), std::move(out));
        continue;
      }
      rest = subtract(rest, both);
      GridSet without = subtract(out, both);
      divided.emplace_back(unite(in, blocks), std::move(both));
      if (!without.empty()) divided.emplace_back(std::move(in), std::move(without));
    }
    if (!rest.empty()) divided.emplace_back(blocks, std::move(rest));
    pairs = std::move(divided);
  });
  return pairs;
}

/// Which operators touched a tensor, in program order.
struct Touch {
  int op = 0;
  const Access* access = nullptr;
};

class DependenceAnalysis {
 public:
  explicit DependenceAnalysis(const OperatorGraph& graph) : graph_(graph) {}

  Result<std::vector<Dependence>> run() {
    // Tensors by the memory that they lie in.
    std::map<int, std::vector<int>> buffers;
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      const int buffer = graph_.tensors[t].buffer;
      buffers[buffer >= 0 ? buffer : -1 - static_cast<int>(t)].push_back(static_cast<int>(t));
    }
    std::vector<std::vector<int>> same_memory(graph_.tensors.size());
    for (const auto& [buffer, tensors] : buffers) {
      for (int tensor : tensors) same_memory[static_cast<size_t>(tensor)] = tensors;
    }
    std::vector<std::vector<Touch>> readers(graph_.tensors.size()), writers(graph_.tensors.size());
    for (size_t o = 0; o < graph_.operators.size(); ++o) {
      const Operator& op = graph_.operators[o];
      const int number = static_cast<int>(o);
      for (const Access& read : op.reads) {
        for (const Touch& writer : writers[static_cast<size_t>(read.tensor)])
          STRATA_CHECK(add(DependenceKind::ReadAfterWrite, writer, {number, &read}));
      }
      for (const Access& write : op.writes) {
        for (int tensor : same_memory[static_cast<size_t>(write.tensor)]) {
          for (const Touch& reader : readers[static_cast<size_t>(tensor)])
            STRATA_CHECK(add(DependenceKind::WriteAfterRead, reader, {number, &write}));
          for (const Touch& writer : writers[static_cast<size_t>(tensor)])
            STRATA_CHECK(add(DependenceKind::WriteAfterWrite, writer, {number, &write}));
        }
      }
      // Where every element is written anew, what comes later follows what came before through this.
      for (const Access& write : op.writes) {
        const StepTensor& tensor = graph_.tensors[static_cast<size_t>(write.tensor)];
        if (!writes_bijectively(of_all_iterations(write.region), tensor.shape).proved()) continue;
        readers[static_cast<size_t>(write.tensor)].clear();
        writers[static_cast<size_t>(write.tensor)].clear();
      }
      for (const Access& read : op.reads) readers[static_cast<size_t>(read.tensor)].push_back({number, &read});
      for (const Access& write : op.writes) writers[static_cast<size_t>(write.tensor)].push_back({number, &write});
    }
    return std::move(found_);
  }

 private:
  Result<void> add(DependenceKind kind, const Touch& from, const Touch& to) {
    const Operator& before = graph_.operators[static_cast<size_t>(from.op)];
    const Operator& after = graph_.operators[static_cast<size_t>(to.op)];
    const StepTensor& first = graph_.tensors[static_cast<size_t>(from.access->tensor)];
    const StepTensor& second = graph_.tensors[static_cast<size_t>(to.access->tensor)];
    Dependence made{kind, from.op, to.op, to.access->tensor, {}, true};
    if (from.access->tensor != to.access->tensor &&
        (first.shape != second.shape || first.element_bytes != second.element_bytes)) {
      // One buffer seen as two shapes.
      made.pairs.emplace_back(GridSet::all(before.grid), GridSet::all(after.grid));
      made.exact = false;
      found_.push_back(std::move(made));
      return {};
    }
    const BlockOverlap overlap(of_all_iterations(from.access->region), of_all_iterations(to.access->region),
                               second.shape);
    auto pairs = distinct_sets(overlap);
    if (!pairs) {
      return with_remedy(
          unsupported("tasks of operator '{}' depend on more than {} different sets of tasks of '{}', by "
                      "tensor '{}'",
                      after.name, kMostLooks, before.name, second.name),
          "give the operators fewer and larger tasks");
    }
    made.pairs = *std::move(pairs);
    made.exact = overlap.exact() && from.access->region.exact && to.access->region.exact;
    if (!made.pairs.empty()) found_.push_back(std::move(made));
    return {};
  }

  const OperatorGraph& graph_;
  std::vector<Dependence> found_;
};

}  // namespace

int64_t TaskGraph::task_count() const {
  int64_t count = 0;
  for (const TaskGroup& group : groups) count = indexing::saturating_add(count, group.count());
  return count;
}

Result<std::vector<Dependence>> dependences(const OperatorGraph& graph) { return DependenceAnalysis(graph).run(); }

Result<TaskGraph> task_graph(const OperatorGraph& graph) {
  STRATA_TRY(const std::vector<Dependence> found, dependences(graph));
  TaskGraph made;
  for (size_t o = 0; o < graph.operators.size(); ++o)
    made.groups.push_back({graph.operators[o].name, static_cast<int>(o), graph.operators[o].grid});
  for (const Dependence& dependence : found) {
    for (const auto& [in, out] : dependence.pairs) {
      TaskEvent& event = made.events.emplace_back();
      event.in.add(dependence.from, in);
      event.out.add(dependence.to, out);
    }
  }
  return made;
}

TaskGraph with_step_end(TaskGraph graph) {
  std::vector<std::vector<GridSet>> triggering(graph.groups.size());
  for (const TaskEvent& event : graph.events) {
    for (const auto& [group, blocks] : event.in.groups) triggering[static_cast<size_t>(group)].push_back(blocks);
  }
  TaskSet last;
  for (size_t g = 0; g < graph.groups.size(); ++g)
    last.add(static_cast<int>(g), subtract(GridSet::all(graph.groups[g].grid), unite(std::move(triggering[g]))));
  if (last.count() == 1) return graph;
  TaskSet end;
  end.add(static_cast<int>(graph.groups.size()), GridSet::all({1}));
  graph.groups.push_back({"step end", -1, {1}});
  graph.events.push_back({std::move(last), std::move(end)});
  return graph;
}

}  // namespace strata::megakernel
