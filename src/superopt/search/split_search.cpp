// Reductions that are split over the grid: blocks make partial results, a second kernel combines them (split-K,
// FlashDecoding).
//
// A partial result is a tensor with one more factor than the value that it is part of: blocks that cut the reduced axis
// lay their tiles side by side along one of its dimensions. The second kernel is an ordinary block graph whose loop
// walks along that dimension and whose body has accumulators only. So it is found by the same means: classes of values
// over all partial results of a space, then graphs read off backwards.
#include <algorithm>
#include <map>

#include "superopt/search/unit_search.h"

namespace strata {
namespace {

constexpr int kNone = -1;
/// Combining graphs for one value of one space, and graphs that make the partial results of one of them.
constexpr int64_t kCombiningGraphs = 24;
constexpr int64_t kPartialGraphs = 100;
/// More partial results than this cost more to store than to recompute.
constexpr size_t kMaxPartials = 4;
constexpr size_t kMaxGridRank = 3;

int position_of(const std::vector<int>& axes, int axis) {
  const auto it = std::find(axes.begin(), axes.end(), axis);
  return it == axes.end() ? kNone : static_cast<int>(it - axes.begin());
}

/// A value of the space that blocks can store side by side.
struct Partial {
  int block_class;
  int stacked;  ///< the dimension along which the parts of the split axis lie
  std::vector<int64_t> omap;
};

class SplitSearch {
 public:
  SplitSearch(const Unit& unit, SearchContext& context, ClassGraph& graph, const std::vector<std::string>& names,
              int target, std::vector<KernelChoice>& choices)
      : unit_(unit),
        context_(context),
        graph_(graph),
        names_(names),
        target_(target),
        whole_(context.kernel->at(target)),
        choices_(choices) {}

  void run() {
    for (size_t g = 0; g < unit_.space->grid_axes.size(); ++g) {
      if (position_of(whole_.axes, unit_.space->grid_axes[g]) == kNone) split_ = g;
    }
    split_axis_ = unit_.space->grid_axes[split_];
    const LoopStage last = unit_.space->loops ? LoopStage::After : LoopStage::Body;
    for (int c = 0; c < static_cast<int>(graph_.classes().size()); ++c) {
      if (graph_.at(c).stage == last && !graph_.at(c).derivations.empty()) offer(c);
    }
    if (partials_.empty()) return;
    for (const BlockSpace& space : combining_spaces()) {
      if (context_.stop.stop_requested()) return;
      combine(space);
    }
  }

 private:
  /// Keeps the class as a partial result if blocks can store it and a sum (or maximum) over the parts is of use.
  void offer(int c) {
    const ValueClass& tile = graph_.at(c);
    Partial partial{c, kNone, {}};
    const auto cut = [&](size_t d) {
      const auto& grid = unit_.space->grid_axes;
      return tile.axes[d] >= 0 && std::find(grid.begin(), grid.end(), tile.axes[d]) != grid.end();
    };
    // Along a dimension of size 1, or else one that the grid leaves whole, so that the second kernel may cut others.
    for (size_t d = 0; d < tile.axes.size() && partial.stacked == kNone; ++d) {
      if (tile.axes[d] == kUnitAxis) partial.stacked = static_cast<int>(d);
    }
    for (size_t d = 0; d < tile.axes.size() && partial.stacked == kNone; ++d) {
      if (!cut(d)) partial.stacked = static_cast<int>(d);
    }
    if (partial.stacked == kNone) return;
    for (size_t g = 0; g < unit_.space->grid_axes.size(); ++g) {
      const int d = g == split_ ? partial.stacked : position_of(tile.axes, unit_.space->grid_axes[g]);
      if (d == kNone) return;
      partial.omap.push_back(d);
    }
    if (context_.axis_filter && !is_row_max(context_.forms, tile.expression)) {
      const int64_t parts = context_.model->axes()[static_cast<size_t>(split_axis_)].grid_extent;
      if (!context_.axis_filter->fits(context_.forms.sum(parts, tile.expression), tile.axes, tile.extents)) return;
    }
    if (auto value = stored(partial)) {
      partials_.push_back(std::move(partial));
      values_.push_back(std::move(*value));
    }
  }

