#include "emitters/fusion/kernel_tiles.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "emitters/kinds/permutation.h"
#include "hlo/hlo.h"
#include "indexing/inverse.h"
#include "indexing/tile.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using hlo::Opcode;
using indexing::IndexingMap;
using indexing::Tile;

/// Elements that a warp takes together: vectors of 16 bytes.
int64_t elements_of_warp(int64_t element_bytes) {
  constexpr int64_t kLanes = 32, kVectorBytes = 16;
  return kLanes * std::max<int64_t>(kVectorBytes / element_bytes, 1);
}

Tile tile_of_warp(const ArrayInMemory& array) {
  return indexing::tile_along_memory(array.dims, array.minor_to_major, elements_of_warp(array.element_bytes));
}

/// How many times the units that an element of all of it takes, one of such a tile does.
double times_the_units(const ArrayInMemory& array, const Tile& all, const Tile& tile, int64_t unit_bytes) {
  const auto each = [&](const Tile& of) {
    const double elements = indexing::elements_of(of);
    return elements > 0 ? indexing::moved_bytes(of, array.strides, array.element_bytes, unit_bytes) / elements : 0;
  };
  const double least = each(all);
  return least > 0 ? each(tile) / least : 1;
}

/// 1, or more where a tile lies so that lines of memory have few of its elements.
double times_the_sectors(const ArrayInMemory& array, const Tile& all, const Tile& tile) {
  constexpr int64_t kLine = 128, kSector = 32;
  if (times_the_units(array, all, tile, kLine) < kLeastLineRatio) return 1;
  return std::max(times_the_units(array, all, tile, kSector), 1.0);
}

/// What a kernel takes of an array by one path.
struct TileUse {
  Tile all;                    ///< for the whole result
  std::optional<Tile> warp{};  ///< for what a warp takes; none of what blocks take by tiles of their own
  bool at_places = false;      ///< where elements lie in memory as those of the results do
  bool operator==(const TileUse&) const = default;
};

/// Of each instruction the uses by all paths from the results to it.
class TileUses {
 public:
  explicit TileUses(const PricedKernel& kernel) : kernel_(kernel), uses_(kernel.instructions.size()) {
    for (const InstructionId root : kernel_.graph.roots) {
      const PricedInstruction& it = *kernel_.instructions[static_cast<size_t>(root)];
      largest_ = std::max(largest_, it.counted.elements);
      smallest_ = std::min(smallest_, it.counted.elements);
      add(static_cast<size_t>(root), {indexing::whole_tile(it.array.dims), tile_of_warp(it.array), true});
    }
    for (size_t i = uses_.size(); i-- > 0;) pass_on(i);
  }

  const std::vector<TileUse>& of(size_t place) const { return uses_[place]; }
  double largest_result() const { return largest_; }

 private:
  void pass_on(size_t i) {
    const PricedInstruction& it = *kernel_.instructions[i];
    if (uses_[i].empty() || it.counted.opcode == Opcode::Parameter) return;
    const std::span<const InstructionId> operands = kernel_.graph.operands_of(static_cast<InstructionId>(i));
    if (it.maps == nullptr) {
      for (const InstructionId operand : operands) add_all(static_cast<size_t>(operand));
      return;
    }
    const bool tiled = is_tiled(i);
    const bool keeps_places = hlo::is_elementwise(it.counted.opcode) || it.counted.opcode == Opcode::Reshape;
    for (const indexing::Read& read : *it.maps) {
      const auto to = static_cast<size_t>(operands[static_cast<size_t>(read.operand)]);
      if (read.unknown) add_all(to);
      for (const IndexingMap& map : read.maps) {
        for (const TileUse& use : uses_[i]) {
          std::optional<Tile> all = indexing::image_of(use.all, map);
          if (!all) {
            add_all(to);
            continue;
          }
          TileUse passed{*std::move(all)};
          passed.at_places = use.at_places && keeps_places;
          if (use.warp && !(use.at_places && tiled)) passed.warp = indexing::image_of(*use.warp, map);
          add(to, std::move(passed));
        }
      }
    }
  }

  /// Whether blocks stage it by tiles for those that read it at the results' places: transposes that permute alike, of
  /// which all results have the elements.
  bool is_tiled(size_t i) {
    const PricedInstruction& it = *kernel_.instructions[i];
    if (it.permutation == 0 || std::ranges::none_of(uses_[i], &TileUse::at_places)) return false;
    if (smallest_ != largest_ || it.counted.elements != largest_) return false;
    if (permutation_ == 0) permutation_ = it.permutation;
    return permutation_ == it.permutation;
  }

