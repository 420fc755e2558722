#include "megakernel/tgraph/decompose.h"

#include "megakernel/tgraph/access_size.h"

namespace strata::megakernel {

using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;

namespace {

constexpr size_t kMostGridDimensions = 3;
/// Stages have at most so many bytes: four fill the window.
constexpr int64_t kStageBytes = 12288;
/// A number of tasks is near a multiple of the workers if so much of the last round of tasks is busy.
constexpr double kNearMultiple = 0.9;
/// Divisions into more rounds of tasks than this are not looked at: each task costs events.
constexpr int64_t kMostRounds = 4;

/// A region whose map keeps only dimensions in which the grid has more than one block; the others are 0.
AccessRegion without_dimensions(const AccessRegion& region, const std::vector<size_t>& kept) {
  AccessRegion result = region;
  result.map.dims.clear();
  for (size_t d : kept) result.map.dims.push_back(region.map.dims[d]);
  const auto replace = [&](const Expr& expr) {
    return substitute(expr, [&](ExprKind kind, int number) {
      if (kind != ExprKind::Dimension) return Expr::variable(kind, number);
      const auto at = std::find(kept.begin(), kept.end(), static_cast<size_t>(number));
      return at == kept.end() ? Expr() : Expr::dim(static_cast<int>(at - kept.begin()));
    });
  };
  for (Expr& one : result.map.results) one = replace(one);
  for (auto& constraint : result.map.constraints) constraint.expr = replace(constraint.expr);
  for (auto& variable : result.map.runtime) {
    for (Expr& index : variable.element) index = replace(index);
  }
  result.coordinates = static_cast<int>(kept.size());
  return result;
}

/// Numbers of parts of a dimension that are looked at: all up to a few, then those that divide it, or are powers of two
/// or divide the workers.
std::vector<int64_t> numbers_of_parts(int64_t size, int64_t workers) {
  std::vector<int64_t> numbers;
  const int64_t most = std::min(size, workers * kMostRounds);
  constexpr int64_t kAll = 8;
  for (int64_t n = 1; n <= most; ++n) {
    const bool power = (n & (n - 1)) == 0;
    if (n > kAll && size % n != 0 && !power && workers % n != 0 && n % workers != 0) continue;
    // Tiles are of whole elements: as many parts as these need.
    const int64_t parts = indexing::ceil_div(size, indexing::ceil_div(size, n));
    if (numbers.empty() || parts > numbers.back()) numbers.push_back(parts);
  }
  return numbers;
}

class Decomposer {
 public:
  Decomposer(const Graph& graph, const Machine& machine, const DecomposeOptions& options)
      : graph_(graph), machine_(machine), options_(options), views_(view_operations(graph)) {}

  Result<OperatorGraph> run() {
    if (graph_.level() != Level::Kernel) return invalid("graph '{}' is no kernel graph", graph_.name());
    STRATA_CHECK(check_options());
    made_.name = graph_.name();
    const auto& inputs = graph_.inputs();
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors().size()); ++id) {
      const TensorInfo& info = graph_.tensor(id);
      StepTensor& tensor = made_.tensors.emplace_back();
      tensor.name = info.name;
      tensor.shape = info.type.shape.empty() ? Shape{1} : info.type.shape;
      tensor.element_bytes = size_of(info.type.dtype);
      const bool is_input = std::find(inputs.begin(), inputs.end(), id) != inputs.end();
      tensor.kind = !is_input                                  ? TensorClass::Activation
                    : options_.history.contains(info.name)     ? TensorClass::History
                    : options_.step_inputs.contains(info.name) ? TensorClass::StepInput
                                                               : TensorClass::Constant;
    }
    for (size_t i = 0; i < graph_.operations().size(); ++i) {
      if (views_[i]) continue;
      const Operation& op = graph_.operations()[i];
      STRATA_CHECK((op.body ? add_custom(op) : add_predefined(op)));
    }
    return std::move(made_);
  }

 private:
  const std::string& name_of(const Operation& op) const { return graph_.tensor(op.results[0]).name; }

