#include "hlo/wrap_concatenations.h"

#include <algorithm>
#include <optional>

#include "hlo/entry_rewriter.h"

namespace strata::hlo {
namespace {

/// Elements [start, limit) of an array along one dimension.
struct Run {
  int64_t start = 0;
  int64_t limit = 0;
};

/// A way around a range of an array: from an element of it on, as often as it takes.
struct Way {
  InstructionId array = 0;
  Run range;
  int64_t start = 0;    ///< from the range's first element
  SliceAttributes cut;  ///< of the array, to the range in this dimension and to what all pieces have in others
};

class Wrapping : EntryRewriter {
 public:
  explicit Wrapping(const Module& module) : EntryRewriter(module) {}

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      if (it.opcode != Opcode::Concatenate || it.operands.size() < 2) return std::nullopt;
      if (!it.shape.has_default_layout() || it.shape.element_count() == 0) return std::nullopt;
      const std::optional<Way> way = way_of(it);
      if (!way) return std::nullopt;
      return around(it, *way);
    });
  }

 private:
  /// What a piece is a slice of, and from where to where; itself as a whole if it is no slice.
  std::pair<InstructionId, SliceAttributes> slice_of(InstructionId id) const {
    const Instruction& it = from_[id];
    if (it.opcode == Opcode::Slice) {
      const auto& slice = it.as<SliceAttributes>();
      if (std::all_of(slice.strides.begin(), slice.strides.end(), [](int64_t stride) { return stride == 1; }))
        return {it.operands[0], slice};
    }
    const std::vector<int64_t>& dims = it.shape.dims;
    return {id, {std::vector<int64_t>(dims.size(), 0), dims, std::vector<int64_t>(dims.size(), 1)}};
  }

  std::optional<Way> way_of(const Instruction& it) const {
    const auto d = static_cast<size_t>(it.dimensions()[0]);
    std::optional<Way> way;
    std::vector<Run> runs;
    for (const InstructionId id : it.operands) {
      if (from_[id].shape.element_count() == 0) continue;
      auto [array, cut] = slice_of(id);
      const Run run{cut.starts[d], cut.limits[d]};
      runs.push_back(run);
      cut.starts[d] = cut.limits[d] = 0;
      if (!way) way = Way{array, {}, 0, cut};
      if (way->array != array || way->cut.starts != cut.starts || way->cut.limits != cut.limits) return std::nullopt;
    }
    // Every jump is one from the range's end to its beginning. Without any, the range is what is gone through.
    Run& range = way->range;
    for (size_t i = 1; i < runs.size(); ++i) {
      const Run jump{runs[i].start, runs[i - 1].limit};
      if (jump.start == jump.limit) continue;
      if (range.start == range.limit) range = jump;
      if (jump.start != range.start || jump.limit != range.limit) return std::nullopt;
    }
    if (range.start == range.limit) range = {runs.front().start, runs.back().limit};
    const bool inside =
        std::ranges::all_of(runs, [&](const Run& run) { return range.start <= run.start && run.limit <= range.limit; });
    if (!inside || !from_[way->array].shape.has_default_layout()) return std::nullopt;
    way->start = runs.front().start - range.start;
    way->cut.starts[d] = range.start;
    way->cut.limits[d] = range.limit;
    return way;
  }

  InstructionId around(const Instruction& it, const Way& way) {
    const auto d = static_cast<size_t>(it.dimensions()[0]);
    const ElementType type = it.shape.type;
    InstructionId array = moved_[static_cast<size_t>(way.array)];
    std::vector<int64_t> dims = it.shape.dims;
    const int64_t length = way.range.limit - way.range.start;
    dims[d] = length;
    if (shape(array).dims != dims)
      array = add(it.name + ".range", Opcode::Slice, array_shape(type, dims), {array}, way.cut);
    const int64_t limit = way.start + it.shape.dims[d];
    const int64_t times = (limit + length - 1) / length;
    if (times > 1) {
      array = repeated(it.name, array, d, times);
      dims[d] = times * length;
    }
    if (dims == it.shape.dims) return array;
    SliceAttributes cut{std::vector<int64_t>(dims.size(), 0), it.shape.dims, std::vector<int64_t>(dims.size(), 1)};
    cut.starts[d] = way.start;
    cut.limits[d] = limit;
    return add(it.name + ".around", Opcode::Slice, it.shape, {array}, cut);
  }
};

}  // namespace

Module wrap_concatenations(const Module& module) { return Wrapping(module).run(); }

}  // namespace strata::hlo
