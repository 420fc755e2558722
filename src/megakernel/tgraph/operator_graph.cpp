#include "megakernel/tgraph/operator_graph.h"

#include <map>
#include <set>

#include "block/overlap.h"
#include "indexing/enumerate.h"
#include "indexing/map_checks.h"
#include "indexing/simplify.h"

namespace strata::megakernel {

using indexing::IndexingMap;
using indexing::Interval;
using indexing::Verdict;

namespace {

/// Where structure decides nothing, so many blocks and elements are tried one by one.
constexpr int64_t kMostBlocks = 1 << 14;
constexpr int64_t kMostPoints = 1 << 20;

using Box = std::vector<Interval>;

/// Least and greatest index along each dimension that a map reaches, within the shape.
Box hull_of(const IndexingMap& map, const std::vector<int64_t>& shape) {
  const IndexingMap simple = simplify(map, indexing::UnusedVariables::Keep);
  indexing::ExprRange range(simple, indexing::ExprRange::Facts::VariablesAndConstraints);
  Box hull;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Interval whole = indexing::below(shape[d]);
    hull.push_back(simple.known_empty ? Interval{} : intersect(whole, range(simple.results[d])));
  }
  return hull;
}

bool is_empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](const Interval& side) { return side.empty(); });
}

/// What is left of boxes where one is taken away.
std::vector<Box> without(const std::vector<Box>& boxes, const Box& taken) {
  std::vector<Box> left;
  for (Box box : boxes) {
    bool apart = false;
    for (size_t d = 0; d < box.size(); ++d) apart = apart || intersect(box[d], taken[d]).empty();
    if (apart) {
      left.push_back(box);
      continue;
    }
    for (size_t d = 0; d < box.size(); ++d) {
      for (const Interval side : {Interval{box[d].lo, taken[d].lo - 1}, Interval{taken[d].hi + 1, box[d].hi}}) {
        if (side.empty()) continue;
        left.push_back(box);
        left.back()[d] = side;
      }
      box[d] = intersect(box[d], taken[d]);
    }
  }
  return left;
}

/// Whether a map writes every element of a box once.
bool fills(IndexingMap map, const Box& box) {
  std::vector<int64_t> shape;
  for (size_t d = 0; d < box.size(); ++d) {
    map.results[d] = map.results[d] - box[d].lo;
    shape.push_back(box[d].size());
  }
  return writes_bijectively(simplify(map), shape).proved();
}

enum class Answer { Yes, No, Unknown };

/// Whether tasks share elements with no task but themselves.
Answer meets_only_itself(const BlockOverlap& overlap, const std::vector<int64_t>& grid, bool same_map) {
  if (overlap.empty() || (same_map && overlap.is_one_to_one())) return Answer::Yes;
  IndexingMap blocks;
  blocks.dims = indexing::positions(grid);
  if (box_size(blocks) > kMostBlocks) return Answer::Unknown;
  Answer answer = Answer::Yes;
  for_each_point(blocks, [&](const indexing::Point& point) {
    const BlockSet others = overlap.producers_of(point.dims);
    if (others.count() > 1 || (others.count() == 1 && !others.contains(point.dims)))
      answer = others.exact ? Answer::No : Answer::Unknown;
    return answer == Answer::Yes;
  });
  return answer;
}

/// Checks one graph; place of errors is operator and tensor.
class Checker {
 public:
  explicit Checker(const OperatorGraph& graph) : graph_(graph) {}

  Result<void> run() {
    STRATA_CHECK(check_tensors());
    std::set<std::string> names;
    writers_.resize(graph_.tensors.size());
    for (const Operator& op : graph_.operators) {
      if (op.name.empty()) return invalid("an operator has no name");
      if (!names.insert(op.name).second) return invalid("two operators are named '{}'", op.name);
      if (op.function.empty()) return invalid("operator '{}' has no function", op.name);
      if (op.grid.empty() || op.grid.size() > 3 ||
          std::any_of(op.grid.begin(), op.grid.end(), [](int64_t size) { return size < 1; }))
        return invalid("operator '{}' has grid [{}]; expected one to three positive sizes", op.name,
                       fmt::join(op.grid, ", "));
      const TaskCost& cost = op.cost;
      if (cost.constant_bytes < 0 || !(cost.seconds >= 0) || cost.stages < 0 || cost.stage_bytes < 0 ||
          cost.scratch_bytes < 0)
        return invalid("operator '{}' has a negative cost", op.name);
      if (cost.stage_bytes % 16 != 0 || (cost.stages > 0 && cost.stage_bytes == 0))
        return invalid("operator '{}' has {} stages of {} bytes; expected a multiple of 16", op.name, cost.stages,
                       cost.stage_bytes);
      STRATA_CHECK(check_accesses(op));
      for (const Access& write : op.writes) STRATA_CHECK(check_write(op, write));
      for (const Access& read : op.reads) STRATA_CHECK(check_read(op, read));
      STRATA_CHECK(check_buffers(op));
      for (const Access& write : op.writes)
        writers_[static_cast<size_t>(write.tensor)].push_back(of_all_iterations(write.region));
    }
    return {};
  }

