#include <algorithm>

#include "superopt/codegen/tiles/block.h"

namespace strata {

namespace {

constexpr int64_t kLanesOfRow = 4;  // of an 8 × 8 block in registers
constexpr int64_t kLanesOfColumn = 8;

}  // namespace

Result<void> TileBlock::after() {
  std::vector<const Operation*> accumulators;
  for (size_t i = 0; i < body_.operations().size(); ++i) {
    const Operation& op = body_.operations()[i];
    if (!op.body && op_def(op.kind).traits.accumulates) accumulators.push_back(&op);
  }
  narrow_sums();
  finish_reductions();
  const bool shared = schedule_.groups() > 1;
  if (shared) {
    STRATA_CHECK(gather(accumulators));
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

std::string TileBlock::share_of(TensorId id, TilePosition position) const {
  const Axis axis = plan(id).axes[position];
  for (size_t n = 0; n < plan_.shares.size(); ++n) {
    if (axis != kNoAxis && plan_.shares[n].axis == axis) return fmt::format("share_{}", n);
  }
  return "0";
}

std::string TileBlock::place(TensorId id) const {
  const bool transposed = plan(id).transposed;
  return fmt::format("{{{}, {}, {}}}", share_of(id, kBatchPosition),
                     share_of(id, transposed ? kColumnPosition : kRowPosition),
                     share_of(id, transposed ? kRowPosition : kColumnPosition));
}

int64_t TileBlock::leaving_groups() const {
  return schedule_.leaving == 0 ? schedule_.loop_warps : std::min(schedule_.leaving, schedule_.loop_warps);
}

Result<void> TileBlock::gather(const std::vector<const Operation*>& accumulators) {
  const int64_t leaving = leaving_groups();
  const bool in_turns = leaving < schedule_.loop_warps;
  if (in_turns && schedule_.cluster > 1) return unsupported("groups of a cluster leave their sums at once");
  if (in_turns && !references_.empty()) return unsupported("rescaled sums are left by all groups at once");
  if (in_turns && (leaving < 1 || schedule_.loop_warps % leaving != 0))
    return unsupported("{} groups do not leave their sums {} at a time", schedule_.loop_warps, leaving);
  line("// Every group leaves what its iterations added up to, and takes its share of all groups'.");
  line(is_template_ ? "if constexpr (Ring::kSharesMemory) Team::meet();  // tiles lay there" : "Team::meet();");
  int64_t floats = 0;
  std::map<std::string, int64_t> left;  // by variable
  std::string takes;                    // of what other groups left
  if (in_turns) indent_ = "      ";
  const auto leave = [&](const std::string& variable, TensorId id) {
    if (left.count(variable) != 0) return;
    left[variable] = floats;
    line(fmt::format("strata_device::leave(partial + {}, {});", floats, variable));
    const TileDims dims = local(id, false);
    const bool one_row = (plan(id).transposed ? dims.columns : dims.rows) == 1;
    const bool one_column = (plan(id).transposed ? dims.rows : dims.columns) == 1;
    floats += ceil_div(registers(id, false), 4) * 4 * (one_row ? kLanesOfRow : one_column ? kLanesOfColumn : kWarp);
  };
  const size_t declaration = text_.size();
  for (const auto& [reference, state] : references_) leave(fmt::format("{}.largest", state), reference);
  for (const Operation* op : accumulators) {
    if (is_largest_reference(*op)) continue;
    takes += fmt::format("        strata_device::take_left<strata_device::{}>({}, partial + {});\n", combination(*op),
                         names_[op->results[0]], floats);
    leave(names_[op->results[0]], op->results[0]);
  }
  indent_ = "  ";
  std::string first = fmt::format("  float* const partial = {} + {} * {};\n", partial_memory("float*"),
                                  in_turns ? fmt::format("warp % {}", leaving * schedule_.row_warps) : "warp", floats);
  if (in_turns) {
    const int64_t turns = schedule_.loop_warps / leaving;
    first += fmt::format("#pragma unroll 1\n  for (int turn = {}; turn >= 0; --turn) {{\n", turns - 1);
    first += fmt::format("    if (crew / {} == turn) {{\n      if (turn < {}) {{\n{}", leaving, turns - 1, takes);
    first += "        strata_device::warp_barrier();\n      }\n";
    text_ += "    }\n    Team::meet();\n  }\n";
  }
  text_.insert(declaration, first);
  partial_bytes_ = floats * static_cast<int64_t>(sizeof(float)) * schedule_.row_warps * leaving;
  if (!in_turns) line(every_barrier());
  if (plan_.sharers < schedule_.groups()) {
    line(fmt::format("if (group < {}) {{", plan_.sharers));
    indent_ = "    ";
  }
  for (size_t n = 0; n < plan_.shares.size(); ++n) {
    line(fmt::format("[[maybe_unused]] const int share_{} = group / {} % {};", n, plan_.shares[n].stride,
                     plan_.shares[n].parts));
  }
  line(
      fmt::format("const strata_device::Lefts<{}, {}, {}> lefts{{{} + part * {}, {}}};", schedule_.cluster, leaving,
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
      line(fmt::format("const auto {} = strata_device::gathered_rescaled<Math, {}, {}>(lefts, {}, {}, {}, {}, {});",
                       names_[id], types(id), types(reference), left.at(before), place(id),
                       left.at(fmt::format("{}.largest", references_.at(reference))), place(reference),
                       largest[reference]));
      continue;
    }
    if (is_largest_reference(*op)) {
      line(fmt::format("const auto& {} = {};", names_[id], largest[op->operands[0]]));
      continue;
    }
    line(fmt::format("const auto {} = strata_device::gathered<strata_device::{}, {}>(lefts, {}, {});", names_[id],
                     combination(*op), types(id), left.at(before), place(id)));
  }
  after_ = true;
  return {};
}

const char* TileBlock::combination(const Operation& accumulator) {
  return accumulator.kind != OpKind::AccumRescale && accumulator.attributes.word("kind") == "max" ? "Taking" : "Adding";
}

std::string TileBlock::every_barrier() const {
  return schedule_.cluster > 1 ? "strata_device::cluster_barrier();" : "Team::meet();";
}

std::string TileBlock::partial_memory(const char* type) const {
  return fmt::format("reinterpret_cast<{}>(shared)", type);
}

Result<void> TileBlock::save(const Operation& op) {
  const TensorId id = op.operands[0];
  const TensorPlan& tile = plan(id);
  const Shape& shape = body_.type(id).shape;
  const std::vector<int64_t> strides = row_major_strides(body_.type(op.results[0]).shape);
  const size_t rank = shape.size();
  STRATA_TRY(const int64_t between, batch_stride(shape, strides));
  int64_t row_stride = rank > 1 ? strides[rank - 2] : 0;
  int64_t column_stride = rank > 0 ? strides[rank - 1] : 1;
  std::string offset = tile_base(tile_region(body_, op), strides);
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

}  // namespace strata