  void add_all(size_t i) { add(i, {indexing::whole_tile(kernel_.instructions[i]->array.dims)}); }

  void add(size_t i, TileUse use) {
    constexpr size_t kMost = 64;  // of more, as of the steps of an unrolled loop, it is all of the array
    std::vector<TileUse>& uses = uses_[i];
    if (std::ranges::find(uses, use) != uses.end()) return;
    uses.push_back(std::move(use));
    if (uses.size() > kMost) uses = {{indexing::whole_tile(kernel_.instructions[i]->array.dims)}};
  }

  const PricedKernel& kernel_;
  std::vector<std::vector<TileUse>> uses_;
  size_t permutation_ = 0;  ///< of what is tiled
  double largest_ = 0, smallest_ = std::numeric_limits<double>::infinity();
};

/// The tile of an instruction whose elements are computed of those of a tile of an operand, of these extents.
std::optional<Tile> tile_of_reader(const Tile& tile, const IndexingMap& map, const std::vector<int64_t>& extents) {
  Tile reader(map.dims.size());
  for (size_t d = 0; d < map.results.size(); ++d) {
    const indexing::Expr& index = map.results[d];
    if (index.kind() == indexing::ExprKind::Dimension) {
      reader[static_cast<size_t>(index.number())] = tile[d];
    } else if (tile[d].count() != 1) {
      return indexing::image_of(tile, indexing::inverse(map, indexing::positions(extents)));
    }
  }
  return reader;
}

/// What a warp takes of large arrays, where it takes a tile of one of them.
class WarpTiles {
 public:
  /// `large`: elements.
  WarpTiles(const PricedKernel& kernel, double large) : kernel_(kernel), large_(large) {
    readers_.resize(kernel.instructions.size());
    for (size_t i = 0; i < kernel.instructions.size(); ++i) {
      const PricedInstruction& it = *kernel.instructions[i];
      if (it.maps == nullptr) continue;
      const std::span<const InstructionId> operands = kernel.graph.operands_of(static_cast<InstructionId>(i));
      for (const indexing::Read& read : *it.maps) {
        for (const IndexingMap& map : read.maps)
          readers_[static_cast<size_t>(operands[static_cast<size_t>(read.operand)])].push_back({i, &map});
      }
    }
  }

  /// From the tile of a warp that follows the memory of an instruction's array. Of what is reached by several paths the
  /// tile by the shortest one.
  void follow(size_t from) {
    tiles_.assign(kernel_.instructions.size(), std::nullopt);
    std::vector<size_t> next;
    const auto reach = [&](size_t i, std::optional<Tile> tile) {
      if (!tile || tiles_[i]) return;
      tiles_[i] = std::move(tile);
      next.push_back(i);
    };
    reach(from, tile_of_warp(kernel_.instructions[from]->array));
    for (size_t n = 0; n < next.size(); ++n) {
      const size_t i = next[n];
      const PricedInstruction& it = *kernel_.instructions[i];
      const std::span<const InstructionId> operands = kernel_.graph.operands_of(static_cast<InstructionId>(i));
      for (size_t r = 0; it.maps != nullptr && r < it.maps->size(); ++r) {
        const indexing::Read& read = (*it.maps)[r];
        const auto to = static_cast<size_t>(operands[static_cast<size_t>(read.operand)]);
        if (!is_large(to) || tiles_[to]) continue;
        for (const IndexingMap& map : read.maps) reach(to, indexing::image_of(*tiles_[i], map));
      }
      for (const Reader& reader : readers_[i]) {
        if (!is_large(reader.place) || tiles_[reader.place]) continue;
        reach(reader.place, tile_of_reader(*tiles_[i], *reader.map, it.array.dims));
      }
    }
  }

  /// How many times the sectors that all of an array takes a warp's tiles take; 1 of what is not reached.
  double sectors(size_t i) const {
    const ArrayInMemory& array = kernel_.instructions[i]->array;
    return tiles_[i] ? times_the_sectors(array, indexing::whole_tile(array.dims), *tiles_[i]) : 1;
  }

 private:
  struct Reader {
    size_t place = 0;
    const IndexingMap* map = nullptr;
  };
  bool is_large(size_t i) const { return kernel_.instructions[i]->counted.elements >= large_; }

  const PricedKernel& kernel_;
  double large_ = 0;
  std::vector<std::vector<Reader>> readers_;
  std::vector<std::optional<Tile>> tiles_;
};

bool any_of(const PricedKernel& kernel, bool TileTraits::*trait) {
  return std::ranges::any_of(kernel.instructions, [&](const PricedInstruction* it) { return it->tiles.*trait; });
}

