#include "superopt/codegen/tiles/plan.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

#include "superopt/codegen/emit.h"

namespace strata {
namespace {

constexpr int64_t kBlock = 8;         // rows and columns of a block of a tile
constexpr int64_t kProductRows = 16;  // of a product on tensor cores: 16 × 8 results, 16 products each
constexpr int64_t kProductDepth = 16;
/// A store of scattered 16-bit elements, against one product on tensor cores.
constexpr int64_t kScatteredStore = 2;
/// Elements that are read from shared memory to registers in the time of one product on tensor cores.
constexpr int64_t kReadCost = 64;
/// A product of four warps against theirs one by one.
constexpr int64_t kWideGain = 2;
constexpr size_t kMostGroups = 12;

class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int i) {
    while (parent_[static_cast<size_t>(i)] != i) i = parent_[static_cast<size_t>(i)];
    return i;
  }
  void join(int a, int b) { parent_[static_cast<size_t>(find(a))] = find(b); }

 private:
  std::vector<int> parent_;
};

bool is_product(const Operation& op) { return multiplies_matrices(op.kind); }

bool is_elementwise(const Operation& op) { return op.body || op_def(op.kind).traits.elementwise; }

/// A product of one pair of operands; concat_matmul is two that are added.
struct Product {
  TensorId left;
  TensorId right;
  TensorId result;
  bool in_loop;
};

class Planner {
 public:
  Planner(const Graph& body, const OperandPlaces& strides, const BlockSchedule& schedule)
      : body_(body),
        strides_(strides),
        schedule_(schedule),
        stages_(loop_stages(body)),
        groups_(body.tensors().size()) {
    plan_.tensors.resize(body.tensors().size());
  }

  Result<TilePlan> run() {
    STRATA_CHECK(places());
    STRATA_CHECK(name_axes());
    STRATA_CHECK(group_layouts());
    STRATA_CHECK(choose());
    choose_shares();
    return plan_;
  }

 private:
  TensorPlan& of(TensorId id) { return plan_.tensors[static_cast<size_t>(id)]; }
  const TensorPlan& of(TensorId id) const { return plan_.tensors[static_cast<size_t>(id)]; }

