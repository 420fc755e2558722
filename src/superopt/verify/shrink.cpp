#include "superopt/verify/shrink.h"

#include <algorithm>
#include <numeric>

#include "interpret/work.h"
#include "superopt/verify/axes.h"
#include "superopt/verify/decided.h"
#include "superopt/verify/dependence.h"

namespace strata {
namespace {

/// A size that is no tensor dimension: a grid dimension, a loop or the group of a reduction.
struct Factor {
  int64_t size;
  bool frozen;
  bool repeated;  ///< a value repeats along it that is added to others
  int64_t value = 0;
};

/// One use of a graph: bodies are visited once for each operator that carries them.
struct Use {
  const Graph* graph = nullptr;
  std::vector<int> nodes;      ///< first axis node of each tensor
  std::vector<int> launch;     ///< factors of the grid dimensions, then of the loop
  std::vector<int> groups;     ///< by operation: factor of `every`, or −1
  std::vector<int> body_uses;  ///< by operation: index of the use of its body, or −1
};

/// whole = product of factors · part, between axis nodes.
struct Cut {
  int whole;
  std::vector<int> factors;
  int part;
};

class Shrinker {
 public:
  explicit Shrinker(Shrinking shrinking)
      : sound_(shrinking == Shrinking::Sound), masks_(shrinking == Shrinking::Masks) {}

  Result<std::pair<GraphPtr, GraphPtr>> run(const Graph& reference, const Graph& candidate) {
    const int first = visit(reference);
    const int second = visit(candidate);
    STRATA_CHECK(join(reference, candidate, first, second));
    freeze_repeated();
    for (const int64_t least : {int64_t{2}, int64_t{4}}) {
      if (!solve(least)) continue;
      STRATA_TRY(GraphPtr small_reference, rebuild(first, nullptr, {}));
      STRATA_TRY(GraphPtr small_candidate, rebuild(second, nullptr, {}));
      return std::pair(std::move(small_reference), std::move(small_candidate));
    }
    return unsupported("the shapes of '{}' cannot be cut consistently", reference.name());
  }

 private:
  // --- constraints ---
  Result<void> join(const Graph& reference, const Graph& candidate, int first, int second) {
    for (TensorId id : reference.inputs()) {
      const auto other = candidate.find_tensor(reference.tensor(id).name);
      const bool same = other && candidate.type(*other) == reference.type(id);
      if (same) unite_tensors(first, id, second, *other);
      // Each program has iotas of its own, which may be named as the other's.
      if (!same && !reference.type(id).iota) return invalid("the inputs do not correspond");
    }
    if (reference.types(reference.outputs()) != candidate.types(candidate.outputs())) {
      return invalid("the outputs do not correspond");
    }
    for (size_t i = 0; i < reference.outputs().size(); ++i) {
      unite_tensors(first, reference.outputs()[i], second, candidate.outputs()[i]);
    }
    return {};
  }

  void unite_tensors(int use_a, TensorId a, int use_b, TensorId b) {
    const Use& first = uses_[static_cast<size_t>(use_a)];
    const Use& second = uses_[static_cast<size_t>(use_b)];
    for (size_t d = 0; d < first.graph->type(a).shape.size(); ++d) {
      axes_.unite(first.nodes[static_cast<size_t>(a)] + static_cast<int>(d),
                  second.nodes[static_cast<size_t>(b)] + static_cast<int>(d));
    }
  }

  int factor(int64_t size, bool frozen, bool repeated = false) {
    factors_.push_back({size, frozen, repeated});
    return static_cast<int>(factors_.size()) - 1;
  }

  int visit(const Graph& graph) {
    const int index = static_cast<int>(uses_.size());
    uses_.emplace_back();
    Use use{&graph,
            {},
            {},
            std::vector<int>(graph.operations().size(), -1),
            std::vector<int>(graph.operations().size(), -1)};
    for (const TensorInfo& tensor : graph.tensors()) {
      use.nodes.push_back(axes_.size());
      // What an iota is compared with may be any of its elements.
      const auto& iota = tensor.type.iota;
      for (size_t d = 0; d < tensor.type.shape.size(); ++d) {
        axes_.add();
        sizes_.push_back(tensor.type.shape[d]);
        frozen_.push_back(!masks_ && iota && iota->step != 0 && iota->dim == static_cast<int64_t>(d));
      }
    }
    const SizeDependence frozen = sound_ ? size_dependence(graph) : SizeDependence{};
    for (size_t i = 0; i < graph.launch().grid.size(); ++i) {
      use.launch.push_back(factor(graph.launch().grid[i], frozen.always >> i & 1, frozen.where_reduced >> i & 1));
    }
    use.launch.push_back(factor(graph.launch().loop, frozen.always & kLoopBit, frozen.where_reduced & kLoopBit));
    uses_[static_cast<size_t>(index)] = use;
    for (size_t i = 0; i < graph.operations().size(); ++i) {
      const Operation& op = graph.operations()[i];
      if (op.body) {
        const int inner = visit(*op.body);
        uses_[static_cast<size_t>(index)].body_uses[i] = inner;
        for (size_t n = 0; n < op.operands.size(); ++n) {
          unite_tensors(index, op.operands[n], inner, op.body->inputs()[n]);
        }
        for (size_t n = 0; n < op.results.size(); ++n) {
          unite_tensors(index, op.results[n], inner, op.body->outputs()[n]);
        }
      } else {
        constrain(uses_[static_cast<size_t>(index)], i);
      }
    }
    return index;
  }