  Result<void> check_options() const {
    const auto check_inputs = [&](const std::set<std::string>& names, const char* what) -> Result<void> {
      for (const std::string& name : names) {
        const auto id = graph_.find_tensor(name);
        const auto& inputs = graph_.inputs();
        if (!id || std::find(inputs.begin(), inputs.end(), *id) == inputs.end())
          return invalid("'{}', which is said to be {}, is no input of '{}'", name, what, graph_.name());
      }
      return {};
    };
    STRATA_CHECK(check_inputs(options_.history, "history"));
    STRATA_CHECK(check_inputs(options_.step_inputs, "an input of the step"));
    for (const std::string& name : options_.step_inputs) {
      if (options_.history.contains(name))
        return with_remedy(invalid("'{}' is said to be history and an input of the step", name),
                           "history are rows that earlier steps wrote and this one finds as they are");
    }
    std::set<std::string> predefined, all;
    for (size_t i = 0; i < graph_.operations().size(); ++i) {
      if (views_[i]) continue;
      all.insert(name_of(graph_.operations()[i]));
      if (!graph_.operations()[i].body) predefined.insert(name_of(graph_.operations()[i]));
    }
    for (const auto& [name, parts] : options_.parts) {
      if (!predefined.contains(name))
        return invalid("'{}', which is said to be divided, is the result of no predefined operator of '{}'", name,
                       graph_.name());
    }
    for (const std::string& name : options_.data_dependent) {
      if (!all.contains(name))
        return invalid("'{}', whose time is said to depend on data, is the result of no operator of '{}'", name,
                       graph_.name());
    }
    return {};
  }

  /// Adds accesses of regions whose arguments are operands and results of `op`.
  void add(const Operation& op, std::vector<int64_t> grid, const std::vector<AccessRegion>& regions) {
    Operator made;
    made.name = made.function = name_of(op);
    made.grid = std::move(grid);
    made.data_dependent = options_.data_dependent.contains(made.name);
    for (const AccessRegion& region : regions) {
      const auto argument = static_cast<size_t>(region.argument);
      const TensorId id = region.writes ? op.results[argument] : op.operands[argument];
      Access access{id, region};
      access.region.map = of_all_iterations(region);
      if (!region.writes) {
        MemoryRegion memory = through_views(graph_, id, std::move(access.region.map));
        access.tensor = memory.memory;
        access.region.map = std::move(memory.map);
      }
      if (graph_.type(access.tensor).shape.empty()) access.region.map.results = {Expr()};
      (region.writes ? made.writes : made.reads).push_back(std::move(access));
    }
    set_cost(made);
    made_.operators.push_back(std::move(made));
  }

  void set_cost(Operator& op) const {
    int64_t activations = 0;
    for (const Access& read : op.reads) {
      const StepTensor& tensor = made_.tensors[static_cast<size_t>(read.tensor)];
      const int64_t bytes = access_bytes(read, tensor);
      const bool is_constant = tensor.kind == TensorClass::Constant || tensor.kind == TensorClass::History;
      int64_t& sum = is_constant ? op.cost.constant_bytes : activations;
      sum = indexing::saturating_add(sum, bytes);
    }
    op.cost.stages = indexing::ceil_div(op.cost.constant_bytes, kStageBytes);
    // All stages of a task have equally many bytes.
    if (op.cost.stages > 0)
      op.cost.stage_bytes = indexing::ceil_div(indexing::ceil_div(op.cost.constant_bytes, op.cost.stages), 16) * 16;
    // More activations than a worker has scratch memory for are brought in turns.
    op.cost.scratch_bytes = std::min(machine_.scratch_bytes, activations);
    op.cost.seconds = static_cast<double>(activations) * machine_.workers / machine_.rates.activation_bandwidth;
  }

  Result<void> add_custom(const Operation& op) {
    const std::vector<int64_t>& grid = op.body->launch().grid;
    if (grid.size() > kMostGridDimensions)
      return unsupported("operator '{}' has a grid of {} dimensions", name_of(op), grid.size());
    add(op, grid, block_regions(*op.body));
    return {};
  }

