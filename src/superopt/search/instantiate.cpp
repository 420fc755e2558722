#include "superopt/search/instantiate.h"

#include <algorithm>
#include <numeric>

#include "ir/validate.h"
#include "support/divisors.h"

namespace strata {
namespace {

std::string step_name(OpKind kind, size_t number) { return fmt::format("{}_{}", op_def(kind).traits.name, number); }

/// The dimensions that a grid dimension (or, at index grid rank, the loop) cuts, over all inputs.
std::vector<int64_t> cut_sizes(const Graph& body, const std::vector<TensorType>& inputs, size_t grid_dimension) {
  std::vector<int64_t> sizes;
  for (const Operation& op : body.operations()) {
    if (op.kind != OpKind::InIter) continue;
    const auto input = std::find(body.inputs().begin(), body.inputs().end(), op.operands[0]) - body.inputs().begin();
    const bool loop = grid_dimension == body.launch().grid.size();
    const int64_t d = loop ? op.attributes.integer_or("fmap", kReplicate) : op.attributes.list("imap")[grid_dimension];
    if (d != kReplicate) sizes.push_back(inputs[static_cast<size_t>(input)].shape[static_cast<size_t>(d)]);
  }
  return sizes;
}

/// Tiles keep at least this many elements of a dimension, unless the dimension has fewer.
constexpr int64_t kNarrowestTile = 8;
/// At most this many blocks for each multiprocessor.
constexpr int64_t kBlocksPerMultiprocessor = 8;

bool tiles_wide(const Graph& body, const std::vector<TensorType>& types) {
  for (const Operation& op : body.operations()) {
    if (op.kind != OpKind::InIter) continue;
    const Shape& whole = types[static_cast<size_t>(op.operands[0])].shape;
    const Shape& tile = types[static_cast<size_t>(op.results[0])].shape;
    // Only the two innermost dimensions feed matrix units and vector loads.
    for (size_t d = whole.size() >= 2 ? whole.size() - 2 : 0; d < whole.size(); ++d) {
      const bool innermost = d + 1 == whole.size();
      const int64_t least = std::min(whole[d], innermost ? kNarrowestTile : int64_t{1});
      if (tile[d] < least) return false;
    }
  }
  return true;
}

/// Types of all tensors under other inputs and another launch shape; nullopt where the operators do not fit them. Most
/// launch shapes are refused, so this comes before a graph is built.
std::optional<std::vector<TensorType>> types_at(const Graph& body, const std::vector<TensorType>& inputs,
                                                const LaunchShape& launch) {
  const OpScope scope{body.level(), launch.grid, launch.loop};
  std::vector<TensorType> types(body.tensors().size());
  for (size_t i = 0; i < inputs.size(); ++i) types[static_cast<size_t>(body.inputs()[i])] = inputs[i];
  std::vector<TensorType> operands;
  for (const Operation& op : body.operations()) {
    operands.clear();
    for (TensorId id : op.operands) operands.push_back(types[static_cast<size_t>(id)]);
    auto type = op_def(op.kind).infer(scope, operands, op.attributes);
    if (!type) return std::nullopt;
    types[static_cast<size_t>(op.results[0])] = std::move(*type);
  }
  return types;
}

/// The operators of kNorm.
Result<TensorId> add_norm(GraphBuilder& builder, TensorId of, const Attributes& norm, size_t& number) {
  const auto add = [&](OpKind kind, std::vector<TensorId> operands, const Attributes& attributes = {}) {
    return builder.add(kind, std::move(operands), attributes, step_name(kind, ++number));
  };
  Attributes dim, factor;
  dim.set("dim", norm.integer("dim"));
  factor.set("factor", norm.rational("factor"));
  STRATA_TRY(TensorId root, add(OpKind::Sqr, {of}));
  STRATA_TRY(root, add(OpKind::Sum, {root}, dim));
  if (!(norm.rational("factor") == Rational{1, 1})) {
    STRATA_TRY(root, add(OpKind::Scale, {root}, factor));
  }
  STRATA_TRY(root, add(OpKind::Sqrt, {root}));
  return add(OpKind::Div, {of, root});
}

}  // namespace

Result<BlockTemplate> build_template(const BlockSpace& space, const ClassGraph& graph, const Derived& derived,
                                     const std::vector<SavedTile>& saved, const std::vector<int>& kernel_inputs,
                                     const std::vector<std::string>& names, DType dtype) {
  const std::vector<int64_t> grid(static_cast<size_t>(space.grid_rank), space.cuts_grid ? kModelCut : 1);
  GraphBuilder builder(Level::Block, {}, LaunchShape{grid, space.loops ? kModelCut : 1});
  BlockTemplate made;
  std::vector<TensorId> ids(graph.classes().size(), -1);
  std::vector<TensorId> formals;
  for (int c : derived.inputs) {
    const auto n = static_cast<size_t>(graph.at(c).kernel_tensor);
    // The kernel-level shape: the tile's, times the cuts.
    Shape whole = graph.at(c).shape;
    for (size_t g = 0; g < grid.size(); ++g) {
      if (space.imaps[n][g] != kReplicate) whole[static_cast<size_t>(space.imaps[n][g])] *= grid[g];
    }
    if (space.fmaps[n] != kReplicate) whole[static_cast<size_t>(space.fmaps[n])] *= kModelCut;
    STRATA_TRY(const TensorId formal, builder.input(names[n], {dtype, whole}));
    formals.push_back(formal);
    made.inputs.push_back(kernel_inputs[n]);
  }
  for (size_t i = 0; i < derived.inputs.size(); ++i) {
    const int c = derived.inputs[i];
    const auto n = static_cast<size_t>(graph.at(c).kernel_tensor);
    Attributes attributes;
    attributes.set("imap", space.imaps[n]);
    if (space.fmaps[n] != kReplicate) attributes.set("fmap", space.fmaps[n]);
    STRATA_TRY(ids[static_cast<size_t>(c)], builder.add(OpKind::InIter, {formals[i]}, attributes, names[n] + "_tile"));
  }
  size_t number = 0;
  for (const Derived::Step& step : derived.steps) {
    std::vector<TensorId> operands;
    for (int operand : step.derivation->operands) operands.push_back(ids[static_cast<size_t>(operand)]);
    if (step.derivation->kind == kNorm) {
      STRATA_TRY(ids[static_cast<size_t>(step.result)],
                 add_norm(builder, operands[0], step.derivation->attributes, number));
      continue;
    }
    STRATA_TRY(ids[static_cast<size_t>(step.result)],
               builder.add(step.derivation->kind, operands, step.derivation->attributes,
                           step_name(step.derivation->kind, ++number)));
  }
  for (const SavedTile& tile : saved) {
    Attributes attributes;
    attributes.set("omap", tile.omap);
    if (tile.dtype) attributes.set("dtype", std::string(name_of(*tile.dtype)));
    const bool taken = std::find(names.begin(), names.end(), tile.name) != names.end();
    STRATA_CHECK(builder.add(OpKind::OutSaver, {ids[static_cast<size_t>(tile.block_class)]}, attributes,
                             taken ? tile.name + "_out" : tile.name));
  }
  STRATA_TRY(made.body, builder.finish());
  return made;
}

Result<GraphPtr> resize(const Graph& body, const std::vector<TensorType>& inputs, const LaunchShape& launch) {
  GraphBuilder builder(body.level(), body.name(), launch);
  std::vector<TensorId> ids(body.tensors().size(), -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorId id = body.inputs()[i];
    STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(body.tensor(id).name, inputs[i]));
  }
  for (const Operation& op : body.operations()) {
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    STRATA_TRY(ids[static_cast<size_t>(op.results[0])],
               builder.add(op.kind, operands, op.attributes, body.tensor(op.results[0]).name));
  }
  return builder.finish();
}