 private:
  const StepTensor& tensor(const Access& access) const { return graph_.tensors[static_cast<size_t>(access.tensor)]; }

  Result<void> check_tensors() const {
    std::set<std::string> names;
    for (const StepTensor& tensor : graph_.tensors) {
      if (tensor.name.empty()) return invalid("a tensor has no name");
      if (!names.insert(tensor.name).second) return invalid("two tensors are named '{}'", tensor.name);
      const auto count = indexing::element_count(tensor.shape);
      if (tensor.shape.empty() || !count || *count < 1)
        return invalid("tensor '{}' has shape [{}]; expected positive sizes", tensor.name,
                       fmt::join(tensor.shape, ", "));
      if (tensor.element_bytes < 1)
        return invalid("tensor '{}' has elements of {} bytes", tensor.name, tensor.element_bytes);
    }
    return {};
  }

  Result<void> check_accesses(const Operator& op) const {
    for (const auto* accesses : {&op.reads, &op.writes}) {
      for (const Access& access : *accesses) {
        const bool writes = accesses == &op.writes;
        if (access.tensor < 0 || static_cast<size_t>(access.tensor) >= graph_.tensors.size())
          return invalid("operator '{}' {} tensor {}, which is none of {}", op.name, writes ? "writes" : "reads",
                         access.tensor, graph_.tensors.size());
        const auto wrong = [&](const std::string& what) {
          return invalid("operator '{}' {} tensor '{}' {}", op.name, writes ? "writes" : "reads", tensor(access).name,
                         what);
        };
        const IndexingMap map = of_all_iterations(access.region);
        if (map.dims != indexing::positions(op.grid))
          return wrong(fmt::format("by a map whose dimensions are not those of the grid [{}]: {}",
                                   fmt::join(op.grid, ", "), to_string(map)));
        if (map.results.size() != tensor(access).shape.size())
          return wrong(fmt::format("by a map with {} results; its shape is [{}]", map.results.size(),
                                   fmt::join(tensor(access).shape, ", ")));
        if (access.region.writes != writes) return wrong("by a region that says the contrary");
        const Verdict inside = reads_in_bounds(map, tensor(access).shape, kMostPoints);
        if (inside.kind == Verdict::Kind::Refuted) return wrong("outside of its shape: " + inside.reason);
        if (!inside.proved())
          return with_remedy(wrong("where it cannot be shown to stay in its shape"),
                             "constrain the results of the map to the shape");
      }
    }
    return {};
  }

  /// Of tensors that share memory, the one that was written last is there, until an operator that does not read it
  /// writes another: tasks of one operator run at the same time.
  Result<void> check_buffers(const Operator& op) {
    for (const Access& read : op.reads) {
      const auto held = held_.find(tensor(read).buffer);
      if (held == held_.end() || held->second == read.tensor) continue;
      return with_remedy(invalid("operator '{}' reads tensor '{}', over which '{}' was written", op.name,
                                 tensor(read).name, graph_.tensors[static_cast<size_t>(held->second)].name),
                         "give the tensors memory of their own");
    }
    for (const Access& write : op.writes) {
      const int buffer = tensor(write).buffer;
      if (buffer < 0) continue;
      for (const auto* accesses : {&op.reads, &op.writes}) {
        for (const Access& other : *accesses) {
          if (tensor(other).buffer != buffer || other.tensor == write.tensor) continue;
          return with_remedy(
              invalid("operator '{}' writes tensor '{}' over '{}', which it {}", op.name, tensor(write).name,
                      tensor(other).name, accesses == &op.reads ? "reads" : "writes too"),
              "give the tensors memory of their own");
        }
      }
      held_[buffer] = write.tensor;
    }
    return {};
  }

