#include "superopt/search/unit_search.h"

#include <algorithm>

namespace strata {
namespace {

bool has(const std::vector<int>& axes, int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

/// One block graph, for every launch shape that fits.
void add_kernels(const Unit& unit, SearchContext& context, const ClassGraph& graph, const Derived& derived,
                 const SavedTile& saved, const std::vector<std::string>& names, int target,
                 std::vector<KernelChoice>& choices) {
  auto made = build_template(*unit.space, graph, derived, {saved}, unit.inputs, names, context.dtype());
  if (!made) return;
  std::vector<TensorType> types;
  for (int c : made->inputs) {
    if (!context.value(c).type) return;
    types.push_back(*context.value(c).type);
  }
  const SizeRules rules{context.options.rules.sizes, context.options.rules.sizes};
  for (GraphPtr& body : instantiate(*made->body, types, *context.options.target, rules, context.counters)) {
    if (body->type(body->outputs()[0]).shape != context.value(target).type->shape) continue;
    if (auto choice = kernel_choice(target, made->inputs, {std::move(body)}, *context.options.target)) {
      choices.push_back(std::move(*choice));
    }
  }
}

void search_whole(const Unit& unit, SearchContext& context, ClassGraph& graph, const std::vector<std::string>& names,
                  int target, std::vector<KernelChoice>& choices) {
  const SearchOptions& options = context.options;
  const ValueClass& whole = context.kernel->at(target);
  const LoopStage last = unit.space->loops ? LoopStage::After : LoopStage::Body;
  for (int c = 0; c < static_cast<int>(graph.classes().size()); ++c) {
    const ValueClass& tile = graph.at(c);
    if (tile.stage != last || tile.derivations.empty()) continue;
    const auto omaps =
        output_maps(*unit.space, graph, c, whole, options.rules, context.model->arithmetic(), context.counters);
    for (const auto& omap : omaps) {
      const int64_t budget = options.keep_all ? kAllGraphs : unit.whole ? kDerivedGraphs : kDerivedGraphsOfPart;
      const bool complete =
          derive(graph, {c}, options.max_block_ops, budget, context.stop.get_token(), [&](const Derived& derived) {
            context.counters.verified.fetch_add(1, std::memory_order_relaxed);
            add_kernels(unit, context, graph, derived, {c, omap, context.value(target).name}, names, target, choices);
          });
      if (!complete) context.derivations_cut.fetch_add(1);
    }
  }
}

}  // namespace

bool space_fits(const BlockSpace& space, const std::vector<int>& target_axes, bool split) {
  if (!space.cuts_grid) return !split;
  int missing = 0;
  for (int axis : space.grid_axes) missing += has(target_axes, axis) ? 0 : 1;
  return missing == (split ? 1 : 0);
}

UnitResult search_unit(const Unit& unit, SearchContext& context) {
  UnitResult found;
  std::vector<std::string> names;
  for (int c : unit.inputs) names.push_back(context.value(c).name);
  std::vector<int> targets;
  for (int t : unit.targets) {
    if (!context.options.rules.maps || space_fits(*unit.space, context.kernel->at(t).axes, unit.split)) {
      targets.push_back(t);
    } else {
      context.counters.pruned_axes.fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (targets.empty()) return found;
  auto graph = explore_block(*unit.space, unit.inputs, *context.kernel, context.steps, *context.model, context.forms,
                             *context.oracle, context.counters, context.class_options(context.options.max_block_ops));
  if (!graph) return found;
  if (graph->overflowed()) context.spaces_overflowed.fetch_add(1);
  for (int t : targets) {
    if (context.stop.stop_requested()) break;
    std::vector<KernelChoice> choices;
    (unit.split ? search_split : search_whole)(unit, context, *graph, names, t, choices);
    if (!unit.whole && choices.size() > kChoicesOfPart) {
      std::stable_sort(choices.begin(), choices.end(),
                       [](const KernelChoice& a, const KernelChoice& b) { return a.seconds < b.seconds; });
      choices.resize(kChoicesOfPart);
    }
    for (KernelChoice& choice : choices) found.choices.push_back(std::move(choice));
  }
  return found;
}

}  // namespace strata