  Result<void> places() {
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      for (TensorId id : op.results) {
        if (op.kind == OpKind::OutSaver) continue;
        of(id).dims = tile_dims(body_.type(id).shape);
        if (body_.type(id).dtype == DType::F64) return unsupported("{} is f64", body_.tensor(id).name);
      }
      if (op.kind == OpKind::InIter) {
        STRATA_CHECK(place_tile(op));
        continue;
      }
      if (op.kind == OpKind::OutSaver || is_elementwise(op)) continue;
      if (op.kind == OpKind::Accum && op.attributes.word("kind") == "concat") {
        return unsupported("an accumulator concatenates");
      }
      if (is_product(op)) {
        const size_t pairs = op.operands.size() / 2;
        for (size_t p = 0; p < pairs; ++p) {
          products_.push_back({op.operands[p], op.operands[p + pairs], op.results[0], stages_[i] == LoopStage::Body});
        }
        continue;
      }
      const bool reduces = is_reduction(op.kind);
      if (reduces && body_.type(op.results[0]).shape[static_cast<size_t>(op.attributes.integer("dim"))] != 1) {
        return unsupported("{} reduces in groups", body_.tensor(op.results[0]).name);
      }
      if (!reduces && !op_def(op.kind).traits.accumulates) return unsupported("{} moves elements", op.name());
    }
    // Rows without products have an emitter of their own (rows.h).
    const bool down_rows = std::any_of(body_.operations().begin(), body_.operations().end(), [&](const Operation& op) {
      return is_reduction(op.kind) && op.attributes.integer("dim") + 1 < std::ssize(body_.type(op.operands[0]).shape);
    });
    if (products_.empty() && !down_rows) return unsupported("no matrix product, and no sum down the rows");
    return {};
  }

  Result<void> place_tile(const Operation& op) {
    TensorPlan& tile = of(op.results[0]);
    tile.loaded = true;
    tile.once = op.attributes.integer_or("fmap", -1) < 0 || body_.launch().loop == 1;
    const auto formal = std::find(body_.inputs().begin(), body_.inputs().end(), op.operands[0]);
    const std::vector<int64_t>& strides = strides_[static_cast<size_t>(formal - body_.inputs().begin())];
    const Shape& shape = body_.type(op.results[0]).shape;
    const size_t rank = shape.size();
    if (rank == 0 || strides.back() == 1 || shape.back() == 1) return {};
    if (rank >= 2 && strides[rank - 2] == 1) {
      tile.pairs_down = true;
      return {};
    }
    return unsupported("{} has no contiguous dimension among its last two", body_.tensor(op.operands[0]).name);
  }

  /// Dimensions that operators walk together are one axis.
  Result<void> name_axes() {
    std::vector<int> first(body_.tensors().size());
    int count = 0;
    for (size_t t = 0; t < body_.tensors().size(); ++t) {
      first[t] = count;
      count += static_cast<int>(body_.tensors()[t].type.shape.size());
    }
    DisjointSets sets(static_cast<size_t>(count));
    const auto node = [&](TensorId id, size_t d) { return first[static_cast<size_t>(id)] + static_cast<int>(d); };
    std::vector<std::pair<int, LoopStage>> reduced;
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver) continue;
      for (TensorId result : op.results) {
        const size_t rank = body_.type(result).shape.size();
        if (op.body) {
          for (TensorId id : op.operands) {
            const Shape& shape = body_.type(id).shape;
            for (size_t d = 0; d < shape.size(); ++d) {
              if (shape[d] > 1) sets.join(node(id, d), node(result, rank - shape.size() + d));
            }
          }
          continue;
        }
        const IndexLabels labels = op_def(op.kind).labels(body_.types(op.operands), op.attributes);
        for (size_t n = 0; n < op.operands.size(); ++n) {
          const Shape& shape = body_.type(op.operands[n]).shape;
          for (size_t d = 0; d < shape.size(); ++d) {
            const int label = labels.operands[n][d];
            if (shape[d] == 1 || label == IndexLabels::kFree) continue;
            const auto at = std::find(labels.result.begin(), labels.result.end(), label);
            if (at != labels.result.end()) {
              sets.join(node(op.operands[n], d), node(result, static_cast<size_t>(at - labels.result.begin())));
            } else {
              reduced.emplace_back(node(op.operands[n], d), stages_[i]);
            }
            for (size_t m = 0; m < n; ++m) {  // both sides of a contraction
              const auto other = std::find(labels.operands[m].begin(), labels.operands[m].end(), label);
              if (other == labels.operands[m].end()) continue;
              const auto e = static_cast<size_t>(other - labels.operands[m].begin());
              if (body_.type(op.operands[m]).shape[e] > 1) sets.join(node(op.operands[n], d), node(op.operands[m], e));
            }
          }
        }
      }
    }
    for (size_t t = 0; t < body_.tensors().size(); ++t) {
      const Shape& shape = body_.tensors()[t].type.shape;
      TensorPlan& tensor = plan_.tensors[t];
      int batch_axes = 0;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) continue;
        const Axis axis = sets.find(node(static_cast<TensorId>(t), d));
        if (std::find(tensor.axes.begin(), tensor.axes.end(), axis) != tensor.axes.end()) {
          return unsupported("{} has one axis twice", body_.tensors()[t].name);
        }
        const size_t from_last = shape.size() - 1 - d;
        if (from_last == 0) {
          tensor.axes[kColumnPosition] = axis;
        } else if (from_last == 1) {
          tensor.axes[kRowPosition] = axis;
        } else {
          // Two batch dimensions of more than one element: no axis of their own, warps do not divide them.
          tensor.axes[kBatchPosition] = ++batch_axes == 1 ? axis : kNoAxis;
        }
      }
    }
    for (const auto& [n, stage] : reduced)
      (stage == LoopStage::Body ? reduced_ : reduced_after_).push_back(sets.find(n));
    return {};
  }

  /// Tensors between which no value changes its lane must have one layout.
  Result<void> group_layouts() {
    fixed_.assign(body_.tensors().size(), -1);
    const auto scalar = [&](TensorId id) { return of(id).dims.rows == 1 && of(id).dims.columns == 1; };
    for (const Operation& op : body_.operations()) {
      if (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver || is_product(op)) continue;
      for (TensorId result : op.results) {
        for (TensorId id : op.operands) {
          if (!of(id).loaded && !scalar(id) && !scalar(result)) groups_.join(id, result);
        }
      }
    }
    plan_.operand = DType::F16;
    bool first = true;
    for (const Product& product : products_) {
      for (const auto& [id, transposed] : {std::pair{product.left, 0}, std::pair{product.right, 1}}) {
        const DType type = body_.type(id).dtype;
        if (type != DType::F16 && type != DType::BF16) {
          return unsupported("{} is not of 16-bit elements", body_.tensor(id).name);
        }
        if (!first && type != plan_.operand) return unsupported("products of f16 and of bf16");
        first = false;
        plan_.operand = type;
        if (of(id).loaded && is_counted(body_, body_.operations()[static_cast<size_t>(body_.tensor(id).producer)])) {
          return unsupported("a product of the iota {}", body_.tensor(id).name);
        }
        if (of(id).loaded) continue;
        int& fixed = fixed_[static_cast<size_t>(groups_.find(id))];
        if (fixed == 1 - transposed) return unsupported("{} is needed in two layouts", body_.tensor(id).name);
        fixed = transposed;
      }
      if (of(product.left).dims.columns % kProductDepth != 0) {
        return unsupported("a product over {} elements does not fill fragments of {}", of(product.left).dims.columns,
                           kProductDepth);
      }
      // Neighbours along the rows of a side are loaded 8 at a time.
      const TensorPlan& left = of(product.left);
      const TensorPlan& right = of(product.right);
      if ((left.loaded && left.pairs_down && left.dims.rows % kBlock != 0) ||
          (right.loaded && !right.pairs_down && right.dims.columns % kBlock != 0)) {
        return unsupported("a side of a product has no multiple of {} rows", kBlock);
      }
    }
    return {};
  }

  bool assign(size_t choice, const std::vector<int>& free_groups) {
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const int group = groups_.find(static_cast<int>(t));
      const auto at = std::find(free_groups.begin(), free_groups.end(), group);
      plan_.tensors[t].transposed = at != free_groups.end() ? (choice >> (at - free_groups.begin()) & 1) != 0
                                                            : fixed_[static_cast<size_t>(group)] == 1;
    }
    return std::all_of(products_.begin(), products_.end(), [&](const Product& product) {
      const TensorPlan& result = of(product.result);
      // One column of eight is kept where nothing is done to the sum while it is added up.
      return (result.transposed ? result.dims.rows : result.dims.columns) > 1 ||
             ((result.transposed ? result.dims.columns : result.dims.rows) > 1 && !is_rescaled(product.result));
    });
  }

  bool is_rescaled(TensorId id) const {
    return std::any_of(body_.operations().begin(), body_.operations().end(),
                       [&](const Operation& op) { return op.kind == OpKind::AccumRescale && op.operands[0] == id; });
  }

  /// Whether four warps with 16 rows each can compute a product together: the columns' side lies whole in shared
  /// memory, in rows of whole 128-byte lines.
  bool can_be_wide(const Product& product) const {
    constexpr int64_t kWarpsTogether = 4;
    constexpr int64_t kLine = 64;  // elements
    constexpr int64_t kMostColumns = 256;
    if (!schedule_.wide || schedule_.row_warps % kWarpsTogether != 0 || plan_.row_axis == kNoAxis) return false;
    const TensorPlan& result = of(product.result);
    const TileDims dims = warp_dims(plan_, result, schedule_, false);
    const auto position = result.transposed ? kColumnPosition : kRowPosition;
    if (result.axes[position] != plan_.row_axis || result.dims.batches != 1) return false;
    if ((result.transposed ? dims.columns : dims.rows) != kProductRows) return false;
    const TensorPlan& side = of(result.transposed ? product.left : product.right);
    const int64_t columns = result.transposed ? dims.rows : dims.columns;
    const int64_t line = side.pairs_down ? side.dims.rows : side.dims.columns;
    // Down the lines of the stored tile lie the columns, or what is summed over.
    const bool across = result.transposed == side.pairs_down;
    return side.loaded && line % kLine == 0 && columns % (across ? kLine : kBlock) == 0 && columns <= kMostColumns;
  }

  /// concat_matmul is two products of one result: wide where both can be.
  bool is_wide(const Product& product) const {
    return std::all_of(products_.begin(), products_.end(),
                       [&](const Product& other) { return other.result != product.result || can_be_wide(other); });
  }

  /// Tensor core instructions of one warp in all iterations, and what scattered stores cost.
  int64_t cost() const {
    int64_t total = 0;
    for (const Product& product : products_) {
      const TileDims dims = warp_dims(plan_, of(product.result), schedule_, false);
      const int64_t rows = of(product.result).transposed ? dims.columns : dims.rows;
      const int64_t columns = of(product.result).transposed ? dims.rows : dims.columns;
      total += dims.batches * ceil_div(rows, kProductRows) * ceil_div(columns, kBlock) *
               (of(product.left).dims.columns / kProductDepth) * (product.in_loop ? body_.launch().loop : 1) /
               (is_wide(product) ? kWideGain : 1);
    }
    // A tile that is read into registers in two layouts is read twice.
    std::set<std::pair<TensorId, bool>> read;
    for (const Operation& op : body_.operations()) {
      if (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver || is_product(op)) continue;
      for (TensorId id : op.operands) {
        if (!of(id).loaded || !read.emplace(id, of(op.results[0]).transposed).second) continue;
        total += ceil_div(warp_dims(plan_, of(id), schedule_, false).elements(), kReadCost) *
                 (of(id).once ? 1 : body_.launch().loop);
      }
    }
    for (const Operation& op : body_.operations()) {
      if (op.kind != OpKind::OutSaver) continue;
      const TensorPlan& saved = of(op.operands[0]);
      if (saved.transposed && saved.dims.columns > 1) {
        total += kScatteredStore * ceil_div(warp_dims(plan_, saved, schedule_, false).elements(), 32);
      }
    }
    return total;
  }

  /// Whether the row warps can divide the axis: it is walked by every operator, in whole blocks.
  bool divides(Axis axis, int64_t parts) const {
    const auto is = [&](Axis other) { return other == axis; };
    if (std::any_of(reduced_.begin(), reduced_.end(), is)) return false;
    if (std::any_of(reduced_after_.begin(), reduced_after_.end(), is)) return false;
    return std::all_of(plan_.tensors.begin(), plan_.tensors.end(), [&](const TensorPlan& tensor) {
      if (tensor.axes[kBatchPosition] == axis) return tensor.dims.batches % parts == 0;
      if (tensor.axes[kRowPosition] == axis) return tensor.dims.rows % (kBlock * parts) == 0;
      if (tensor.axes[kColumnPosition] == axis) return tensor.dims.columns % (kBlock * parts) == 0;
      return true;
    });
  }

  std::vector<Axis> all_axes() const {
    std::vector<Axis> axes;
    for (const TensorPlan& tensor : plan_.tensors) {
      for (Axis axis : tensor.axes) {
        if (axis != kNoAxis && std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
      }
    }
    return axes;
  }

  /// Every layout of every free group with every axis that the row warps can divide.
  Result<void> choose() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    std::vector<int> free_groups;
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const int group = groups_.find(static_cast<int>(t));
      const int producer = body_.tensors()[t].producer;
      if (of(static_cast<TensorId>(t)).loaded || producer < 0) continue;
      if (body_.operations()[static_cast<size_t>(producer)].kind == OpKind::OutSaver) continue;
      if (fixed_[static_cast<size_t>(group)] < 0 &&
          std::find(free_groups.begin(), free_groups.end(), group) == free_groups.end()) {
        free_groups.push_back(group);
      }
    }
    if (free_groups.size() > kMostGroups) return unsupported("{} tensors with layouts to choose", free_groups.size());
    std::vector<Axis> axes{kNoAxis};
    if (schedule_.row_warps > 1) {
      axes = all_axes();
      std::erase_if(axes, [&](Axis axis) { return !divides(axis, schedule_.row_warps); });
      if (axes.empty()) return unsupported("no axis that {} warps can divide", schedule_.row_warps);
    }
    std::optional<TilePlan> best;
    int64_t choices = 0;
    for (Axis axis : axes) {
      plan_.row_axis = axis;
      for (size_t choice = 0; choice < size_t{1} << free_groups.size(); ++choice) {
        if (!assign(choice, free_groups)) continue;
        ++choices;
        plan_.layout_cost = cost();
        if (!best || (schedule_.best_layout && plan_.layout_cost < best->layout_cost)) best = plan_;
      }
    }
    if (!best) return unsupported("a product of one row and one column");
    plan_ = *best;
    plan_.layouts = {choices, std::chrono::duration<double>(Clock::now() - start).count()};
    for (const Product& product : products_) {
      if (is_wide(product)) plan_.wide.push_back(product.result);
    }
    if (schedule_.wide && plan_.wide.empty()) return unsupported("no product of four warps");
    return {};
  }

  /// Blocks into which the groups can divide an axis after the loop: 0 where an operator reduces it or no result has
  /// it, else the greatest number of parts of whole blocks that all tensors there allow.
  int64_t most_parts(Axis axis) const {
    if (std::find(reduced_after_.begin(), reduced_after_.end(), axis) != reduced_after_.end()) return 0;
    int64_t parts = 0;
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      const bool after = stages_[i] == LoopStage::After || (!op.body && op_def(op.kind).traits.accumulates);
      if (!after || op.kind == OpKind::OutSaver) continue;
      for (TensorId id : op.results) {
        const TileDims dims = warp_dims(plan_, of(id), schedule_, false);
        const auto& at = of(id).axes;
        if (at[kBatchPosition] == axis) parts = std::gcd(parts, dims.batches);
        if (at[kRowPosition] == axis) parts = std::gcd(parts, dims.rows % kBlock == 0 ? dims.rows / kBlock : 1);
        if (at[kColumnPosition] == axis) {
          parts = std::gcd(parts, dims.columns % kBlock == 0 ? dims.columns / kBlock : 1);
        }
      }
    }
    return parts;
  }

  /// Columns first, so that a group's stores are close to each other's, then what is left of the groups.
  void choose_shares() {
    int64_t left = schedule_.groups();
    const auto share = [&](Axis axis) {
      if (axis == kNoAxis || left == 1) return;
      const int64_t parts = std::gcd(most_parts(axis), left);
      if (parts <= 1) return;
      plan_.shares.push_back({axis, parts, plan_.sharers});
      plan_.sharers *= parts;
      left /= parts;
    };
    for (const TilePosition position : {kRowPosition, kColumnPosition, kBatchPosition}) {
      for (const Operation& op : body_.operations()) {
        if (op.kind != OpKind::OutSaver) continue;
        const Axis axis = of(op.operands[0]).axes[position];
        const bool taken = std::any_of(plan_.shares.begin(), plan_.shares.end(),
                                       [&](const TilePlan::Share& other) { return other.axis == axis; });
        if (!taken) share(axis);
      }
    }
  }

  const Graph& body_;
  const OperandPlaces& strides_;
  const BlockSchedule& schedule_;
  std::vector<LoopStage> stages_;
  DisjointSets groups_;
  std::vector<int> fixed_;  ///< by group: 1 transposed, 0 not, −1 free
  std::vector<Product> products_;
  std::vector<Axis> reduced_;        ///< by operators of the loop
  std::vector<Axis> reduced_after_;  ///< by those after it
  TilePlan plan_;
};

}  // namespace

TileDims tile_dims(const Shape& shape) {
  TileDims dims;
  const size_t rank = shape.size();
  if (rank > 0) dims.columns = shape[rank - 1];
  if (rank > 1) dims.rows = shape[rank - 2];
  for (size_t d = 0; d + 2 < rank; ++d) dims.batches *= shape[d];
  return dims;
}

TileDims warp_dims(const TilePlan& plan, const TensorPlan& tensor, const BlockSchedule& schedule, bool after) {
  TileDims dims = tensor.dims;
  const auto divide = [&](Axis axis, int64_t parts) {
    if (axis == kNoAxis) return;
    if (tensor.axes[kBatchPosition] == axis) dims.batches /= parts;
    if (tensor.axes[kRowPosition] == axis) dims.rows /= parts;
    if (tensor.axes[kColumnPosition] == axis) dims.columns /= parts;
  };
  divide(plan.row_axis, schedule.row_warps);
  if (after) {
    for (const TilePlan::Share& share : plan.shares) divide(share.axis, share.parts);
  }
  return dims;
}

Result<TilePlan> plan_tiles(const Graph& body, const OperandPlaces& strides, const BlockSchedule& schedule) {
  return Planner(body, strides, schedule).run();
}

}  // namespace strata