  void constrain(Use& use, size_t index) {
    const Graph& graph = *use.graph;
    const Operation& op = graph.operations()[index];
    const int operand = use.nodes[static_cast<size_t>(op.operands[0])];
    const int result = use.nodes[static_cast<size_t>(op.results[0])];
    const Shape& shape = graph.type(op.results[0]).shape;
    const bool block = graph.level() == Level::Block;
    if (block && (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver)) {
      const bool in = op.kind == OpKind::InIter;
      std::vector<std::vector<int>> cuts(shape.size());
      const std::vector<int64_t>& map = op.attributes.list(in ? "imap" : "omap");
      for (size_t g = 0; g < map.size(); ++g) {
        if (map[g] != kReplicate) cuts[static_cast<size_t>(map[g])].push_back(use.launch[g]);
      }
      const int64_t fmap = in ? op.attributes.integer_or("fmap", kReplicate) : kReplicate;
      if (fmap != kReplicate) {
        cuts[static_cast<size_t>(fmap)].push_back(use.launch.back());
        if (sums_iterations(graph)) reduced_.push_back(operand + static_cast<int>(fmap));
      }
      for (size_t d = 0; d < shape.size(); ++d) {
        const int at = static_cast<int>(d);
        add_cut(in ? operand + at : result + at, std::move(cuts[d]), in ? result + at : operand + at);
      }
      return;
    }
    if (op.kind == OpKind::Accum) {
      const auto dim = op.attributes.integer_or("dim", -1);
      for (size_t d = 0; d < shape.size(); ++d) {
        std::vector<int> cuts;
        if (static_cast<int64_t>(d) == dim) cuts.push_back(use.launch.back());
        add_cut(result + static_cast<int>(d), std::move(cuts), operand + static_cast<int>(d));
      }
      return;
    }
    unite_labels(graph, op, use.nodes, axes_);
    if (op.attributes.has("every")) {
      use.groups[index] = factor(op.attributes.integer("every"), false);
      const int dim = static_cast<int>(op.attributes.integer("dim"));
      add_cut(operand + dim, {use.groups[index]}, result + dim);
      reduced_.push_back(operand + dim);
      return;
    }
    freeze_untied(use, op);
  }

  static bool sums_iterations(const Graph& graph) {
    return std::any_of(graph.operations().begin(), graph.operations().end(), [](const Operation& op) {
      return is_accumulator(op.kind) && !(op.kind == OpKind::Accum && op.attributes.word("kind") == "concat");
    });
  }

  void add_cut(int whole, std::vector<int> factors, int part) {
    std::erase_if(factors, [&](int f) { return factors_[static_cast<size_t>(f)].size == 1; });
    if (factors.empty()) {
      axes_.unite(whole, part);
    } else {
      cuts_.push_back({whole, std::move(factors), part});
    }
  }

  /// Dimensions that an operator regroups keep their size, as do those along which a sum of unequal dimensions
  /// repeats a value: their size is part of the result.
  void freeze_untied(const Use& use, const Operation& op) {
    const Graph& graph = *use.graph;
    const IndexLabels labels = op_def(op.kind).labels(graph.types(op.operands), op.attributes);
    const auto freeze = [&](TensorId id, const std::vector<int>& of_dims) {
      for (size_t d = 0; d < of_dims.size(); ++d) {
        if (of_dims[d] == IndexLabels::kFree && graph.type(id).shape[d] > 1) {
          frozen_[static_cast<size_t>(use.nodes[static_cast<size_t>(id)]) + d] = true;
        }
      }
    };
    for (size_t i = 0; i < op.operands.size(); ++i) freeze(op.operands[i], labels.operands[i]);
    freeze(op.results[0], labels.result);
    for (size_t i = 0; i < op.operands.size(); ++i)
      mark_reduced(use, op.operands[i], labels.operands[i], labels.result);
    if (!sound_ || !adds_operands(graph, op)) return;
    const Shape& shape = graph.type(op.results[0]).shape;
    for (TensorId id : op.operands) {
      const Shape& from = graph.type(id).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const size_t missing = shape.size() - from.size();
        const bool broadcast =
            d < missing || (from[d - missing] == 1 && shape[d] > 1) || op.kind == OpKind::AddConstant;
        if (broadcast) repeated_.push_back(use.nodes[static_cast<size_t>(op.results[0])] + static_cast<int>(d));
      }
    }
  }

