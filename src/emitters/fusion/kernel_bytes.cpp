#include "emitters/fusion/kernel_bytes.h"

#include <algorithm>
#include <array>
#include <limits>

#include "hlo/hlo.h"

namespace strata::emitters {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

double bytes_across(const PricedKernel& kernel, const ComputedOnce& together) {
  const size_t count = kernel.instructions.size();
  const auto any_turn = [](const PricedInstruction* it) { return it->turns; };
  if (std::none_of(kernel.instructions.begin(), kernel.instructions.end(), any_turn)) return 0;
  const auto elements = [&](size_t i) { return kernel.instructions[i]->counted.elements; };
  InstructionId reduced = -1;
  for (const InstructionId id : together.instructions) {
    if (kernel.instructions[static_cast<size_t>(id)]->counted.opcode != Opcode::Reduce) continue;
    for (const InstructionId operand : kernel.graph.operands_of(id)) {
      if (reduced < 0 || elements(static_cast<size_t>(operand)) > elements(static_cast<size_t>(reduced)))
        reduced = operand;
    }
  }
  if (reduced < 0) return 0;
  const double large = elements(static_cast<size_t>(reduced)) / 2;
  std::vector<std::vector<InstructionId>> users(count);
  for (size_t i = 0; i < count; ++i) {
    for (const InstructionId operand : kernel.graph.operands_of(static_cast<InstructionId>(i)))
      users[static_cast<size_t>(operand)].push_back(static_cast<InstructionId>(i));
  }
  // 0 along the reduced array, 1 across it, -1 not known yet: passed on between operands and users, both ways.
  std::vector<int> across(count, -1);
  std::vector<size_t> next;
  const auto reach = [&](InstructionId id, int value) {
    const auto i = static_cast<size_t>(id);
    if (across[i] >= 0 || elements(i) < large) return;
    across[i] = value;
    next.push_back(i);
  };
  reach(reduced, 0);
  while (!next.empty()) {
    const size_t i = next.back();
    next.pop_back();
    const auto turned = [&](size_t at) { return across[i] ^ (kernel.instructions[at]->turns ? 1 : 0); };
    for (const InstructionId operand : kernel.graph.operands_of(static_cast<InstructionId>(i)))
      reach(operand, turned(i));
    for (const InstructionId user : users[i]) reach(user, turned(static_cast<size_t>(user)));
  }
  std::array<double, 2> bytes{};
  const auto move = [&](size_t i) {
    if (across[i] < 0) return;
    bytes[static_cast<size_t>(across[i])] += std::max(elements(i) * kSectorBytes - kernel.instructions[i]->bytes, 0.0);
  };
  for (size_t i = 0; i < count; ++i) {
    if (kernel.instructions[i]->counted.opcode == Opcode::Parameter) move(i);
  }
  for (const InstructionId root : kernel.graph.roots) move(static_cast<size_t>(root));
  return std::min(bytes[0], bytes[1]);
}

double bytes_across_results(const PricedKernel& kernel, const indexing::Evaluations& read) {
  const auto has_one = [](const PricedInstruction* it) { return it->permutation != 0; };
  if (std::ranges::none_of(kernel.instructions, has_one)) return 0;
  enum Read : unsigned { AtPlaces = 1, Along = 2, Across = 4, IntoTile = 8 };
  const size_t count = kernel.instructions.size();
  std::vector<unsigned> reads(count, 0);
  std::vector<double> sectors(count, 1);
  double largest = 0, smallest = std::numeric_limits<double>::infinity();
  for (const InstructionId root : kernel.graph.roots) {
    reads[static_cast<size_t>(root)] = AtPlaces;
    largest = std::max(largest, kernel.instructions[static_cast<size_t>(root)]->counted.elements);
    smallest = std::min(smallest, kernel.instructions[static_cast<size_t>(root)]->counted.elements);
  }
  size_t of_tiles = 0;
  double bytes = 0;
  for (size_t i = count; i-- > 0;) {
    const PricedInstruction& it = *kernel.instructions[i];
    if (it.counted.opcode == Opcode::Parameter && (reads[i] & Across) != 0 && it.counted.elements >= largest / 2) {
      const double share = reads[i] == Across ? 1 : 0.5;
      bytes += share * read[i] * it.element_bytes * (sectors[i] - 1);
    }
    const auto is = [&](unsigned how) { return (reads[i] & how) != 0; };
    unsigned passed = reads[i];
    double times = sectors[i];
    if (it.permutation != 0) {
      const bool fits = smallest == largest && it.counted.elements == largest;
      const bool has_tile = is(AtPlaces) && fits && (of_tiles == 0 || of_tiles == it.permutation);
      if (has_tile) of_tiles = it.permutation;
      const bool turns = is(Along) || (is(AtPlaces) && !has_tile);
      // A block reads all of its tile, and so whole sectors, whatever is before it.
      passed = (turns ? Across : 0U) | (is(Across) ? Along : 0U) | (is(IntoTile) || has_tile ? IntoTile : 0U);
      times = it.sectors;
    } else if (!hlo::is_elementwise(it.counted.opcode) && it.counted.opcode != Opcode::Reshape) {
      passed = (reads[i] & (Across | IntoTile)) | (is(AtPlaces | Along) ? Along : 0U);
    }
    for (const InstructionId operand : kernel.graph.operands_of(static_cast<InstructionId>(i))) {
      const auto to = static_cast<size_t>(operand);
      reads[to] |= passed;
      if ((passed & Across) != 0) sectors[to] = std::max(sectors[to], times);
    }
  }
  return bytes;
}

double bytes_of_part(const hlo::Computation& from, const Instruction& it) {
  const hlo::Shape& table = from.operand_shape(it, 0);
  std::vector<int64_t> sizes = it.shape.dims;
  if (it.opcode == Opcode::Gather) {
    sizes = it.as<hlo::GatherAttributes>().slice_sizes;
  } else if (it.opcode == Opcode::Slice) {
    const std::vector<int64_t>& strides = it.as<hlo::SliceAttributes>().strides;
    for (size_t d = 0; d < sizes.size(); ++d) sizes[d] = strides[d] == 1 ? sizes[d] : 1;
    const auto step = table.minor_to_major.empty() ? 0 : static_cast<size_t>(table.minor_to_major.front());
    if (!sizes.empty() && strides[step] > 1)
      return std::min(kSectorBytes, static_cast<double>(strides[step] * hlo::byte_width(table.type)));
  }
  double row = 1;  // of elements that lie together
  for (const int64_t d : table.minor_to_major) {
    row *= static_cast<double>(sizes[static_cast<size_t>(d)]);
    if (sizes[static_cast<size_t>(d)] < table.dim(d)) break;
  }
  const double bytes = hlo::byte_width(table.type);
  return row > 0 ? (row * bytes + kSectorBytes - bytes) / row : kSectorBytes;
}

double bytes_of_read(const PricedKernel& kernel, InstructionId parameter) {
  double bytes = 0;
  for (size_t i = 0; i < kernel.instructions.size(); ++i) {
    const std::span<const InstructionId> operands = kernel.graph.operands_of(static_cast<InstructionId>(i));
    for (size_t k = 0; k < operands.size(); ++k) {
      if (operands[k] != parameter) continue;
      const double part = k == 0 ? kernel.instructions[i]->part_bytes : 0;
      bytes = std::max(bytes, part > 0 ? part : kSectorBytes);
    }
  }
  return bytes > 0 ? bytes : kSectorBytes;
}

}  // namespace strata::emitters
