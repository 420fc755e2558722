#include "superopt/codegen/rows.h"

#include <algorithm>
#include <bit>

#include "ops/one_dimension.h"
#include "superopt/codegen/register_block.h"
#include "superopt/codegen/schedule_cost.h"

namespace strata {
namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kVectorBytes = 16;
/// Iterations whose loads are in flight together: as many as registers hold, within these.
constexpr int64_t kFewestAhead = 8;
constexpr int64_t kMostAhead = 32;
/// Registers of a thread that loads may fill; others of a multiprocessor's are for what is computed.
constexpr int64_t kLoadRegisters = 192;
constexpr int64_t kOtherRegisters = 56;
constexpr int64_t kMultiprocessorRegisters = 65536;
constexpr int64_t kMostRegisters = 256;  // of a thread

struct RowDims {
  int64_t rows = 1;
  int64_t columns = 1;
};

RowDims row_dims(const Shape& shape) {
  RowDims dims;
  if (!shape.empty()) dims.columns = shape.back();
  for (size_t d = 0; d + 1 < shape.size(); ++d) dims.rows *= shape[d];
  return dims;
}

class RowBlock : public RegisterBlock {
 public:
  using RegisterBlock::RegisterBlock;

  Result<BlockCode> run() {
    STRATA_CHECK(check());
    if (std::any_of(strides_.begin(), strides_.end(), [](const OperandPlace& place) { return place.front; }))
      return unsupported("rows of a tensor that lies in two memories");
    choose_crews();
    name_tensors();
    text_ += team_head();
    STRATA_CHECK(stages());
    text_ += "}\n\n";
    BlockCode code;
    code.text = std::move(text_);
    code.threads = threads_;
    code.shared_bytes = code.scratch_bytes = scratch_floats_ * static_cast<int64_t>(sizeof(float));
    code.registers = registers_;
    // Unasked, ptxas saves registers and waits for each load before it issues the next.
    if (loop_ > 1) code.resident_blocks = std::max<int64_t>(1, kMultiprocessorRegisters / (kMostRegisters * threads_));
    code.work = work();
    code.description =
        fmt::format("rows: {} crews of {} threads, {} columns in a vector", threads_ / crew_, crew_, vector_);
    return code;
  }

 private:
  using RegisterBlock::tile_type;
  using RegisterBlock::value;

  bool transposed(TensorId) const override { return false; }
  bool loaded(TensorId id) const override { return producer(id).kind == OpKind::InIter; }
  bool stays(TensorId id) const override {
    return loaded(id) && (loop_ == 1 || producer(id).attributes.integer_or("fmap", -1) < 0);
  }
  const Operation& producer(TensorId id) const {
    return body_.operations()[static_cast<size_t>(body_.tensor(id).producer)];
  }

  Result<void> check() {
    for (const Operation& op : body_.operations()) {
      for (TensorId id : op.results) {
        if (body_.type(id).dtype == DType::F64) return unsupported("{} is f64", body_.tensor(id).name);
      }
      if (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver) continue;
      const bool elementwise = op.body || op_def(op.kind).traits.elementwise;
      const bool accumulates = !op.body && op_def(op.kind).traits.accumulates;
      const bool reduces = is_reduction(op.kind);
      if (op.kind == OpKind::Accum && op.attributes.word("kind") == "concat") {
        return unsupported("an accumulator concatenates");
      }
      if (!elementwise && !accumulates && !reduces) return unsupported("{} is no operator of rows", op.name());
      if (reduces) STRATA_CHECK(reduces_columns(op));
      for (TensorId result : op.results) {
        if (reduces) continue;
        for (TensorId id : op.operands) STRATA_CHECK(check_broadcast(body_.type(id).shape, body_.type(result).shape));
      }
    }
    return {};
  }

