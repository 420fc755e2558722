#include "superopt/codegen/tiles.h"

#include <algorithm>

#include "superopt/codegen/register_block.h"
#include "superopt/codegen/tile_loads.h"
#include "superopt/codegen/tile_memory.h"
#include "superopt/codegen/tile_plan.h"

namespace strata {
namespace {

/// Registers of a lane for a side of a product that stays while the loop runs.
constexpr int64_t kMostKept = 64;

class TileBlock : public RegisterBlock {
 public:
  using RegisterBlock::RegisterBlock;

  Result<BlockCode> run() {
    if (loop_ == 1 && schedule_.groups() > 1) return unsupported("no loop whose iterations could be dealt to groups");
    STRATA_TRY(plan_, plan_tiles(body_, strides_, schedule_));
    STRATA_CHECK(check_sizes());
    STRATA_TRY(loads_, TileLoads::plan({body_, plan_, strides_, schedule_, names_}, scope_));
    name_tensors();
    BlockCode code;
    const std::string prepare = loads_->prepare();
    code.prepares = !prepare.empty();
    if (code.prepares) text_ += head(name_ + "_prepare", loads_->parameters()) + prepare + "}\n\n";
    text_ += head(name_, loads_->parameters()) + loads_->variables() + loads_->before_loop();
    indent_ = "  ";
    for (const Operation& op : body_.operations()) {
      if (op.kind == OpKind::InIter && plan(op.results[0]).once) {
        pointers_[op.results[0]] = fmt::format("shared + {}", loads_->reserved_bytes() + loads_->offset(op.results[0]));
      }
    }
    STRATA_CHECK(loop());
    STRATA_CHECK(after());
    text_ += "}\n\n";
    code.text = std::move(text_);
    code.wide = wide_;
    code.shared_bytes = loads_->reserved_bytes() + std::max(loads_->bytes(), partial_bytes_);
    code.registers = register_estimate();
    code.work = work();
    loads_->describe(code);
    code.description = fmt::format(
        "tiles: {} blocks a cluster, {} groups of {} warps, {} stages of {} bytes{}; layouts: best of {}, {} products "
        "a warp",
        schedule_.cluster_blocks(), schedule_.loop_warps, schedule_.row_warps, schedule_.stages, loads_->stage_bytes(),
        schedule_.bulk ? " by TMA" : "", plan_.layout_choices, plan_.layout_cost);
    if (code.shared_bytes > target_.shared_memory) {
      return unsupported("{} bytes of shared memory; {} has {}", code.shared_bytes, target_.name,
                         target_.shared_memory);
    }
    return code;
  }

 private:
  using RegisterBlock::tile_type;
  using RegisterBlock::value;

  const TensorPlan& plan(TensorId id) const { return plan_.tensors[static_cast<size_t>(id)]; }
  bool transposed(TensorId id) const override { return plan(id).transposed; }
  bool loaded(TensorId id) const override { return plan(id).loaded; }
  bool stays(TensorId id) const override { return plan(id).loaded && plan(id).once; }
  TileDims local(TensorId id, bool after) const { return warp_dims(plan_, plan(id), schedule_, after); }
  /// The register tile of a tensor in one warp, in a layout.
  std::string tile_type(TensorId id, bool transposed, bool after) const override {
    const TileDims dims = local(id, after);
    return fmt::format("strata_device::Tile<{}, {}, {}>", dims.batches, transposed ? dims.columns : dims.rows,
                       transposed ? dims.rows : dims.columns);
  }

  int64_t registers(TensorId id, bool after) const {
    const TileDims dims = local(id, after);
    const int64_t columns = plan(id).transposed ? dims.rows : dims.columns;
    return dims.batches * ceil_div(dims.rows + dims.columns - columns, 8) * ceil_div(columns, 8) *
           (columns == 1 ? 1 : 2);
  }

  std::string shared_type(TensorId id) const { return shared_tile_type(plan(id), body_.type(id).dtype); }