std::vector<GraphPtr> instantiate(const Graph& body, const std::vector<TensorType>& inputs, const Target& target,
                                  const SizeRules& rules, SharedCounters& counters,
                                  std::optional<int64_t> wanted_loop) {
  const size_t rank = body.launch().grid.size();
  // Candidate sizes of every grid dimension and, last, of the loop.
  std::vector<std::vector<int64_t>> sizes;
  int64_t most_blocks = 1;
  for (size_t g = 0; g <= rank; ++g) {
    const bool loop = g == rank;
    if (loop && wanted_loop) {
      sizes.push_back({*wanted_loop});
      continue;
    }
    if ((loop ? body.launch().loop : body.launch().grid[g]) == 1) {
      sizes.push_back({1});
      continue;
    }
    int64_t common = 0;
    for (int64_t size : cut_sizes(body, inputs, g)) common = std::gcd(common, size);
    std::vector<int64_t> choices = divisors(common);
    if (choices.empty()) return {};  // no input that is read has the dimension
    choices.erase(choices.begin());  // cutting into 1 is another, simpler space
    if (!loop && !choices.empty()) most_blocks = element_count({most_blocks, choices.back()});
    sizes.push_back(std::move(choices));
  }
  const int64_t fewest = std::min<int64_t>(most_blocks, (target.multiprocessors * 6 + 9) / 10);
  std::vector<GraphPtr> found;
  std::vector<size_t> at(sizes.size(), 0);
  for (const auto& choices : sizes) {
    if (choices.empty()) return found;
  }
  for (;;) {
    LaunchShape launch;
    for (size_t g = 0; g < rank; ++g) launch.grid.push_back(sizes[g][at[g]]);
    const int64_t blocks = element_count(launch.grid);
    launch.loop = sizes[rank][at[rank]];
    const bool fills = blocks >= fewest && blocks <= kBlocksPerMultiprocessor * target.multiprocessors;
    if (fills || !rules.fill_device) {
      const auto types = types_at(body, inputs, launch);
      const auto type = [&](TensorId id) -> const TensorType& { return (*types)[static_cast<size_t>(id)]; };
      if (!types) {
        counters.pruned_shape.fetch_add(1, std::memory_order_relaxed);
      } else if (const bool in_shared_memory = shared_memory_bytes(body, type) <= target.shared_memory;
                 !in_shared_memory && !block_bytes(body, type).fits_registers(target)) {
        counters.pruned_memory.fetch_add(1, std::memory_order_relaxed);
      } else if (!rules.wide_tiles || tiles_wide(body, *types)) {
        auto real = resize(body, inputs, launch);
        if (real && (in_shared_memory || stays_in_registers(**real))) {
          found.push_back(std::move(*real));
        } else if (real) {
          counters.pruned_memory.fetch_add(1, std::memory_order_relaxed);
        }
      }
    }
    size_t g = 0;
    while (g < at.size() && ++at[g] == sizes[g].size()) at[g++] = 0;
    if (g == at.size()) return found;
  }
}

}  // namespace strata