  Result<void> add_predefined(const Operation& op) {
    Shape shape = graph_.type(op.results[0]).shape;
    std::vector<int64_t> parts;
    if (const auto given = options_.parts.find(name_of(op)); given != options_.parts.end()) {
      parts = given->second;
      if (parts.size() != shape.size())
        return invalid("'{}' has {} dimensions, and {} numbers of parts", name_of(op), shape.size(), parts.size());
      for (size_t d = 0; d < shape.size(); ++d) {
        if (parts[d] < 1 || parts[d] > shape[d])
          return invalid("dimension {} of '{}' has {} elements; it cannot have {} parts", d, name_of(op), shape[d],
                         parts[d]);
      }
    } else {
      parts = best_parts(op, shape);
    }
    std::vector<size_t> kept;
    std::vector<int64_t> grid;
    const std::vector<AccessRegion> regions = regions_of(op, shape, parts);
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t blocks = regions.back().map.dims[d].size();
      if (blocks == 1) continue;
      kept.push_back(d);
      grid.push_back(blocks);
    }
    if (grid.size() > kMostGridDimensions)
      return unsupported("'{}' is divided along {} dimensions, more than {}", name_of(op), grid.size(),
                         kMostGridDimensions);
    if (grid.empty()) {
      grid = {1};
      if (!shape.empty()) kept = {0};
    }
    std::vector<AccessRegion> reduced;
    for (const AccessRegion& region : regions) {
      reduced.push_back(without_dimensions(region, kept));
      if (shape.empty()) {
        reduced.back().map.dims = {indexing::below(1)};
        reduced.back().coordinates = 1;
      }
    }
    add(op, grid, reduced);
    return {};
  }

  std::vector<AccessRegion> regions_of(const Operation& op, const Shape& shape,
                                       const std::vector<int64_t>& parts) const {
    std::vector<int64_t> tile;
    for (size_t d = 0; d < shape.size(); ++d) tile.push_back(indexing::ceil_div(shape[d], parts[d]));
    return predefined_regions(graph_, op, tile);
  }

  /// What all tasks of a division load from device memory.
  int64_t loaded_bytes(const Operation& op, const Shape& shape, const std::vector<int64_t>& parts,
                       int64_t tasks) const {
    int64_t bytes = 0;
    for (const AccessRegion& region : regions_of(op, shape, parts)) {
      if (region.writes) continue;
      const TensorType& type = graph_.type(op.operands[static_cast<size_t>(region.argument)]);
      bytes = indexing::saturating_add(
          bytes, indexing::saturating_mul(elements_of_block(region.map, type.shape), size_of(type.dtype)));
    }
    return indexing::saturating_mul(bytes, tasks);
  }

  std::vector<int64_t> best_parts(const Operation& op, const Shape& shape) const {
    std::vector<std::vector<int64_t>> candidates;
    for (int64_t size : shape) candidates.push_back(numbers_of_parts(size, machine_.workers));
    std::vector<std::vector<int64_t>> all;
    std::vector<int64_t> parts(shape.size(), 1);
    const std::function<void(size_t, int64_t, size_t)> choose = [&](size_t d, int64_t tasks, size_t divided) {
      if (tasks > machine_.workers * kMostRounds) return;
      if (d == shape.size()) {
        all.push_back(parts);
        return;
      }
      for (int64_t n : candidates[d]) {
        if (n > 1 && divided == kMostGridDimensions) break;
        parts[d] = n;
        choose(d + 1, tasks * n, divided + (n > 1));
      }
      parts[d] = 1;
    };
    choose(0, 1, 0);
    // How much of the workers' rounds is busy; what is near enough counts as full.
    const auto tasks_of = [](const std::vector<int64_t>& one) { return *indexing::element_count(one); };
    const auto busy = [&](const std::vector<int64_t>& one) {
      const int64_t rounds = indexing::ceil_div(tasks_of(one), machine_.workers);
      const double share = static_cast<double>(tasks_of(one)) / static_cast<double>(rounds * machine_.workers);
      return std::min(share, kNearMultiple);
    };
    double most = 0;
    for (const auto& one : all) most = std::max(most, busy(one));
    std::vector<int64_t> best;
    std::pair<int64_t, int64_t> least;
    for (const auto& one : all) {
      if (busy(one) < most) continue;
      const std::pair cost{loaded_bytes(op, shape, one, tasks_of(one)), tasks_of(one)};
      if (!best.empty() && cost >= least) continue;
      best = one;
      least = cost;
    }
    return best;
  }

  const Graph& graph_;
  const Machine& machine_;
  const DecomposeOptions& options_;
  const std::vector<bool> views_;
  OperatorGraph made_;
};

}  // namespace

Result<OperatorGraph> decompose(const Graph& graph, const Machine& machine, const DecomposeOptions& options) {
  return Decomposer(graph, machine, options).run();
}

}  // namespace strata::megakernel