  Result<void> check_sizes() const {
    for (const Operation& op : body_.operations()) {
      if (op.kind == OpKind::InIter) {
        const size_t n = input_number(op.operands[0]);
        STRATA_CHECK(batch_stride(body_.type(op.results[0]).shape, strides_[n]));
      } else if (op.kind == OpKind::OutSaver) {
        STRATA_CHECK(
            batch_stride(body_.type(op.operands[0]).shape, row_major_strides(body_.type(op.results[0]).shape)));
      } else if (op.kind == OpKind::Matmul || op.kind == OpKind::ConcatMatmul) {
        for (TensorId id : op.operands) {
          if (!plan(id).loaded && plan(id).dims.batches != plan(op.results[0]).dims.batches) {
            return unsupported("a computed operand of a product is broadcast");
          }
        }
      }
    }
    return {};
  }

  BlockWork work() const {
    BlockWork work;
    work.iterations = ceil_div(loop_, schedule_.groups());
    work.iteration_bytes = loop_ > 1 ? loads_->stage_bytes() : 0;
    work.ahead = schedule_.stages - 1;
    work.once_bytes = loads_->once_bytes();
    work.partial_bytes = partial_bytes_;
    std::set<TensorId> read;
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver || is_invariant(op)) continue;
      const bool after = stages_[i] == LoopStage::After;
      for (TensorId id : op.operands) {
        // From shared memory element by element, or rounded for a product.
        constexpr double kRead = 2;
        const bool product = op.kind == OpKind::Matmul || op.kind == OpKind::ConcatMatmul;
        if (product == plan(id).loaded || (!product && !read.insert(id).second)) continue;
        (after ? work.elements_after : work.elements) += kRead * static_cast<double>(registers(id, after && after_));
      }
      if (op.kind == OpKind::Matmul || op.kind == OpKind::ConcatMatmul) {
        (after ? work.products_after : work.products) += static_cast<double>(instructions(op));
        continue;
      }
      const auto results = static_cast<double>(registers(op.body ? op.results[0] : op.operands[0], after && after_));
      (after ? work.elements_after : work.elements) += operations_of(op) * results;
    }
    return work;
  }

  /// Tensor core instructions of a warp; a wide one does the work of several in less than their time.
  int64_t instructions(const Operation& op) const {
    const TileDims dims = local(op.results[0], false);
    const bool transposed = plan(op.results[0]).transposed;
    int64_t depth = 0;
    for (size_t p = 0; p < op.operands.size() / 2; ++p) depth += plan(op.operands[p]).dims.columns;
    return dims.batches * ceil_div(transposed ? dims.columns : dims.rows, 16) *
           ceil_div(transposed ? dims.rows : dims.columns, 8) * (depth / 16);
  }