  void mark_reduced(const Use& use, TensorId id, const std::vector<int>& of_dims, const std::vector<int>& kept) {
    for (size_t d = 0; d < of_dims.size(); ++d) {
      if (std::find(kept.begin(), kept.end(), of_dims[d]) != kept.end()) continue;
      reduced_.push_back(use.nodes[static_cast<size_t>(id)] + static_cast<int>(d));
    }
  }

  /// Where a value repeats along an axis, the axis's size is part of the result only if something reduces along it, or
  /// along what it is cut into.
  void freeze_repeated() {
    UnionFind families = axes_;
    const int first_factor = families.size();
    for (size_t f = 0; f < factors_.size(); ++f) families.add();
    for (const Cut& cut : cuts_) {
      families.unite(cut.whole, cut.part);
      for (int f : cut.factors) families.unite(cut.whole, first_factor + f);
    }
    std::vector<bool> reduced(static_cast<size_t>(families.size()), false);
    for (int node : reduced_) reduced[static_cast<size_t>(families.find(node))] = true;
    for (int node : repeated_) {
      if (reduced[static_cast<size_t>(families.find(node))]) frozen_[static_cast<size_t>(node)] = true;
    }
    for (size_t f = 0; f < factors_.size(); ++f) {
      const bool counts = reduced[static_cast<size_t>(families.find(first_factor + static_cast<int>(f)))];
      if (factors_[f].repeated && counts) factors_[f].frozen = true;
    }
  }

  // --- solution ---
  int64_t& value(int node) { return values_[static_cast<size_t>(axes_.find(node))]; }

  /// The least sizes from `least` upwards that satisfy all cuts; false where there are none below the original ones.
  bool solve(int64_t least) {
    const size_t n = sizes_.size();
    std::vector<int64_t> original(n, 0);
    std::vector<bool> fixed(n, false);
    for (size_t i = 0; i < n; ++i) {
      const auto root = static_cast<size_t>(axes_.find(static_cast<int>(i)));
      if (original[root] != 0 && original[root] != sizes_[i]) return false;
      original[root] = sizes_[i];
      if (frozen_[i]) fixed[root] = true;
    }
    values_.assign(n, 0);
    for (size_t i = 0; i < n; ++i) values_[i] = fixed[i] ? original[i] : std::min(original[i], least);
    for (Factor& f : factors_) f.value = f.frozen ? f.size : std::min<int64_t>(f.size, 2);
    // What makes up a dimension that keeps its size keeps its own.
    for (const Cut& cut : cuts_) {
      if (!fixed[static_cast<size_t>(axes_.find(cut.whole))]) continue;
      for (int f : cut.factors) factors_[static_cast<size_t>(f)].value = factors_[static_cast<size_t>(f)].size;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const Cut& cut : cuts_) {
        changed |= raise(cut.whole, count(cut) * value(cut.part));
        const auto whole = static_cast<size_t>(axes_.find(cut.whole));
        const auto part = static_cast<size_t>(axes_.find(cut.part));
        // A part that cannot grow, such as a tile of one row, leaves it to a grid, a loop or a group.
        const int64_t times = std::lcm(values_[part], values_[whole] / count(cut)) / values_[part];
        if (values_[part] * times > original[part] && grow_factor(cut, times)) {
          changed = true;
          continue;
        }
        changed |= raise(cut.part, values_[part] * times);
        if (values_[whole] > original[whole] || values_[part] > original[part]) return false;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      if (fixed[i] && values_[i] != original[i]) return false;
    }
    return true;
  }

  int64_t count(const Cut& cut) const {
    int64_t product = 1;
    for (int f : cut.factors) product *= factors_[static_cast<size_t>(f)].value;
    return product;
  }

