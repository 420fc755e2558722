#include "superopt/search/block_space.h"

#include <algorithm>
#include <map>
#include <set>

namespace strata {
namespace {

/// The dimension of an input that an axis cuts, or kReplicate.
int64_t dimension_of(const std::vector<int>& axes, int axis) {
  const auto it = std::find(axes.begin(), axes.end(), axis);
  return it == axes.end() ? kReplicate : it - axes.begin();
}

std::vector<BlockSpace> spaces_by_axes(const std::vector<std::vector<int>>& input_axes, int max_grid_rank) {
  std::set<int> known;
  for (const auto& axes : input_axes) {
    for (int axis : axes) {
      if (axis >= 0) known.insert(axis);
    }
  }
  const std::vector<int> axes(known.begin(), known.end());
  std::vector<std::vector<int>> grids{{}};
  for (int axis : axes) {
    for (size_t i = grids.size(); i-- > 0;) {
      if (static_cast<int>(grids[i].size()) == max_grid_rank) continue;
      std::vector<int> larger = grids[i];
      larger.push_back(axis);
      grids.push_back(std::move(larger));
    }
  }
  std::vector<BlockSpace> spaces;
  for (const std::vector<int>& grid : grids) {
    std::vector<int> loops{kUnitAxis};
    loops.insert(loops.end(), axes.begin(), axes.end());
    for (int loop : loops) {
      BlockSpace space;
      space.cuts_grid = !grid.empty();
      space.grid_axes = grid.empty() ? std::vector<int>{kUnitAxis} : grid;
      space.grid_rank = static_cast<int>(space.grid_axes.size());
      space.loops = loop != kUnitAxis;
      space.loop_axis = loop;
      for (const auto& of_input : input_axes) {
        std::vector<int64_t> imap;
        for (int axis : space.grid_axes) imap.push_back(axis < 0 ? kReplicate : dimension_of(of_input, axis));
        space.imaps.push_back(std::move(imap));
        space.fmaps.push_back(space.loops ? dimension_of(of_input, loop) : kReplicate);
      }
      spaces.push_back(std::move(space));
    }
  }
  return spaces;
}

std::vector<BlockSpace> all_spaces(const std::vector<std::vector<int>>& input_axes, int max_grid_rank) {
  // A cut is one choice of dimension (or none) for every input.
  std::vector<std::vector<int64_t>> cuts{{}};
  for (const auto& axes : input_axes) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& cut : cuts) {
      for (int64_t d = kReplicate; d < static_cast<int64_t>(axes.size()); ++d) {
        if (d != kReplicate && axes[static_cast<size_t>(d)] == kUnitAxis) continue;
        longer.push_back(cut);
        longer.back().push_back(d);
      }
    }
    cuts = std::move(longer);
  }
  const std::vector<int64_t> nothing(input_axes.size(), kReplicate);
  std::vector<std::vector<size_t>> grids{{}};
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (cuts[i] == nothing) continue;
    for (size_t g = grids.size(); g-- > 0;) {
      if (static_cast<int>(grids[g].size()) == max_grid_rank) continue;
      auto larger = grids[g];
      larger.push_back(i);
      grids.push_back(std::move(larger));
    }
  }
  std::vector<BlockSpace> spaces;
  for (const auto& grid : grids) {
    for (int loop = -1; loop < static_cast<int>(cuts.size()); ++loop) {
      if (loop >= 0 && cuts[static_cast<size_t>(loop)] == nothing) continue;
      BlockSpace space;
      space.cuts_grid = !grid.empty();
      space.grid_rank = std::max<int>(1, static_cast<int>(grid.size()));
      space.grid_axes.assign(static_cast<size_t>(space.grid_rank), kMixedAxis);
      space.loops = loop >= 0;
      space.loop_axis = space.loops ? kMixedAxis : kUnitAxis;
      for (size_t n = 0; n < input_axes.size(); ++n) {
        std::vector<int64_t> imap;
        for (size_t i : grid) imap.push_back(cuts[i][n]);
        if (imap.empty()) imap.push_back(kReplicate);
        space.imaps.push_back(std::move(imap));
        space.fmaps.push_back(space.loops ? cuts[static_cast<size_t>(loop)][n] : kReplicate);
      }
      spaces.push_back(std::move(space));
    }
  }
  return spaces;
}

}  // namespace