  /// The partial results of all blocks as one kernel-level value.
  std::optional<ValueClass> stored(const Partial& partial) const {
    const ValueClass& tile = graph_.at(partial.block_class);
    const std::vector<FieldTensor> tiles = graph_.everywhere(partial.block_class);
    const OpScope scope{Level::Block, std::vector<int64_t>(unit_.space->grid_axes.size(), kModelCut), 1};
    const OpScope extents = extent_scope(*unit_.space, *context_.model, scope);
    const OpDef& saver = op_def(OpKind::OutSaver);
    Attributes attributes;
    attributes.set("omap", partial.omap);
    const std::vector<TensorType> type{{DType::F32, tile.shape}};
    const std::vector<TensorType> counted{{DType::F32, tile.extents}};
    auto whole = saver.infer(scope, type, attributes);
    auto whole_extents = saver.infer(extents, counted, attributes);
    if (!whole || !whole_extents) return std::nullopt;
    ValueClass value;
    value.shape = whole->shape;
    value.extents = whole_extents->shape;
    value.axes = tile.axes;
    value.expression = tile.expression;
    value.kernel_tensor = static_cast<int>(partials_.size());
    value.values = {saved_whole(tiles, value.shape, scope, attributes, context_.model->arithmetic())};
    return value;
  }

  /// The second kernel's grid cuts axes of the result along which no partial result is stacked.
  std::vector<BlockSpace> combining_spaces() const {
    std::vector<int> axes;
    for (int axis : whole_.axes) {
      const bool stacked = std::any_of(partials_.begin(), partials_.end(), [&](const Partial& p) {
        return graph_.at(p.block_class).axes[static_cast<size_t>(p.stacked)] == axis;
      });
      if (axis >= 0 && !stacked) axes.push_back(axis);
    }
    std::vector<std::vector<int>> grids{{}};
    for (int axis : axes) {
      for (size_t i = grids.size(); i-- > 0;) {
        if (grids[i].size() == kMaxGridRank) continue;
        grids.push_back(grids[i]);
        grids.back().push_back(axis);
      }
    }
    if (grids.size() > 1) grids.erase(grids.begin());
    std::vector<BlockSpace> spaces;
    for (const std::vector<int>& grid : grids) {
      BlockSpace space;
      space.cuts_grid = !grid.empty();
      space.grid_axes = grid.empty() ? std::vector<int>{kUnitAxis} : grid;
      space.grid_rank = static_cast<int>(space.grid_axes.size());
      space.loops = true;
      space.loop_axis = split_axis_;
      space.combines = true;
      for (const Partial& partial : partials_) {
        std::vector<int64_t> imap;
        for (int axis : space.grid_axes) {
          const int d = axis < 0 ? kNone : position_of(graph_.at(partial.block_class).axes, axis);
          imap.push_back(d == kNone ? kReplicate : d);
        }
        space.imaps.push_back(std::move(imap));
        space.fmaps.push_back(partial.stacked);
      }
      spaces.push_back(std::move(space));
    }
    return spaces;
  }

  void combine(const BlockSpace& space) {
    ClassGraph stored(context_.model->arithmetic(), context_.forms, *context_.oracle, context_.counters,
                      context_.class_options(0));
    std::vector<int> inputs;
    for (const ValueClass& value : values_) inputs.push_back(stored.add_input(value));
    auto combining = explore_block(space, inputs, stored, {}, *context_.model, context_.forms, *context_.oracle,
                                   context_.counters, context_.class_options(context_.options.max_block_ops));
    if (!combining) return;
    for (int c = 0; c < static_cast<int>(combining->classes().size()); ++c) {
      const ValueClass& tile = combining->at(c);
      if (tile.stage != LoopStage::After || tile.derivations.empty()) continue;
      for (const auto& omap : output_maps(space, *combining, c, whole_, context_.options.rules,
                                          context_.model->arithmetic(), context_.counters)) {
        derive(*combining, {c}, context_.options.max_block_ops, kCombiningGraphs, context_.stop.get_token(),
               [&](const Derived& derived) {
                 pair_up(space, *combining, derived, {c, omap, {}});
               });
      }
    }
  }

  /// Parts of a sum, and maxima, may lie outside a half's range where the result does not.
  DType partial_dtype() const { return context_.dtype() == DType::F64 ? DType::F64 : DType::F32; }