  /// Makes a factor of the cut `times` as large, where one has room for that.
  bool grow_factor(const Cut& cut, int64_t times) {
    for (int f : cut.factors) {
      Factor& factor = factors_[static_cast<size_t>(f)];
      if (factor.frozen || factor.value * times > factor.size) continue;
      factor.value *= times;
      return true;
    }
    return false;
  }

  bool raise(int node, int64_t multiple_of) {
    int64_t& size = value(node);
    const int64_t raised = std::lcm(size, multiple_of);
    if (raised == size) return false;
    size = raised;
    return true;
  }

  // --- rebuilding ---
  Shape shape_of(const Use& use, TensorId id) {
    Shape shape(use.graph->type(id).shape.size());
    for (size_t d = 0; d < shape.size(); ++d)
      shape[d] = value(use.nodes[static_cast<size_t>(id)] + static_cast<int>(d));
    return shape;
  }

  static std::vector<std::string> names_of(const Graph& graph, const Operation& op) {
    std::vector<std::string> names;
    for (TensorId id : op.results) names.push_back(graph.tensor(id).name);
    return names;
  }

  Result<GraphPtr> rebuild(int index, const GraphBuilder* outer, const std::vector<TensorId>& outer_operands) {
    const Use& use = uses_[static_cast<size_t>(index)];
    const Graph& graph = *use.graph;
    LaunchShape launch = graph.launch();
    for (size_t g = 0; g < launch.grid.size(); ++g) {
      launch.grid[g] = factors_[static_cast<size_t>(use.launch[g])].value;
    }
    launch.loop = factors_[static_cast<size_t>(use.launch.back())].value;
    GraphBuilder builder(graph.level(), graph.name(), launch);
    std::vector<TensorId> ids(graph.tensors().size(), -1);
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const TensorId id = graph.inputs()[i];
      TensorType type = outer ? outer->type(outer_operands[i])
                              : TensorType{graph.type(id).dtype, shape_of(use, id), graph.type(id).iota};
      STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(graph.tensor(id).name, std::move(type)));
    }
    for (size_t i = 0; i < graph.operations().size(); ++i) {
      const Operation& op = graph.operations()[i];
      std::vector<TensorId> operands;
      for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
      if (op.body) {
        STRATA_TRY(GraphPtr body, rebuild(use.body_uses[i], &builder, operands));
        STRATA_TRY(const auto results, builder.add(std::move(body), std::move(operands), names_of(graph, op)));
        for (size_t n = 0; n < results.size(); ++n) ids[static_cast<size_t>(op.results[n])] = results[n];
      } else {
        Attributes attributes = op.attributes;
        if (op.kind == OpKind::Reshape) attributes.set("shape", shape_of(use, op.results[0]));
        if (use.groups[i] >= 0) attributes.set("every", factors_[static_cast<size_t>(use.groups[i])].value);
        STRATA_TRY(ids[static_cast<size_t>(op.results[0])],
                   builder.add(op.kind, std::move(operands), std::move(attributes), names_of(graph, op)[0]));
      }
      for (TensorId id : op.results) {
        if (builder.type(ids[static_cast<size_t>(id)]).shape != shape_of(use, id)) {
          return unsupported("'{}' does not shrink with its operands", graph.tensor(id).name);
        }
      }
    }
    if (graph.level() == Level::Kernel) {
      for (TensorId id : graph.outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
    }
    return builder.finish();
  }

  bool sound_;
  bool masks_;  ///< they may shrink
  UnionFind axes_;
  std::vector<int64_t> sizes_;   ///< by axis node
  std::vector<bool> frozen_;     ///< by axis node
  std::vector<int> repeated_;    ///< axis nodes along which an operand that is added repeats
  std::vector<int> reduced_;     ///< axis nodes that an operator reduces
  std::vector<int64_t> values_;  ///< by axis node, at its representative
  std::vector<Factor> factors_;
  std::vector<Cut> cuts_;
  std::vector<Use> uses_;
};

}  // namespace

Result<std::pair<GraphPtr, GraphPtr>> shrink(const Graph& reference, const Graph& candidate, Shrinking shrinking) {
  return Shrinker(shrinking).run(reference, candidate);
}

Result<std::pair<GraphPtr, GraphPtr>> shrink_to(double operations, const Graph& reference, const Graph& candidate) {
  auto small = shrink(reference, candidate);
  const bool counts = has_iotas(reference) || has_iotas(candidate);
  if (!counts || (small && execution_work(*small->first) <= operations)) return small;
  auto smaller = shrink(reference, candidate, Shrinking::Masks);
  return smaller ? smaller : small;
}

}  // namespace strata