  /// Iterations that are unrolled together: their loads come first.
  int64_t ahead() const {
    int64_t each = 0;
    for (const Operation& op : body_.operations()) {
      if (op.kind == OpKind::InIter && !stays(op.results[0])) each += registers(op.results[0]);
    }
    return unrolled(each);
  }
  /// Of iterations that load this many registers each.
  int64_t unrolled(int64_t loaded) const {
    const int64_t most = std::min(kLoadRegisters, kMultiprocessorRegisters / threads_ - kOtherRegisters);
    const int64_t fit = std::clamp(most / std::max<int64_t>(1, loaded), kFewestAhead, kMostAhead);
    return std::min(loop_, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(fit))));
  }

  BlockWork work() const {
    BlockWork work;
    work.iterations = loop_;
    work.ahead = ahead();
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (op.kind == OpKind::OutSaver) continue;
      if (is_counted(body_, op)) continue;
      if (op.kind == OpKind::InIter) {
        (loop_ > 1 && !stays(op.results[0]) ? work.iteration_bytes : work.once_bytes) +=
            body_.type(op.results[0]).bytes();
        continue;
      }
      const auto results = static_cast<double>(registers(op.body ? op.results[0] : op.operands[0]));
      (stages_[i] == LoopStage::After ? work.elements_after : work.elements) += operations_of(op) * results;
    }
    return work;
  }

  /// Leading dimensions are those of the result, or all 1.
  static Result<void> check_broadcast(const Shape& from, const Shape& to) {
    if (from.empty() || row_dims(from).rows == 1) return {};
    const bool same = from.size() == to.size() && std::equal(from.begin(), from.end() - 1, to.begin());
    if (!same)
      return unsupported("{} broadcasts to {} along some leading dimensions only", to_string(from), to_string(to));
    return {};
  }

  /// As wide vectors as 16 bytes and the columns allow, as many threads a row as it has vectors.
  void choose_crews() {
    threads_ = kWarp * schedule_.row_warps;
    int64_t columns = 1;
    int64_t bytes = 4;
    for (const Operation& op : body_.operations()) {
      if (op.kind == OpKind::OutSaver) continue;
      columns = std::max(columns, row_dims(body_.type(op.results[0]).shape).columns);
      if (op.kind == OpKind::InIter && !is_counted(body_, op))
        bytes = std::min(bytes, size_of(body_.type(op.results[0]).dtype));
    }
    vector_ = kVectorBytes / bytes;
    while (columns % vector_ != 0) vector_ /= 2;
    const auto vectors = static_cast<uint64_t>(ceil_div(columns, vector_));
    crew_ = std::min<int64_t>(threads_, static_cast<int64_t>(std::bit_ceil(vectors)));
  }

  std::string tile_type(TensorId id, bool, bool) const override {
    const RowDims dims = row_dims(body_.type(id).shape);
    return fmt::format("strata_device::RowTile<Team, {}, {}, {}, {}>", dims.rows, dims.columns, crew_, vector_);
  }
  int64_t registers(TensorId id) const {
    const RowDims dims = row_dims(body_.type(id).shape);
    const int64_t crews = threads_ / crew_;
    const int64_t step = crew_ * vector_;
    return ceil_div(dims.rows, crews) * (dims.columns == 1 ? 1 : ceil_div(dims.columns, step) * vector_);
  }

  Result<bool> reduces_columns(const Operation& op) const override {
    const Shape& shape = body_.type(op.operands[0]).shape;
    if (op.attributes.integer("dim") + 1 != static_cast<int64_t>(shape.size())) {
      return unsupported("{} reduces another dimension than the last", body_.tensor(op.results[0]).name);
    }
    if (body_.type(op.results[0]).shape.back() != 1) {
      return unsupported("{} reduces in groups", body_.tensor(op.results[0]).name);
    }
    return true;
  }

  std::string reduce_call(const Operation& op, bool, bool, const std::string& from) override {
    const int64_t first = scratch_floats_;
    if (crew_ > kWarp) scratch_floats_ += registers(op.results[0]) * (threads_ / kWarp);
    return fmt::format(
        "strata_device::reduce_rows<Team, strata_device::{}, {}>({}, reinterpret_cast<float*>(shared) + {})",
        op.kind == OpKind::Sum ? "Adding" : "Taking", looping_, from, first);
  }

  std::string across_call(bool, const std::string&) const override { return {}; }

  /// Shape and strides of the dimensions before the last, and what load_rows and save_rows are told of the last.
  std::string placement(const Shape& tile, const OperandPlace& place, const Shape& whole, int64_t element) const {
    if (tile.empty()) return placement({1}, OperandPlace({1}), {1}, element);  // a scalar is one column
    const std::vector<int64_t>& strides = place.strides;
    const size_t rank = tile.size();
    std::vector<int64_t> rows(tile.begin(), tile.end() - 1);
    std::vector<int64_t> row_strides(strides.begin(), strides.begin() + static_cast<int64_t>(rank) - 1);
    int64_t aligned = 1;
    if (strides[rank - 1] == 1) {
      const auto fits = [&](int64_t count) {
        if (tile[rank - 1] % count != 0 || count * element > kVectorBytes) return false;
        for (size_t d = 0; d + 1 < rank; ++d) {
          if (whole[d] > 1 && strides[d] % count != 0) return false;
        }
        for (const Fold& fold : place.folds) {
          if (fold.stride % count != 0) return false;
        }
        return true;
      };
      while (aligned < vector_ && fits(aligned * 2)) aligned *= 2;
    }
    return fmt::format("{}, {}, {}, {}", dims(rows), dims(row_strides), strides[rank - 1], aligned);
  }

  std::string value(TensorId id, bool) override {
    if (!loaded(id)) return names_[id];
    if (const auto kept = kept_.find(id); kept != kept_.end()) return kept->second;
    std::string& name = values_[{id, false}];
    if (!name.empty()) return name;
    name = names_[id];
    const Operation& op = producer(id);
    const OperandPlace& place = strides_[input_number(op.operands[0])];
    const Shape& tile = body_.type(id).shape;
    line("// " + statement_text(body_, op));
    if (is_counted(body_, op)) {
      const Iota& iota = *body_.type(op.operands[0]).iota;
      const auto dim = static_cast<size_t>(iota.dim);
      const bool last = dim + 1 == tile.size();
      const int64_t inner = last ? 1 : inner_elements(tile, dim) / tile.back();
      const std::string along = tile[dim] == 1 ? "AlongNothing"
                                : last         ? "AlongColumns"
                                               : fmt::format("AlongSomeRows<{}, {}>", inner, tile[dim]);
      line(fmt::format("const auto {} = strata_device::counted<{}, strata_device::{}>({}, {}.0f);", name,
                       tile_type(id, false, false), along,
                       counted_text(iota, tile_start(tile_region(body_, op), dim), DType::F32), iota.step));
      return name;
    }
    line(fmt::format("const auto {} = strata_device::load_rows<{}, {}>({} + {});", name, tile_type(id, false, false),
                     placement(tile, place, body_.type(op.operands[0]).shape, size_of(body_.type(id).dtype)),
                     names_[op.operands[0]], tile_base(tile_region(body_, op), place)));
    return name;
  }

  Result<void> product(const Operation& op) override { return unsupported("{} is no operator of rows", op.name()); }

  Result<void> save(const Operation& op) override {
    const TensorId id = op.operands[0];
    const Shape& tile = body_.type(id).shape;
    const TensorType& whole = body_.type(op.results[0]);
    const std::vector<int64_t> strides = row_major_strides(whole.shape);
    line(fmt::format("strata_device::save_rows<{}>({} + {}, {});",
                     placement(tile, strides, whole.shape, size_of(whole.dtype)), names_[op.results[0]],
                     tile_base(tile_region(body_, op), strides), value(id)));
    return {};
  }

  Result<void> body(LoopStage wanted) {
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (stages_[i] == wanted && !is_invariant(op)) STRATA_CHECK(operation(op));
    }
    values_.clear();
    return {};
  }

  /// References that are loaded: the largest of all iterations is known before anything is added relative to it, so
  /// that iterations do not wait for each other.
  void take_references() {
    for (const auto& [reference, state] : references_) {
      if (!loaded(reference) || stays(reference)) continue;
      known_references_.insert(reference);
      line(fmt::format("#pragma unroll {}", unrolled(registers(reference))));
      line(fmt::format("for (int iteration = 0; iteration < {}; ++iteration) {{", loop_));
      indent_ = "    ";
      line(fmt::format("{}.take({});", state, value(reference, false)));
      indent_ = "  ";
      line("}");
      values_.clear();
    }
  }

  Result<void> stages() {
    for (const Operation& op : body_.operations()) {
      for (TensorId id : op.results) {
        if (op.kind != OpKind::OutSaver) registers_ += registers(id);
      }
      if (op.kind != OpKind::InIter || !stays(op.results[0])) continue;
      value(op.results[0], false);
      kept_[op.results[0]] = names_[op.results[0]];
    }
    for (const Operation& op : body_.operations()) {
      if (!op.body && op_def(op.kind).traits.accumulates) declare(op);
    }
    for (const auto& [reference, state] : references_) {
      line(fmt::format("strata_device::Rescaling<Math, {}> {};", tile_type(reference), state));
    }
    if (loop_ > 1) {
      STRATA_CHECK(invariants());
      take_references();
      line(fmt::format("#pragma unroll {}", ahead()));
      line(fmt::format("for (int iteration = 0; iteration < {}; ++iteration) {{", loop_));
      indent_ = "    ";
      looping_ = true;
      STRATA_CHECK(body(LoopStage::Body));
      looping_ = false;
      indent_ = "  ";
      line("}");
      settle_references();
    } else {
      STRATA_CHECK(body(LoopStage::Body));
    }
    name_largest_references();
    return body(LoopStage::After);
  }

  int64_t threads_ = 0;
  int64_t crew_ = 1;
  int64_t vector_ = 1;
  int64_t scratch_floats_ = 0;
  int64_t registers_ = 32;
  bool looping_ = false;
  std::map<TensorId, std::string> kept_;  ///< tiles that are loaded once
};

}  // namespace

Result<BlockCode> emit_rows(const Operation& op, const std::string& name, const OperandPlaces& strides,
                            const BlockSchedule& schedule, const Target& target) {
  return RowBlock(op, name, strides, schedule, target).run();
}

std::vector<BlockSchedule> row_schedules(const Operation& op, const OperandPlaces& strides, const Target& target) {
  constexpr int64_t kMostWarps = 32;
  constexpr int64_t kMostRegisters = 160;
  std::vector<std::pair<double, BlockSchedule>> rated;
  for (int64_t warps = 1; warps <= kMostWarps; warps *= 2) {
    const BlockSchedule schedule{.row_warps = warps};
    const auto code = emit_rows(op, "candidate", strides, schedule, target);
    if (!code || (code->registers > kMostRegisters && warps < kMostWarps)) continue;
    rated.emplace_back(schedule_seconds(op, strides, *code, schedule, target), schedule);
  }
  std::stable_sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<BlockSchedule> schedules;
  for (const auto& [seconds, schedule] : rated) schedules.push_back(schedule);
  return schedules;
}

}  // namespace strata