  /// Every way to make the partial results that a combining graph reads, with both at all launch shapes that fit.
  void pair_up(const BlockSpace& space, const ClassGraph& combining, const Derived& second, SavedTile saved) {
    if (second.inputs.size() > kMaxPartials) return;
    std::vector<int> wanted;
    std::vector<SavedTile> tiles;
    std::vector<std::string> names(partials_.size());
    for (int c : second.inputs) {
      const auto n = static_cast<size_t>(combining.at(c).kernel_tensor);
      const std::string name = fmt::format("{}_part{}", context_.value(target_).name, tiles.size());
      wanted.push_back(partials_[n].block_class);
      tiles.push_back({partials_[n].block_class, partials_[n].omap, name});
      if (partial_dtype() != context_.dtype()) tiles.back().dtype = partial_dtype();
      names[n] = name;
    }
    for (size_t n = 0; n < names.size(); ++n) {
      if (names[n].empty()) names[n] = fmt::format("unused{}", n);
    }
    std::vector<int> numbers(partials_.size(), 0);
    saved.name = context_.value(target_).name;
    if (partial_dtype() != context_.dtype()) saved.dtype = context_.dtype();
    auto made = build_template(space, combining, second, {saved}, numbers, names, partial_dtype());
    if (!made) return;
    std::map<int64_t, std::optional<std::pair<double, GraphPtr>>> cheapest;  // by number of parts
    const bool complete = derive(graph_, wanted, context_.options.max_block_ops, kPartialGraphs,
                                 context_.stop.get_token(), [&](const Derived& first) {
                                   context_.counters.verified.fetch_add(1, std::memory_order_relaxed);
                                   add_pairs(first, tiles, *made->body, cheapest);
                                 });
    if (!complete) context_.derivations_cut.fetch_add(1);
  }

  void add_pairs(const Derived& first, const std::vector<SavedTile>& tiles, const Graph& second,
                 std::map<int64_t, std::optional<std::pair<double, GraphPtr>>>& cheapest) {
    auto made = build_template(*unit_.space, graph_, first, tiles, unit_.inputs, names_, context_.dtype());
    if (!made) return;
    std::vector<TensorType> types;
    for (int c : made->inputs) {
      if (!context_.value(c).type) return;
      types.push_back(*context_.value(c).type);
    }
    const Target& target = *context_.options.target;
    const SizeRules rules{context_.options.rules.sizes, context_.options.rules.sizes};
    for (GraphPtr& body : instantiate(*made->body, types, target, rules, context_.counters)) {
      const int64_t parts = body->launch().grid[split_];
      const auto [it, fresh] = cheapest.emplace(parts, std::nullopt);
      if (fresh) it->second = cheapest_combination(second, body->types(body->outputs()), parts);
      if (!it->second) continue;
      if (auto choice = kernel_choice(target_, made->inputs, {std::move(body), it->second->second}, target)) {
        choices_.push_back(std::move(*choice));
      }
    }
  }

  /// The second kernel with the launch shape that costs least; its loop has one iteration a part.
  std::optional<std::pair<double, GraphPtr>> cheapest_combination(const Graph& second,
                                                                  const std::vector<TensorType>& types, int64_t parts) {
    std::optional<std::pair<double, GraphPtr>> best;
    // Small results need not fill the device, and the loop may cut the innermost dimension into single elements.
    const SizeRules rules{false, false};
    for (GraphPtr& body : instantiate(second, types, *context_.options.target, rules, context_.counters, parts)) {
      if (body->type(body->outputs()[0]).shape != context_.value(target_).type->shape) continue;
      const auto choice = kernel_choice(target_, {}, {body}, *context_.options.target);
      if (choice && (!best || choice->seconds < best->first)) best = {choice->seconds, std::move(body)};
    }
    return best;
  }

  const Unit& unit_;
  SearchContext& context_;
  ClassGraph& graph_;
  const std::vector<std::string>& names_;
  int target_;
  const ValueClass& whole_;
  std::vector<KernelChoice>& choices_;
  size_t split_ = 0;  ///< the grid dimension
  int split_axis_ = kNone;
  std::vector<Partial> partials_;
  std::vector<ValueClass> values_;  ///< of the partials, at kernel level
};

}  // namespace

void search_split(const Unit& unit, SearchContext& context, ClassGraph& graph, const std::vector<std::string>& names,
                  int target, std::vector<KernelChoice>& choices) {
  SplitSearch(unit, context, graph, names, target, choices).run();
}

}  // namespace strata