OpScope extent_scope(const BlockSpace& space, const Model& model, const OpScope& sizes) {
  if (!model.extents_by_axis()) return sizes;
  OpScope scope = sizes;
  for (size_t i = 0; i < scope.grid.size(); ++i) {
    const int axis = space.grid_axes[i];
    if (axis == kMixedAxis) return sizes;
    if (axis >= 0) scope.grid[i] = model.axes()[static_cast<size_t>(axis)].grid_extent;
  }
  if (space.loop_axis == kMixedAxis) return sizes;
  if (space.loop_axis >= 0) {
    const Axis& axis = model.axes()[static_cast<size_t>(space.loop_axis)];
    scope.loop = space.combines ? axis.grid_extent : axis.loop_extent;
  }
  return scope;
}

namespace {

Attributes iterator_attributes(const BlockSpace& space, size_t input) {
  Attributes attributes;
  attributes.set("imap", space.imaps[input]);
  if (space.fmaps[input] != kReplicate) attributes.set("fmap", space.fmaps[input]);
  return attributes;
}

}  // namespace

std::string BlockSpace::to_string() const {
  std::string text = cuts_grid ? "grid" : "one block";
  for (size_t i = 0; i < imaps.size(); ++i) text += " " + strata::to_string(AttributeValue(imaps[i]));
  if (loops) text += " loop " + strata::to_string(AttributeValue(fmaps));
  return text;
}

std::vector<BlockSpace> block_spaces(const std::vector<std::vector<int>>& input_axes, int max_grid_rank, bool by_axes) {
  return by_axes ? spaces_by_axes(input_axes, max_grid_rank) : all_spaces(input_axes, max_grid_rank);
}