  /// Registers of a lane: accumulators and kept sides stay, and the two largest of the rest are live together.
  int64_t register_estimate() const {
    constexpr int64_t kAddresses = 40;
    int64_t stay = kept_registers_;
    std::vector<int64_t> passing{0, 0};
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (op.kind == OpKind::OutSaver || op.kind == OpKind::InIter || stages_[i] != LoopStage::Body) continue;
      for (TensorId id : op.results) {
        if (!op.body && op_def(op.kind).traits.accumulates) {
          stay += registers(id, false);
        } else if (only_accumulator(id) == nullptr || op.body) {
          passing.push_back(registers(id, false));
        }
      }
    }
    std::sort(passing.rbegin(), passing.rend());
    return kAddresses + stay + passing[0] + passing[1];
  }

  Result<void> loop() {
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (stages_[i] == LoopStage::Body && !op.body && op_def(op.kind).traits.accumulates) declare(op);
    }
    for (const auto& [reference, state] : references_) {
      line(fmt::format("strata_device::Rescaling<{}> {};", tile_type(reference), state));
    }
    if (loop_ == 1) return body();
    STRATA_CHECK(invariants());
    keep_sides();
    values_.clear();
    text_ += loads_->loop_head();
    line("#pragma unroll 1");
    line(fmt::format("for (int iteration = group; iteration < {}; iteration += {}) {{", loop_, schedule_.groups()));
    text_ += loads_->iteration_begin();
    indent_ = "    ";
    STRATA_CHECK(body());
    text_ += loads_->iteration_end();
    indent_ = "  ";
    line("}");
    return {};
  }

  /// Sides of products that do not change are read once, where registers allow.
  void keep_sides() {
    for (const Operation& op : body_.operations()) {
      if (op.kind != OpKind::Matmul && op.kind != OpKind::ConcatMatmul) continue;
      const size_t pairs = op.operands.size() / 2;
      for (size_t n = 0; n < op.operands.size(); ++n) {
        const TensorId id = op.operands[n];
        const bool left = n < pairs;
        const bool stays = plan(id).loaded ? plan(id).once : invariant_.count(id) != 0;
        if (!stays || read_by_tensor_cores(op, left) || is_invariant(op) || kept_.count({id, left}) != 0) continue;
        const TileDims dims = local(id, false);
        const int64_t rows = left ? dims.rows : dims.columns;
        const int64_t depth = left ? dims.columns : dims.rows;
        if (dims.batches * ceil_div(rows, 8) * (depth / 8) > kMostKept) continue;
        const std::string name = scope_.add(names_[id] + "_side");
        if (!plan(id).loaded) {
          line(fmt::format("const auto {} = {};", name, side(op, n)));
          kept_[{id, left}] = name;
          continue;
        }
        line(fmt::format("const auto {} = strata_device::keep<{}, {}, {}, {}>({});", name, storage_type(plan_.operand),
                         dims.batches, rows, depth, side(op, n)));
        kept_[{id, left}] = name;
        kept_registers_ += dims.batches * ceil_div(rows, 8) * (depth / 8);
      }
    }
  }

  bool is_wide(const Operation& op) const {
    return std::find(plan_.wide.begin(), plan_.wide.end(), op.results[0]) != plan_.wide.end();
  }

  /// Whether tensor cores read a side of a product from shared memory: the columns of a wide one.
  bool read_by_tensor_cores(const Operation& op, bool left) const {
    return is_wide(op) && left == plan(op.results[0]).transposed;
  }

  /// One side of a product as multiply() takes it.
  std::string side(const Operation& op, size_t n) {
    const TensorId id = op.operands[n];
    const bool left = n < op.operands.size() / 2;
    // Another product may have kept what a wide one reads from shared memory.
    if (const auto kept = kept_.find({id, left}); kept != kept_.end() && !read_by_tensor_cores(op, left)) {
      return kept->second;
    }
    if (!plan(id).loaded) return fmt::format("strata_device::pack<{}>({})", storage_type(plan_.operand), names_[id]);
    const TensorPlan& tile = plan(id);
    const TileDims dims = local(id, false);
    const bool across = left == tile.pairs_down;
    const int64_t rows = left ? dims.rows : dims.columns;
    const auto position = left ? kRowPosition : kColumnPosition;
    const bool divided = plan_.row_axis != kNoAxis && tile.axes[position] == plan_.row_axis;
    const bool batched = plan_.row_axis != kNoAxis && tile.axes[kBatchPosition] == plan_.row_axis;
    return fmt::format("strata_device::SharedOperand<{}, {}, {}, {}>{{{}, {}, {}}}", shared_type(id), across, rows,
                       tile.dims.batches == 1, pointer(id), divided ? fmt::format("part * {}", rows) : "0",
                       batched ? fmt::format("part * {}", dims.batches * stored_rows(id)) : "0");
  }

  int64_t stored_rows(TensorId id) const { return plan(id).pairs_down ? plan(id).dims.columns : plan(id).dims.rows; }
  std::string pointer(TensorId id) {
    const auto at = pointers_.find(id);
    return at != pointers_.end() ? at->second : fmt::format("stage + {}", loads_->offset(id));
  }

  /// A tensor in registers: the name of its tile. Loaded tiles come from shared memory at their first use.
  std::string value(TensorId id, bool down) override {
    if (!plan(id).loaded) return names_[id];
    std::string& name = values_[{id, down}];
    if (!name.empty()) return name;
    name = scope_.add(names_[id] + "_values");
    const TensorPlan& tile = plan(id);
    const TileDims dims = local(id, false);
    const auto place = [&](TilePosition position, int64_t size) {
      return plan_.row_axis != kNoAxis && tile.axes[position] == plan_.row_axis ? fmt::format("part * {}", size) : "";
    };
    std::string row =
        place(tile.pairs_down ? kColumnPosition : kRowPosition, tile.pairs_down ? dims.columns : dims.rows);
    std::string column =
        place(tile.pairs_down ? kRowPosition : kColumnPosition, tile.pairs_down ? dims.rows : dims.columns);
    const std::string batch = place(kBatchPosition, dims.batches * stored_rows(id));
    if (!batch.empty()) row = batch;  // one axis lies in one dimension
    line(fmt::format("const auto {} = strata_device::load<{}, {}, {}>({}, {}, {});", name, tile_type(id, down, false),
                     shared_type(id), down != tile.pairs_down, pointer(id), row.empty() ? "0" : row,
                     column.empty() ? "0" : column));
    return name;
  }

  Result<void> body() {
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (stages_[i] == LoopStage::Body && !is_invariant(op)) STRATA_CHECK(operation(op));
    }
    values_.clear();
    return {};
  }

  Result<bool> reduces_columns(const Operation& op) const override {
    const size_t rank = body_.type(op.operands[0]).shape.size();
    const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
    if (dim + 2 < rank) return unsupported("{} reduces a batch dimension", body_.tensor(op.results[0]).name);
    return (dim + 1 == rank) != plan(op.results[0]).transposed;
  }
  std::string reduce_call(const Operation& op, bool columns, bool in_lane, const std::string& from) override {
    return fmt::format("strata_device::reduce{}<strata_device::{}, {}>({})", in_lane ? "_in_lane" : "",
                       op.kind == OpKind::Sum ? "Adding" : "Taking", columns, from);
  }
  std::string across_call(bool columns, const std::string& from) const override {
    return fmt::format("strata_device::reduce_across_lanes<strata_device::Adding, {}>({})", columns, from);
  }

  Result<void> product(const Operation& op) override {
    const TensorId result = op.results[0];
    const Operation* accumulator = only_accumulator(result);
    std::string target = names_[result];
    if (accumulator != nullptr) {
      target = names_[accumulator->results[0]];
      if (accumulator->kind == OpKind::AccumRescale) scale_before(*accumulator);
      direct_.insert(accumulator->results[0]);
    } else {
      line(is_wide(op) ? fmt::format("{} {};", tile_type(result), target)
                       : fmt::format("auto {} = strata_device::filled<{}>(0.0f);", target, tile_type(result)));
    }
    const size_t pairs = op.operands.size() / 2;
    for (size_t p = 0; p < pairs; ++p) {
      const int64_t depth = plan(op.operands[p]).dims.columns;
      std::string left = side(op, p);
      std::string right = side(op, p + pairs);
      if (plan(result).transposed) std::swap(left, right);
      std::string call = "strata_device::multiply<";
      if (is_wide(op)) {
        const TensorPlan& side = plan(op.operands[plan(result).transposed ? p : p + pairs]);
        const TileDims dims = local(result, false);
        const WideProduct product{plan(result).transposed ? dims.rows : dims.columns,
                                  plan(result).transposed == side.pairs_down};
        if (std::find(wide_.begin(), wide_.end(), product) == wide_.end()) wide_.push_back(product);
        call = fmt::format("strata_device::multiply_wide<strata_device::{}, ", product.name());
      }
      const bool fresh = is_wide(op) && accumulator == nullptr && p == 0;
      line(fmt::format("{}{}, {}{}>({}, {}, {});", call, storage_type(plan_.operand), depth, fresh ? ", true" : "",
                       target, left, right));
    }
    return {};
  }

  /// The accumulators' values, of the whole block or of this group's share, and what follows the loop.
  Result<void> after() {
    std::vector<const Operation*> accumulators;
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (!op.body && op_def(op.kind).traits.accumulates) accumulators.push_back(&op);
    }
    finish_reductions();
    const bool shared = schedule_.groups() > 1;
    if (shared) {
      gather(accumulators);
    } else {
      name_largest_references();
    }
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      if (stages_[i] == LoopStage::After) STRATA_CHECK(operation(body_.operations()[i]));
    }
    if (shared && plan_.sharers < schedule_.groups()) {
      indent_ = "  ";
      line("}");
    }
    if (schedule_.cluster_blocks() > 1) {
      line("strata_device::cluster_barrier();  // others may still use this block's shared memory");
    }
    return {};
  }

  /// "share_0" where a tensor's dimension has the axis that the groups divide so, "0" where they do not.
  std::string share_of(TensorId id, TilePosition position) const {
    const Axis axis = plan(id).axes[position];
    for (size_t n = 0; n < plan_.shares.size(); ++n) {
      if (axis != kNoAxis && plan_.shares[n].axis == axis) return fmt::format("share_{}", n);
    }
    return "0";
  }

  /// Where this group's part of a tensor begins, in parts along the tile's batches, rows and columns.
  std::string place(TensorId id) const {
    const bool transposed = plan(id).transposed;
    return fmt::format("{{{}, {}, {}}}", share_of(id, kBatchPosition),
                       share_of(id, transposed ? kColumnPosition : kRowPosition),
                       share_of(id, transposed ? kRowPosition : kColumnPosition));
  }

  void gather(const std::vector<const Operation*>& accumulators) {
    line("// Every group leaves what its iterations added up to, and takes its share of all groups'.");
    line(loads_->barrier());
    int64_t floats = 0;
    std::map<std::string, int64_t> left;  // by variable
    const auto leave = [&](const std::string& variable, TensorId id) {
      if (left.count(variable) != 0) return;
      left[variable] = floats;
      line(fmt::format("strata_device::leave(partial + {}, {});", floats, variable));
      floats += ceil_div(registers(id, false), 4) * 4 * kWarp;
    };
    const size_t declaration = text_.size();
    for (const auto& [reference, state] : references_) leave(fmt::format("{}.largest", state), reference);
    for (const Operation* op : accumulators) {
      if (!is_largest_reference(*op)) leave(names_[op->results[0]], op->results[0]);
    }
    text_.insert(declaration,
                 fmt::format("  float* const partial = {} + warp * {};\n", partial_memory("float*"), floats));
    partial_bytes_ = floats * static_cast<int64_t>(sizeof(float)) * schedule_.row_warps * schedule_.loop_warps;
    line(every_barrier());
    if (plan_.sharers < schedule_.groups()) {
      line(fmt::format("if (group < {}) {{", plan_.sharers));
      indent_ = "    ";
    }
    for (size_t n = 0; n < plan_.shares.size(); ++n) {
      line(fmt::format("[[maybe_unused]] const int share_{} = group / {} % {};", n, plan_.shares[n].stride,
                       plan_.shares[n].parts));
    }
    line(fmt::format(
        "const strata_device::Lefts<{}, {}, {}> lefts{{{} + part * {}, {}}};", schedule_.cluster, schedule_.loop_warps,
        floats * schedule_.row_warps, partial_memory("const float*"), floats,
        schedule_.sharers > 1 && schedule_.cluster > 1 ? fmt::format("share * {}", schedule_.cluster) : "0"));
    const auto types = [&](TensorId id) {
      return fmt::format("{}, {}", tile_type(id, plan(id).transposed, true), tile_type(id, plan(id).transposed, false));
    };
    std::map<TensorId, std::string> largest;
    for (const auto& [reference, state] : references_) {
      largest[reference] = scope_.add(state + "_largest");
      line(fmt::format("const auto {} = strata_device::gathered<strata_device::Taking, {}>(lefts, {}, {});",
                       largest[reference], types(reference), left.at(fmt::format("{}.largest", state)),
                       place(reference)));
    }
    for (const Operation* op : accumulators) {
      const TensorId id = op->results[0];
      const std::string before = names_[id];
      names_[id] = scope_.add(before + "_all");
      if (op->kind == OpKind::AccumRescale) {
        const TensorId reference = op->operands[1];
        line(fmt::format("const auto {} = strata_device::gathered_rescaled<{}, {}>(lefts, {}, {}, {}, {}, {});",
                         names_[id], types(id), types(reference), left.at(before), place(id),
                         left.at(fmt::format("{}.largest", references_.at(reference))), place(reference),
                         largest[reference]));
        continue;
      }
      if (is_largest_reference(*op)) {
        line(fmt::format("const auto& {} = {};", names_[id], largest[op->operands[0]]));
        continue;
      }
      const bool maximum = op->attributes.word("kind") == "max";
      line(fmt::format("const auto {} = strata_device::gathered<strata_device::{}, {}>(lefts, {}, {});", names_[id],
                       maximum ? "Taking" : "Adding", types(id), left.at(before), place(id)));
    }
    after_ = true;
  }

  std::string every_barrier() const {
    return schedule_.cluster > 1 ? "strata_device::cluster_barrier();" : loads_->barrier();
  }

  /// Where groups leave what they added up, over tiles that are done with.
  std::string partial_memory(const char* type) const {
    return loads_->reserved_bytes() > 0
               ? fmt::format("reinterpret_cast<{}>(shared + {})", type, loads_->reserved_bytes())
               : fmt::format("reinterpret_cast<{}>(shared)", type);
  }

  Result<void> save(const Operation& op) override {
    const TensorId id = op.operands[0];
    const TensorPlan& tile = plan(id);
    const Shape& shape = body_.type(id).shape;
    const std::vector<int64_t> strides = row_major_strides(body_.type(op.results[0]).shape);
    const size_t rank = shape.size();
    STRATA_TRY(const int64_t between, batch_stride(shape, strides));
    int64_t row_stride = rank > 1 ? strides[rank - 2] : 0;
    int64_t column_stride = strides[rank - 1];
    std::string offset = tile_base(body_.launch(), strides, shape, op.attributes.list("omap"), -1);
    const TileDims dims = local(id, after_);
    const auto position = [&](TilePosition p, int64_t size, int64_t stride) {
      const bool parts = tile.axes[p] != kNoAxis && tile.axes[p] == plan_.row_axis;
      const std::string share = after_ ? share_of(id, p) : "0";
      if (parts && share != "0") {
        int64_t shares = 1;
        for (const TilePlan::Share& of : plan_.shares) shares = of.axis == tile.axes[p] ? of.parts : shares;
        offset += fmt::format(" + (part * {} + {}) * {}", shares, share, size * stride);
      } else if (parts || share != "0") {
        offset += fmt::format(" + {} * {}", parts ? "part" : share, size * stride);
      }
    };
    position(kBatchPosition, dims.batches, between);
    position(kRowPosition, dims.rows, row_stride);
    position(kColumnPosition, dims.columns, column_stride);
    const bool transposed = !tile.loaded && tile.transposed;
    if (transposed) std::swap(row_stride, column_stride);
    // What all of a group, or all groups, hold alike is written by one.
    const bool parts_differ =
        schedule_.row_warps == 1 || std::find(tile.axes.begin(), tile.axes.end(), plan_.row_axis) != tile.axes.end();
    std::string guard;
    if (!parts_differ) guard = "part == 0";
    for (size_t n = 0; after_ && n < plan_.shares.size(); ++n) {
      if (std::find(tile.axes.begin(), tile.axes.end(), plan_.shares[n].axis) != tile.axes.end()) continue;
      guard += fmt::format("{}share_{} == 0", guard.empty() ? "" : " && ", n);
    }
    line(fmt::format("{}strata_device::save<{}, {}, {}>({} + {}, {});",
                     guard.empty() ? std::string() : fmt::format("if ({}) ", guard), between, row_stride, column_stride,
                     names_[op.results[0]], offset, value(id)));
    return {};
  }

  TilePlan plan_;
  std::unique_ptr<TileLoads> loads_;
  std::map<TensorId, std::string> pointers_;               ///< of tiles that stay
  std::map<std::pair<TensorId, bool>, std::string> kept_;  ///< sides of products, by tile and left
  std::vector<WideProduct> wide_;                          ///< instructions that the text uses
  int64_t kept_registers_ = 0;
  int64_t partial_bytes_ = 0;
};

}  // namespace

Result<BlockCode> emit_tiles(const Operation& op, const std::string& name,
                             const std::vector<std::vector<int64_t>>& strides, const BlockSchedule& schedule,
                             const Target& target) {
  return TileBlock(op, name, strides, schedule, target).run();
}

}  // namespace strata
