#include "emitters/fusion/kept_rows.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// Of each dimension of a value, which one it is of the arrays that are reduced. Those of one element are any.
using Places = std::vector<int64_t>;

std::vector<int64_t> dims_beside_ones(const hlo::Shape& shape) {
  std::vector<int64_t> dims;
  std::ranges::copy_if(shape.dims, std::back_inserter(dims), [](int64_t size) { return size != 1; });
  return dims;
}

bool are_equal(const hlo::Shape& shape, const Places& a, const Places& b) {
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) != 1 && a[static_cast<size_t>(d)] != b[static_cast<size_t>(d)]) return false;
  }
  return true;
}

class RowReader {
 public:
  RowReader(const Computation& computation, const Group& group) : computation_(computation), group_(group) {}

  bool keeps_rows() {
    return std::ranges::all_of(group_, [&](InstructionId id) { return add(id); });
  }

 private:
  /// False where an instruction reads results of other rows.
  bool add(InstructionId id) {
    const Instruction& it = computation_[id];
    const bool reduces = it.opcode == Opcode::Reduce;
    const bool depends =
        std::ranges::any_of(it.operands, [&](InstructionId operand) { return places_.contains(operand); });
    if (!reduces && !depends) return true;
    std::optional<Places> places = reduces ? of_reduction(it) : of_reader(it);
    if (places) places_[id] = *std::move(places);
    return places_.contains(id);
  }

  std::optional<Places> of_reduction(const Instruction& it) {
    const hlo::Shape& operand = computation_.operand_shape(it, 0);
    Places own(static_cast<size_t>(operand.rank()));
    for (size_t d = 0; d < own.size(); ++d) own[d] = static_cast<int64_t>(d);
    reduced_ = &operand;
    along_ = &it.dimensions();
    for (const InstructionId id : it.operands) {
      const auto known = places_.find(id);
      if (known == places_.end()) continue;
      if (computation_[id].shape.dims != operand.dims || !are_equal(operand, known->second, own)) return std::nullopt;
    }
    std::erase_if(own, [&](int64_t d) { return std::ranges::count(it.dimensions(), d) != 0; });
    return own;
  }

  std::optional<Places> of_reader(const Instruction& it) const {
    if (hlo::is_elementwise(it.opcode) || it.opcode == Opcode::Copy) {
      const Places* found = nullptr;
      for (const InstructionId operand : it.operands) {
        const auto known = places_.find(operand);
        if (known == places_.end()) continue;
        if (computation_[operand].shape.dims != it.shape.dims) return std::nullopt;
        if (found != nullptr && !are_equal(it.shape, *found, known->second)) return std::nullopt;
        found = &known->second;
      }
      return *found;
    }
    if (it.operands.size() != 1) return std::nullopt;
    const hlo::Shape& from = computation_.operand_shape(it, 0);
    const Places& places = places_.at(it.operands[0]);
    Places result(static_cast<size_t>(it.shape.rank()), -1);
    if (it.opcode == Opcode::Transpose) {
      for (size_t d = 0; d < result.size(); ++d) result[d] = places[static_cast<size_t>(it.dimensions()[d])];
      return result;
    }
    if (it.opcode == Opcode::Reshape) {
      if (dims_beside_ones(from) != dims_beside_ones(it.shape)) return std::nullopt;
      size_t next = 0;
      for (size_t d = 0; d < result.size(); ++d) {
        if (it.shape.dims[d] == 1) continue;
        while (from.dims[next] == 1) ++next;
        result[d] = places[next++];
      }
      return result;
    }
    if (it.opcode == Opcode::Broadcast) return of_broadcast(it, places);
    return std::nullopt;
  }

  /// Along dimensions that are reduced alone: to all elements of the row.
  std::optional<Places> of_broadcast(const Instruction& it, const Places& places) const {
    Places result(static_cast<size_t>(it.shape.rank()), -1);
    bool adds = false;
    for (int64_t d = 0; d < it.shape.rank(); ++d) {
      const auto place = std::ranges::find(it.dimensions(), d);
      const bool is_new = place == it.dimensions().end();
      const bool spreads = is_new || computation_.operand_shape(it, 0).dim(place - it.dimensions().begin()) == 1;
      if (spreads && it.shape.dim(d) != 1) {
        adds = true;
        result[static_cast<size_t>(d)] = std::ranges::count(*along_, d) != 0 ? d : -1;
      } else if (!is_new) {
        result[static_cast<size_t>(d)] = places[static_cast<size_t>(place - it.dimensions().begin())];
      }
    }
    if (!adds) return result;
    Places own(result.size());
    for (size_t d = 0; d < own.size(); ++d) own[d] = static_cast<int64_t>(d);
    if (it.shape.dims != reduced_->dims || !are_equal(it.shape, result, own)) return std::nullopt;
    return result;
  }

  const Computation& computation_;
  const Group& group_;
  std::unordered_map<InstructionId, Places> places_;  ///< of what is computed of reductions
  const hlo::Shape* reduced_ = nullptr;
  const std::vector<int64_t>* along_ = nullptr;
};

}  // namespace

bool keeps_rows(const Computation& computation, const Group& group) {
  return RowReader(computation, group).keeps_rows();
}

}  // namespace strata::emitters