std::unique_ptr<ClassGraph> explore_block(const BlockSpace& space, const std::vector<int>& input_classes,
                                          const ClassGraph& kernel, const std::vector<ProgramStep>& program,
                                          const Model& model, NormalForms& forms, SubexpressionOracle& oracle,
                                          SharedCounters& counters, ClassGraphOptions options) {
  options.level = Level::Block;
  options.combines = space.combines;
  options.one_block = std::find(space.grid_axes.begin(), space.grid_axes.end(), kMixedAxis) == space.grid_axes.end();
  options.loop_axis = space.loops ? space.loop_axis : kMixedAxis;
  options.scope = {Level::Block,
                   std::vector<int64_t>(static_cast<size_t>(space.grid_rank), space.cuts_grid ? kModelCut : 1),
                   space.loops ? kModelCut : 1};
  const OpScope scope = options.scope;
  options.extents = extent_scope(space, model, scope);
  const OpScope extents = options.extents;
  const OpDef& in_iter = op_def(OpKind::InIter);
  auto graph = std::make_unique<ClassGraph>(model.arithmetic(), forms, oracle, counters, std::move(options));
  FieldArithmetic field = model.arithmetic();
  std::map<int, int> block_class;  // of a kernel class
  for (size_t n = 0; n < input_classes.size(); ++n) {
    const ValueClass& input = kernel.at(input_classes[n]);
    const Attributes attributes = iterator_attributes(space, n);
    const std::vector<TensorType> type{{DType::F32, input.shape}};
    auto tile = in_iter.infer(scope, type, attributes);
    const std::vector<TensorType> whole{{DType::F32, input.extents}};
    auto tile_extents = in_iter.infer(extents, whole, attributes);
    if (!tile || !tile_extents) {
      counters.pruned_shape.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    ValueClass value;
    value.shape = tile->shape;
    value.extents = tile_extents->shape;
    value.axes = input.axes;
    for (size_t d = 0; d < value.axes.size(); ++d) {
      if (value.shape[d] == 1) value.axes[d] = kUnitAxis;
    }
    value.expression = input.expression;
    value.kernel_tensor = static_cast<int>(n);
    const std::vector<const FieldTensor*> operand{&input.values[0]};
    for_each_block(scope.grid, [&](GridPoint point) {
      for (point.iteration = 0; point.iteration < scope.loop; ++point.iteration) {
        value.values.emplace_back(value.shape);
        in_iter.run(EvalArgs<FieldArithmetic>{field, scope, point, attributes, operand, value.values.back()});
      }
    });
    block_class[input_classes[n]] = graph->add_input(std::move(value));
  }
  for (const ProgramStep& step : program) {
    std::vector<int> operands;
    for (int operand : step.operands) {
      const auto it = block_class.find(operand);
      if (it != block_class.end()) operands.push_back(it->second);
    }
    if (operands.size() != step.operands.size() || block_class.count(step.result) != 0) continue;
    if (step.kind == OpKind::Sqr) graph->apply_norms(operands[0]);  // before anything counts the operators inside
    if (const int made = graph->apply(step.kind, step.attributes, operands); made >= 0) block_class[step.result] = made;
  }
  graph->saturate();
  return graph;
}

FieldTensor saved_whole(const std::vector<FieldTensor>& tiles, const Shape& whole, const OpScope& scope,
                        const Attributes& attributes, FieldArithmetic arithmetic) {
  FieldTensor saved(whole);
  size_t block = 0;
  for_each_block(scope.grid, [&](const GridPoint& point) {
    const std::vector<const FieldTensor*> operand{&tiles[block++]};
    op_def(OpKind::OutSaver).run(EvalArgs<FieldArithmetic>{arithmetic, scope, point, attributes, operand, saved});
  });
  return saved;
}

std::vector<std::vector<int64_t>> output_maps(const BlockSpace& space, ClassGraph& graph, int block_class,
                                              const ValueClass& whole, const PruningRules& rules,
                                              FieldArithmetic arithmetic, SharedCounters& counters) {
  std::vector<std::vector<int64_t>> found;
  const ValueClass& tile = graph.at(block_class);
  if (tile.shape.size() != whole.shape.size()) return found;
  if (rules.expression && tile.expression != whole.expression) return found;
  const size_t rank = tile.shape.size();
  const int64_t cut = space.cuts_grid ? kModelCut : 1;
  const OpScope scope{Level::Block, std::vector<int64_t>(static_cast<size_t>(space.grid_rank), cut), 1};
  // Every grid dimension to every result dimension, then those that give the right shape and entries.
  std::vector<std::vector<int64_t>> maps{{}};
  for (int i = 0; i < space.grid_rank; ++i) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& map : maps) {
      if (!space.cuts_grid) {
        longer.push_back(map);
        longer.back().push_back(kReplicate);
        continue;
      }
      for (size_t d = 0; d < rank; ++d) {
        if (rules.maps && whole.axes[d] != space.grid_axes[static_cast<size_t>(i)]) continue;
        longer.push_back(map);
        longer.back().push_back(static_cast<int64_t>(d));
      }
    }
    maps = std::move(longer);
  }
  const OpDef& saver = op_def(OpKind::OutSaver);
  const std::vector<FieldTensor> values = maps.empty() ? std::vector<FieldTensor>{} : graph.everywhere(block_class);
  for (const auto& map : maps) {
    Attributes attributes;
    attributes.set("omap", map);
    const std::vector<TensorType> type{{DType::F32, tile.shape}};
    auto inferred = saver.infer(scope, type, attributes);
    if (!inferred || inferred->shape != whole.shape) {
      counters.pruned_shape.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    if (saved_whole(values, whole.shape, scope, attributes, arithmetic).data == whole.values[0].data) {
      found.push_back(map);
    } else {
      counters.rejected.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return found;
}

}  // namespace strata
