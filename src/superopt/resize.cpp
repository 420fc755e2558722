#include "superopt/resize.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/validate.h"
#include "superopt/optimize/cost.h"
#include "superopt/verify/axes.h"
#include "superopt/verify/inputs.h"
#include "support/divisors.h"

namespace strata {
namespace {

/// Launch shapes of one block graph that are built and rated.
constexpr size_t kMostLaunches = 2000;
/// Of a kernel's launch shapes, and of whole graphs, those that are kept, cheapest first.
constexpr size_t kOfOneKernel = 6;
constexpr size_t kMostGraphs = 6;
/// Dimensions that are as they were are cut into so many times more or fewer parts at most.
constexpr int64_t kNear = 4;
/// Tiles keep at least this many elements of the innermost dimension, unless it has fewer.
constexpr int64_t kNarrowestTile = 8;
constexpr size_t kMostGridDimensions = 3;

/// What numbers of attributes become: by the attribute's name and its value at the old sizes.
using NewNumbers = std::map<std::pair<std::string, std::string>, AttributeValue>;

/// Of the operators of one program at two sizes. A number that becomes two others is left as it is: the types, or the
/// proof, tell whether that is right.
NewNumbers new_numbers(const Graph& from, const Graph& to) {
  NewNumbers numbers;
  std::vector<std::pair<std::string, std::string>> doubtful;
  for (size_t i = 0; i < from.operations().size(); ++i) {
    for (const auto& [name, value] : from.operations()[i].attributes.entries()) {
      const AttributeValue* now = to.operations()[i].attributes.find(name);
      if (now == nullptr) continue;
      const auto [known, fresh] = numbers.emplace(std::pair(name, to_string(value)), *now);
      if (!fresh && known->second != *now) doubtful.push_back(known->first);
    }
  }
  for (const auto& key : doubtful) numbers.erase(key);
  return numbers;
}

Attributes renumbered(const Attributes& attributes, const NewNumbers& numbers) {
  Attributes result = attributes;
  for (const auto& [name, value] : attributes.entries()) {
    const auto found = numbers.find({name, to_string(value)});
    if (found != numbers.end()) result.set(name, found->second);
  }
  return result;
}

/// A block graph whose operators stand in it, and none in thread graphs.
Result<GraphPtr> without_threads(const Graph& body, const NewNumbers& numbers, const std::vector<TensorType>& inputs,
                                 const LaunchShape& launch) {
  GraphBuilder builder(Level::Block, body.name(), launch);
  std::vector<TensorId> ids(body.tensors().size(), -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    STRATA_TRY(ids[static_cast<size_t>(body.inputs()[i])],
               builder.input(body.tensor(body.inputs()[i]).name, inputs[i]));
  }
  for (const Operation& op : body.operations()) {
    std::vector<TensorId> operands;
    for (const TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    if (!op.body) {
      STRATA_TRY(ids[static_cast<size_t>(op.results[0])],
                 builder.add(op.kind, std::move(operands), renumbered(op.attributes, numbers),
                             body.tensor(op.results[0]).name));
      continue;
    }
    const Graph& thread = *op.body;
    std::vector<TensorId> inner(thread.tensors().size(), -1);
    for (size_t i = 0; i < operands.size(); ++i) inner[static_cast<size_t>(thread.inputs()[i])] = operands[i];
    for (const Operation& step : thread.operations()) {
      std::vector<TensorId> of;
      for (const TensorId id : step.operands) of.push_back(inner[static_cast<size_t>(id)]);
      TensorId& made = inner[static_cast<size_t>(step.results[0])];
      if (step.kind == OpKind::InIter || step.kind == OpKind::OutSaver) {
        made = of[0];
      } else {
        STRATA_TRY(made, builder.add(step.kind, std::move(of), renumbered(step.attributes, numbers)));
      }
    }
    for (size_t n = 0; n < op.results.size(); ++n) {
      ids[static_cast<size_t>(op.results[n])] = inner[static_cast<size_t>(thread.outputs()[n])];
    }
  }
  return builder.finish();
}

/// The common divisor of the extents that a grid dimension (or, at index grid rank, the loop) cuts; 0 where it cuts
/// none.
int64_t cut_extent(const Graph& body, const std::vector<TensorType>& inputs, size_t grid_dimension) {
  int64_t common = 0;
  for (const Operation& op : body.operations()) {
    if (op.kind != OpKind::InIter) continue;
    const auto input = std::find(body.inputs().begin(), body.inputs().end(), op.operands[0]) - body.inputs().begin();
    const bool loop = grid_dimension == body.launch().grid.size();
    const int64_t d = loop ? op.attributes.integer_or("fmap", kReplicate) : op.attributes.list("imap")[grid_dimension];
    if (d != kReplicate) common = std::gcd(common, inputs[static_cast<size_t>(input)].shape[static_cast<size_t>(d)]);
  }
  return common;
}

/// The numbers of parts into which a grid dimension or the loop may cut.
std::vector<int64_t> cuts(const Graph& body, const std::vector<TensorType>& inputs, size_t g) {
  const bool loop = g == body.launch().grid.size();
  const int64_t was = loop ? body.launch().loop : body.launch().grid[g];
  const int64_t extent = cut_extent(body, inputs, g);
  if (extent == 0 || (loop && was == 1)) return {was};
  const bool changed = extent != cut_extent(body, body.types(body.inputs()), g);
  std::vector<int64_t> choices = divisors(extent);
  std::erase_if(choices, [&](int64_t cut) {
    if (loop && cut == 1) return true;  // it has an accumulator
    return !changed && (cut > was * kNear || cut * kNear < was);
  });
  return choices;
}

bool tiles_wide(const Graph& body) {
  return std::all_of(body.operations().begin(), body.operations().end(), [&](const Operation& op) {
    if (op.kind != OpKind::InIter) return true;
    const Shape& whole = body.type(op.operands[0]).shape;
    const Shape& tile = body.type(op.results[0]).shape;
    return whole.empty() || tile.back() >= std::min(whole.back(), kNarrowestTile);
  });
}

bool fits(const Graph& body, const Target& target) {
  if (shared_memory_bytes(body) <= target.shared_memory) return true;
  return block_bytes(body).fits_registers(target) && stays_in_registers(body);
}

/// The axes of a block graph: dimensions of its tensors that are walked together and that nothing cuts.
class BlockAxes {
 public:
  explicit BlockAxes(const Graph& body) : body_(body) {
    for (const TensorInfo& info : body.tensors()) {
      nodes_.push_back(axes_.size());
      for (size_t d = 0; d < info.type.shape.size(); ++d) axes_.add();
    }
    cut_.resize(static_cast<size_t>(axes_.size()), false);
    for (const Operation& op : body.operations()) unite(op);
    for (size_t i = 0; i < cut_.size(); ++i) {
      if (cut_[i]) cut_axes_.push_back(axes_.find(static_cast<int>(i)));
    }
  }

  int axis(TensorId id, size_t d) { return axes_.find(nodes_[static_cast<size_t>(id)] + static_cast<int>(d)); }
  bool is_cut(int axis) const { return std::find(cut_axes_.begin(), cut_axes_.end(), axis) != cut_axes_.end(); }
  /// The only dimension of the tensor along this axis; `_` where there is none, nothing where there are two.
  std::optional<int64_t> dimension(TensorId id, int axis_wanted) {
    int64_t found = kReplicate;
    for (size_t d = 0; d < body_.type(id).shape.size(); ++d) {
      if (axis(id, d) != axis_wanted) continue;
      if (found != kReplicate) return std::nullopt;
      found = static_cast<int64_t>(d);
    }
    return found;
  }

 private:
  void unite(const Operation& op) {
    const bool moves = op.kind == OpKind::InIter || op.kind == OpKind::OutSaver;
    if (!moves && op.kind != OpKind::Accum) return unite_labels(body_, op, nodes_, axes_);
    const int operand = nodes_[static_cast<size_t>(op.operands[0])];
    const int result = nodes_[static_cast<size_t>(op.results[0])];
    for (size_t d = 0; d < body_.type(op.operands[0]).shape.size(); ++d) {
      axes_.unite(operand + static_cast<int>(d), result + static_cast<int>(d));
    }
    const auto mark = [&](int64_t d) {
      if (d != kReplicate) cut_[static_cast<size_t>(operand) + static_cast<size_t>(d)] = true;
    };
    if (op.kind == OpKind::Accum) return mark(op.attributes.integer_or("dim", kReplicate));
    for (const int64_t d : op.attributes.list(op.kind == OpKind::InIter ? "imap" : "omap")) mark(d);
    if (op.kind == OpKind::InIter) mark(op.attributes.integer_or("fmap", kReplicate));
  }

  const Graph& body_;
  UnionFind axes_;
  std::vector<int> nodes_;
  std::vector<bool> cut_;
  std::vector<int> cut_axes_;
};

/// The block graph with one more grid dimension of size 1, along an axis that all its results have; nothing where that
/// is not so.
GraphPtr with_grid_axis(const Graph& body, BlockAxes& axes, int axis) {
  LaunchShape launch = body.launch();
  launch.grid.push_back(1);
  GraphBuilder builder(Level::Block, body.name(), launch);
  std::vector<TensorId> ids(body.tensors().size(), -1);
  for (const TensorId id : body.inputs()) {
    ids[static_cast<size_t>(id)] = builder.input(body.tensor(id).name, body.type(id)).value();
  }
  for (const Operation& op : body.operations()) {
    std::vector<TensorId> operands;
    for (const TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    Attributes attributes = op.attributes;
    if (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver) {
      const bool in = op.kind == OpKind::InIter;
      const auto d = axes.dimension(op.operands[0], axis);
      if (!d || (!in && *d == kReplicate)) return nullptr;
      std::vector<int64_t> map = attributes.list(in ? "imap" : "omap");
      map.push_back(*d);
      attributes.set(in ? "imap" : "omap", map);
    }
    const auto made = builder.add(op.kind, std::move(operands), std::move(attributes), body.tensor(op.results[0]).name);
    if (!made) return nullptr;
    ids[static_cast<size_t>(op.results[0])] = *made;
  }
  return builder.finish().value_or(nullptr);
}

/// The block graph, and it with each axis that has changed and that nothing cuts as a new grid dimension.
std::vector<GraphPtr> with_new_axes(const GraphPtr& body, const std::vector<TensorType>& inputs) {
  std::vector<GraphPtr> forms{body};
  if (body->launch().grid.size() == kMostGridDimensions) return forms;
  BlockAxes axes(*body);
  std::vector<int> seen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorId id = body->inputs()[i];
    for (size_t d = 0; d < inputs[i].shape.size(); ++d) {
      const int axis = axes.axis(id, d);
      const bool changed = inputs[i].shape[d] != body->type(id).shape[d];
      if (!changed || axes.is_cut(axis) || std::find(seen.begin(), seen.end(), axis) != seen.end()) continue;
      seen.push_back(axis);
      if (GraphPtr form = with_grid_axis(*body, axes, axis)) forms.push_back(std::move(form));
    }
  }
  return forms;
}

struct Rated {
  GraphPtr body;
  double seconds;
};

/// The kernel alone, as the model rates it.
double seconds_of(const GraphPtr& body, const Target& target) {
  GraphBuilder builder(Level::Kernel, "kernel");
  std::vector<TensorId> operands;
  for (const TensorId id : body->inputs())
    operands.push_back(builder.input(body->tensor(id).name, body->type(id)).value());
  // Its names may be those of its inputs.
  const auto results = builder.add(body, operands);
  if (!results) return -1;
  return estimate_operation(builder.peek(), builder.peek().operations().back(), target).seconds;
}

/// The block graph for other inputs, the cheapest launch shapes first.
std::vector<Rated> launches(const GraphPtr& body, const NewNumbers& numbers, const std::vector<TensorType>& inputs,
                            const Target& target) {
  std::vector<Rated> found;
  // At the old sizes, so that axes and cuts can be compared; numbers change with the inputs.
  const auto plain = without_threads(*body, {}, body->types(body->inputs()), body->launch());
  if (!plain) return found;
  for (const GraphPtr& form : with_new_axes(*plain, inputs)) {
    const size_t rank = form->launch().grid.size();
    std::vector<std::vector<int64_t>> choices;
    for (size_t g = 0; g <= rank; ++g) choices.push_back(cuts(*form, inputs, g));
    if (std::any_of(choices.begin(), choices.end(), [](const auto& one) { return one.empty(); })) continue;
    std::vector<size_t> at(choices.size(), 0);
    for (size_t tried = 0; tried < kMostLaunches; ++tried) {
      LaunchShape launch;
      for (size_t g = 0; g < rank; ++g) launch.grid.push_back(choices[g][at[g]]);
      launch.loop = choices[rank][at[rank]];
      const auto made = without_threads(*form, numbers, inputs, launch);
      if (made && tiles_wide(**made) && fits(**made, target)) {
        const double seconds = seconds_of(*made, target);
        if (seconds >= 0) found.push_back({*made, seconds});
      }
      size_t g = 0;
      while (g < at.size() && ++at[g] == choices[g].size()) at[g++] = 0;
      if (g == at.size()) break;
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Rated& a, const Rated& b) { return a.seconds < b.seconds; });
  if (found.size() > kOfOneKernel) found.resize(kOfOneKernel);
  return found;
}

/// Makes kernel graphs operator by operator, each with the launch shapes of `chosen` in turn.
class Resizer {
 public:
  Resizer(const Graph& found, const Graph& from, const Graph& to, const Target& target)
      : found_(found), to_(to), target_(target), numbers_(new_numbers(from, to)) {}

  Result<std::vector<GraphPtr>> run() {
    // Kernels of partial results have types that depend on the launch before them, so each is made after it.
    std::vector<Partial> partial{{{}, 0}};
    for (const Operation& op : found_.operations()) {
      if (!op.body) continue;
      std::vector<Partial> next;
      for (const Partial& one : partial) {
        const auto inputs = inputs_of(op, one.bodies);
        if (!inputs) continue;
        for (const Rated& launch : launches(op.body, numbers_, *inputs, target_)) {
          next.push_back({one.bodies, one.seconds + launch.seconds});
          next.back().bodies.push_back(launch.body);
        }
      }
      if (next.empty()) {
        return unsupported("kernel '{}' has no grid and loop at these sizes that fit the device",
                           found_.tensor(op.results[0]).name);
      }
      std::stable_sort(next.begin(), next.end(),
                       [](const Partial& a, const Partial& b) { return a.seconds < b.seconds; });
      if (next.size() > kMostGraphs) next.resize(kMostGraphs);
      partial = std::move(next);
    }
    std::vector<GraphPtr> graphs;
    Result<GraphPtr> last = unsupported("it has no kernel");
    for (const Partial& one : partial) {
      last = built(one.bodies, true);
      if (last && validate(**last, target_)) graphs.push_back(*last);
    }
    if (graphs.empty() && !last) return tl::unexpected(last.error());
    if (graphs.empty()) return unsupported("no graph is legal at these sizes");
    return graphs;
  }

 private:
  struct Partial {
    std::vector<GraphPtr> bodies;  ///< of the first kernels
    double seconds;
  };

  /// Types of the operands of a kernel when those before it have these block graphs.
  Result<std::vector<TensorType>> inputs_of(const Operation& wanted, const std::vector<GraphPtr>& bodies) const {
    GraphBuilder builder(Level::Kernel, found_.name());
    std::vector<TensorId> ids(found_.tensors().size(), -1);
    STRATA_CHECK(build(builder, ids, bodies, &wanted));
    std::vector<TensorType> types;
    for (const TensorId id : wanted.operands) types.push_back(builder.type(ids[static_cast<size_t>(id)]));
    return types;
  }

  Result<GraphPtr> built(const std::vector<GraphPtr>& bodies, bool check) const {
    GraphBuilder builder(Level::Kernel, found_.name());
    std::vector<TensorId> ids(found_.tensors().size(), -1);
    STRATA_CHECK(build(builder, ids, bodies, nullptr));
    for (const TensorId id : found_.outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
    STRATA_TRY(GraphPtr graph, builder.finish());
    if (check) STRATA_CHECK(check_replacement(to_, *graph));
    return graph;
  }

  Result<void> build(GraphBuilder& builder, std::vector<TensorId>& ids, const std::vector<GraphPtr>& bodies,
                     const Operation* end) const {
    for (const TensorId id : found_.inputs()) {
      const std::string& name = found_.tensor(id).name;
      const auto same = to_.find_tensor(name);
      if (!same) return unsupported("the program has no input '{}'", name);
      STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(name, to_.type(*same)));
    }
    size_t kernel = 0;
    for (const Operation& op : found_.operations()) {
      if (&op == end) return {};
      std::vector<TensorId> operands;
      for (const TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
      if (!op.body) {
        STRATA_TRY(ids[static_cast<size_t>(op.results[0])],
                   builder.add(op.kind, std::move(operands), renumbered(op.attributes, numbers_),
                               found_.tensor(op.results[0]).name));
        continue;
      }
      std::vector<std::string> names;
      for (const TensorId id : op.results) names.push_back(found_.tensor(id).name);
      STRATA_TRY(const auto results, builder.add(bodies[kernel++], std::move(operands), std::move(names)));
      for (size_t n = 0; n < results.size(); ++n) ids[static_cast<size_t>(op.results[n])] = results[n];
    }
    return {};
  }

  const Graph& found_;
  const Graph& to_;
  const Target& target_;
  const NewNumbers numbers_;
};

}  // namespace

Result<std::vector<GraphPtr>> resized(const Graph& found, const Graph& from, const Graph& to, const Target& target) {
  if (from.operations().size() != to.operations().size()) return unsupported("the program has other operators");
  return Resizer(found, from, to, target).run();
}

}  // namespace strata