double bytes_of(const ArrayInMemory& array, const Tile& tile) {
  return indexing::moved_bytes(tile, array.strides, array.element_bytes, static_cast<int64_t>(kSectorBytes));
}

}  // namespace

ArrayInMemory array_in_memory(const hlo::Shape& shape) {
  if (!shape.is_array()) return {};
  return {shape.dims, shape.minor_to_major, hlo::memory_strides(shape),
          std::max<int64_t>(hlo::byte_width(shape.type), 1)};
}

TileTraits tile_traits(const hlo::Computation& computation, InstructionId id,
                       const std::vector<indexing::Read>& reads) {
  const hlo::Instruction& it = computation[id];
  const ArrayInMemory result = array_in_memory(it.shape);
  const Tile all = indexing::whole_tile(result.dims), warp = tile_of_warp(result);
  TileTraits traits;
  for (const indexing::Read& read : reads) {
    const ArrayInMemory operand = array_in_memory(computation.operand_shape(it, static_cast<size_t>(read.operand)));
    const Tile whole = indexing::whole_tile(operand.dims);
    for (const IndexingMap& map : read.maps) {
      const std::optional<Tile> of_all = indexing::image_of(all, map), of_warp = indexing::image_of(warp, map);
      if (!of_all || !of_warp) continue;
      if (indexing::elements_of(*of_all) < indexing::elements_of(whole)) traits.takes_part = true;
      if (times_the_sectors(operand, *of_all, *of_warp) > 1) traits.turns = true;
    }
  }
  return traits;
}

std::vector<double> bytes_of_parts(const PricedKernel& kernel) {
  const size_t count = kernel.instructions.size();
  std::vector<double> bytes(count, 0);
  std::optional<TileUses> uses;
  if (any_of(kernel, &TileTraits::takes_part)) uses.emplace(kernel);
  for (size_t i = 0; i < count; ++i) {
    const PricedInstruction& it = *kernel.instructions[i];
    if (it.counted.opcode != Opcode::Parameter) continue;
    bytes[i] = it.bytes;
    if (!uses) continue;
    double parts = 0;
    for (const TileUse& use : uses->of(i)) parts += bytes_of(it.array, use.all);
    bytes[i] = std::min(bytes[i], parts);
  }
  return bytes;
}

double bytes_across_results(const PricedKernel& kernel) {
  if (!any_of(kernel, &TileTraits::turns)) return 0;
  const TileUses uses(kernel);
  double bytes = 0;
  for (size_t i = 0; i < kernel.instructions.size(); ++i) {
    const PricedInstruction& it = *kernel.instructions[i];
    if (it.counted.opcode != Opcode::Parameter || it.counted.elements < uses.largest_result() / 2) continue;
    for (const TileUse& use : uses.of(i)) {
      if (use.warp) bytes += bytes_of(it.array, use.all) * (times_the_sectors(it.array, use.all, *use.warp) - 1);
    }
  }
  return bytes;
}

double bytes_across(const PricedKernel& kernel, const ComputedOnce& together) {
  if (!any_of(kernel, &TileTraits::turns)) return 0;
  const auto elements = [&](InstructionId id) {
    return kernel.instructions[static_cast<size_t>(id)]->counted.elements;
  };
  InstructionId reduced = -1;
  for (const InstructionId id : together.instructions) {
    if (kernel.instructions[static_cast<size_t>(id)]->counted.opcode != Opcode::Reduce) continue;
    for (const InstructionId operand : kernel.graph.operands_of(id)) {
      if (reduced < 0 || elements(operand) > elements(reduced)) reduced = operand;
    }
  }
  if (reduced < 0) return 0;
  std::vector<size_t> moved;  // from memory or to it
  for (size_t i = 0; i < kernel.instructions.size(); ++i) {
    if (kernel.instructions[i]->counted.opcode == Opcode::Parameter) moved.push_back(i);
  }
  for (const InstructionId root : kernel.graph.roots) moved.push_back(static_cast<size_t>(root));

  WarpTiles tiles(kernel, elements(reduced) / 2);
  std::optional<size_t> across;
  const auto bytes_along = [&](size_t followed) {
    tiles.follow(followed);
    double bytes = 0;
    for (const size_t i : moved) {
      const double more = tiles.sectors(i) - 1;
      bytes += more * kernel.instructions[i]->bytes;
      if (more > 0 && !across) across = i;
    }
    return bytes;
  };
  const double along = bytes_along(static_cast<size_t>(reduced));
  return across ? std::min(along, bytes_along(*across)) : along;
}

}  // namespace strata::emitters