  Result<void> check_write(const Operator& op, const Access& write) const {
    if (tensor(write).kind == TensorClass::Constant)
      return with_remedy(invalid("operator '{}' writes '{}', which is a constant", op.name, tensor(write).name),
                         "make the tensor an activation, or history if earlier steps wrote it");
    if (tensor(write).kind == TensorClass::StepInput)
      return with_remedy(
          invalid("operator '{}' writes '{}', which is an input of the step", op.name, tensor(write).name),
          "make the tensor an activation, or write another one");
    for (const Access& other : op.writes) {
      if (other.tensor != write.tensor) continue;
      const bool same = &other == &write;
      const BlockOverlap overlap(of_all_iterations(write.region), of_all_iterations(other.region), tensor(write).shape);
      const Answer disjoint = meets_only_itself(overlap, op.grid, same);
      if (disjoint == Answer::No)
        return invalid("tasks of operator '{}' write the same elements of tensor '{}'", op.name, tensor(write).name);
      if (disjoint == Answer::Unknown)
        return with_remedy(invalid("tasks of operator '{}' cannot be shown to write disjoint elements of tensor '{}'",
                                   op.name, tensor(write).name),
                           "write by tiles, whose places are multiples of coordinates of the grid");
    }
    for (const Access& read : op.reads) {
      if (read.tensor != write.tensor) continue;
      const BlockOverlap overlap(of_all_iterations(write.region), of_all_iterations(read.region), tensor(write).shape);
      const Answer own = meets_only_itself(overlap, op.grid, false);
      // Rows of history that are found at run time are other rows, by what history is.
      if (own == Answer::Unknown && tensor(read).kind == TensorClass::History) continue;
      if (own != Answer::Yes)
        return with_remedy(invalid("tasks of operator '{}' read elements of tensor '{}' that others of its tasks write",
                                   op.name, tensor(write).name),
                           "divide it into two operators, or write another tensor");
    }
    return {};
  }

  Result<void> check_read(const Operator& op, const Access& read) const {
    const StepTensor& read_tensor = tensor(read);
    const IndexingMap map = of_all_iterations(read.region);
    const auto& writers = writers_[static_cast<size_t>(read.tensor)];
    if (read_tensor.kind == TensorClass::History) {
      for (const IndexingMap& writer : writers) {
        const BlockOverlap overlap(writer, map, read_tensor.shape);
        if (overlap.exact() && !overlap.empty())
          return with_remedy(invalid("operator '{}' reads elements of history '{}' that were written in this step",
                                     op.name, read_tensor.name),
                             "make the tensor an activation, or hand the new elements over in another tensor");
      }
    }
    if (read_tensor.kind != TensorClass::Activation) return {};
    const Box wanted = hull_of(map, read_tensor.shape);
    if (is_empty(wanted)) return {};
    std::vector<Box> missing{wanted};
    bool all_are_boxes = true;
    for (const IndexingMap& writer : writers) {
      const Box written = hull_of(writer, read_tensor.shape);
      if (is_empty(written)) continue;
      if (fills(writer, written)) {
        missing = without(missing, written);
      } else {
        all_are_boxes = false;
      }
      if (missing.empty()) return {};
    }
    const auto never_written = [&](const std::string& where) {
      return with_remedy(
          invalid("operator '{}' reads elements of activation '{}' that no operator before it writes: {}", op.name,
                  read_tensor.name, where),
          "put the operator that writes them before it");
    };
    if (writers.empty()) return never_written("all of them");
    // The hull may be more than what is read, and what is written no box: then elements are looked at one by one.
    int64_t points = box_size(map);
    for (const IndexingMap& writer : writers) points = indexing::saturating_add(points, box_size(writer));
    if (points > kMostPoints) {
      if (all_are_boxes && map.constraints.empty()) {
        std::vector<int64_t> index;
        for (const Interval& side : missing[0]) index.push_back(side.lo);
        return never_written(fmt::format("[{}] is one", fmt::join(index, ", ")));
      }
      return with_remedy(invalid("elements of activation '{}' that operator '{}' reads cannot be shown to be written",
                                 read_tensor.name, op.name),
                         "write the tensor by tiles");
    }
    std::set<std::vector<int64_t>> written;
    for (const IndexingMap& writer : writers) {
      for_each_point(writer, [&](const indexing::Point& point) {
        if (auto index = evaluate(writer, point)) written.insert(*std::move(index));
        return true;
      });
    }
    std::optional<std::vector<int64_t>> lost;
    for_each_point(map, [&](const indexing::Point& point) {
      auto index = evaluate(map, point);
      if (index && !written.contains(*index)) lost = std::move(index);
      return !lost;
    });
    if (lost) return never_written(fmt::format("[{}] is one", fmt::join(*lost, ", ")));
    return {};
  }

  const OperatorGraph& graph_;
  std::vector<std::vector<IndexingMap>> writers_;  ///< of each tensor, by the operators so far
  std::map<int, int> held_;                        ///< by buffer: the tensor that was written last
};

}  // namespace

Result<void> validate(const OperatorGraph& graph) {
  return Checker(graph).run().map_error(
      [&](Error error) { return graph.name.empty() ? error : error.within("'" + graph.name + "'"); });
}

}  // namespace strata::megakernel
