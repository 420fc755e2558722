#include "emitters/fusion/kernel_tiles.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "emitters/kinds/permutation.h"
#include "hlo/hlo.h"
#include "indexing/inverse.h"
#include "indexing/tile.h"
#include "support/hash.h"

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

constexpr auto kSector = static_cast<int64_t>(kSectorBytes);

double bytes_of(const ArrayInMemory& array, const Tile& tile) {
  return indexing::moved_bytes(tile, array.strides, array.element_bytes, kSector);
}

/// Sectors that a warp's tile touches over those that its elements fill, divided by the same ratio of all that is read:
/// 1, or more where the tile lies so that lines of memory have few of its elements.
double times_the_sectors(const ArrayInMemory& array, const Tile& all, const Tile& warp) {
  constexpr int64_t kLine = 128;
  const double elements = indexing::elements_of(all);
  if (elements == 0) return 1;
  const double of_all = std::max(bytes_of(array, all) / (elements * static_cast<double>(array.element_bytes)), 1.0);
  const auto ratio = [&](int64_t unit_bytes) {
    return indexing::times_apart(warp, array.strides, array.element_bytes, unit_bytes) / of_all;
  };
  return ratio(kLine) < kLeastLineRatio ? 1 : std::max(ratio(kSector), 1.0);
}

/// What a kernel takes of an array by one path, in numbers of tiles.
struct TileUse {
  int all = 0;             ///< for the whole result
  int warp = -1;           ///< for what a warp takes; -1 of what blocks take by tiles of their own
  uint64_t place = 0;      ///< where runtime values place the tile: others have another number
  bool at_places = false;  ///< where elements lie in memory as those of the results do
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
      add(static_cast<size_t>(root),
          {number_of(indexing::whole_tile(it.array.dims)), number_of(tile_of_warp(it.array)), 0, true});
    }
    for (size_t i = uses_.size(); i-- > 0;) pass_on(i);
  }

  /// What is used of an instruction's array, overlapping parts once.
  std::vector<Tile> parts_of(size_t place) const {
    std::vector<std::pair<int, uint64_t>> distinct;
    std::vector<Tile> parts;
    for (const TileUse& use : uses_[place]) {
      const std::pair one(use.all, use.place);
      if (std::ranges::find(distinct, one) != distinct.end()) continue;
      distinct.push_back(one);
      Tile part = tiles_[static_cast<size_t>(use.all)];
      for (size_t i = 0; i < parts.size();) {
        const std::optional<Tile> both = indexing::union_of(parts[i], part);
        if (!both) {
          ++i;
          continue;
        }
        part = *both;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        i = 0;
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }

  /// What memory moves beyond the parts of a parameter, where warps read it across.
  double bytes_across(size_t place) const {
    const PricedInstruction& it = *kernel_.instructions[place];
    if (it.counted.elements < largest_ / 2) return 0;
    std::map<std::pair<int, uint64_t>, double> more;  // of each part by the worst path
    for (const TileUse& use : uses_[place]) {
      if (use.warp < 0) continue;
      const Tile& all = tiles_[static_cast<size_t>(use.all)];
      const double sectors = times_the_sectors(it.array, all, tiles_[static_cast<size_t>(use.warp)]);
      double& bytes = more[{use.all, use.place}];
      bytes = std::max(bytes, bytes_of(it.array, all) * (sectors - 1));
    }
    double sum = 0;
    for (const auto& [part, bytes] : more) sum += bytes;
    return sum;
  }

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
    // Warps beside each other read the same terms of a product, whose sectors caches keep for them.
    const bool shares = it.counted.opcode == Opcode::Dot || it.counted.opcode == Opcode::Convolution;
    uint64_t number = 0;
    for (const indexing::Read& read : *it.maps) {
      const auto to = static_cast<size_t>(operands[static_cast<size_t>(read.operand)]);
      if (read.unknown) add_all(to);
      for (const IndexingMap& map : read.maps) {
        ++number;
        for (const TileUse& use : uses_[i]) {
          TileUse passed = use;
          passed.all = image(use.all, map);
          if (passed.all < 0) {
            add_all(to);
            continue;
          }
          passed.at_places = use.at_places && keeps_places;
          if (!map.runtime.empty()) passed.place = Hasher().add(use.place).add(i).add(number).value() | 1U;
          if (shares || (use.at_places && tiled)) passed.warp = -1;
          if (passed.warp >= 0) passed.warp = image(passed.warp, map);
          add(to, passed);
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

  int number_of(const Tile& tile) {
    const auto [known, is_new] = numbers_.try_emplace(tile, static_cast<int>(tiles_.size()));
    if (is_new) tiles_.push_back(tile);
    return known->second;
  }

  /// -1 where it is not known.
  int image(int tile, const IndexingMap& map) {
    const auto [known, is_new] = images_.try_emplace({&map, tile}, -1);
    if (is_new) {
      if (const auto found = indexing::image_of(tiles_[static_cast<size_t>(tile)], map))
        known->second = number_of(*found);
    }
    return known->second;
  }

  void add_all(size_t i) { add(i, {number_of(indexing::whole_tile(kernel_.instructions[i]->array.dims))}); }

  void add(size_t i, TileUse use) {
    constexpr size_t kMost = 64;  // of more, as of the steps of an unrolled loop, it is all of the array
    std::vector<TileUse>& uses = uses_[i];
    if (std::ranges::find(uses, use) != uses.end()) return;
    uses.push_back(use);
    if (uses.size() <= kMost) return;
    TileUse whole{number_of(indexing::whole_tile(kernel_.instructions[i]->array.dims))};
    for (const TileUse& one : uses) whole.warp = std::max(whole.warp, one.warp);
    uses = {whole};
  }

  const PricedKernel& kernel_;
  std::vector<std::vector<TileUse>> uses_;
  std::vector<Tile> tiles_;  ///< by number
  std::map<Tile, int> numbers_;
  std::map<std::pair<const IndexingMap*, int>, int> images_;
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
  /// Of arrays of that many elements. Those that are reduced have the same tile where they have the same dimensions:
  /// threads go through all of them together.
  WarpTiles(const PricedKernel& kernel, double large, const std::vector<size_t>& reduced)
      : kernel_(kernel), large_(large), reduced_(reduced) {
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
    const auto reach_one = [&](size_t i, const Tile& tile) {
      if (tiles_[i]) return;
      tiles_[i] = tile;
      next.push_back(i);
    };
    const auto reach = [&](size_t i, const std::optional<Tile>& tile) {
      if (!tile || tiles_[i]) return;
      reach_one(i, *tile);
      if (std::ranges::find(reduced_, i) == reduced_.end()) return;
      for (const size_t other : reduced_) {
        if (kernel_.instructions[other]->array.dims == kernel_.instructions[i]->array.dims) reach_one(other, *tile);
      }
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
  const std::vector<size_t>& reduced_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<std::optional<Tile>> tiles_;
};

bool any_of(const PricedKernel& kernel, bool TileTraits::*trait) {
  return std::ranges::any_of(kernel.instructions, [&](const PricedInstruction* it) { return it->tiles.*trait; });
}

/// The arrays that a kernel reduces, the largest one first.
std::vector<size_t> reduced_arrays(const PricedKernel& kernel, const ComputedOnce& together) {
  std::vector<size_t> reduced;
  for (const InstructionId id : together.instructions) {
    if (kernel.instructions[static_cast<size_t>(id)]->counted.opcode != Opcode::Reduce) continue;
    for (const InstructionId operand : kernel.graph.operands_of(id)) reduced.push_back(static_cast<size_t>(operand));
  }
  std::ranges::stable_sort(reduced, std::greater<>(),
                           [&](size_t i) { return kernel.instructions[i]->counted.elements; });
  return reduced;
}

/// Threads of a reduction follow the array that it reduces, or one that lies across it, whichever moves less. `moved`:
/// bytes of what is read and written, by place.
double bytes_across_reduction(const PricedKernel& kernel, const std::vector<size_t>& reduced,
                              const std::vector<double>& moved) {
  if (reduced.empty()) return 0;
  WarpTiles tiles(kernel, kernel.instructions[reduced[0]]->counted.elements / 2, reduced);
  std::optional<size_t> across;
  const auto bytes_along = [&](size_t followed) {
    tiles.follow(followed);
    double bytes = 0, most = 0;
    for (size_t i = 0; i < moved.size(); ++i) {
      const double more = moved[i] > 0 ? (tiles.sectors(i) - 1) * moved[i] : 0;
      if (more > most) across = i;
      most = std::max(most, more);
      bytes += more;
    }
    return bytes;
  };
  const double along = bytes_along(reduced[0]);
  return across ? std::min(along, bytes_along(*across)) : along;
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

TileBytes tile_bytes(const PricedKernel& kernel, const ComputedOnce& together) {
  const size_t count = kernel.instructions.size();
  const bool takes_part = any_of(kernel, &TileTraits::takes_part), turns = any_of(kernel, &TileTraits::turns);
  const bool is_loop = together.instructions.empty();
  std::optional<TileUses> uses;
  if (takes_part || (turns && is_loop)) uses.emplace(kernel);
  TileBytes bytes;
  bytes.parts.assign(count, 0);
  for (size_t i = 0; i < count; ++i) {
    const PricedInstruction& it = *kernel.instructions[i];
    if (it.counted.opcode != Opcode::Parameter) continue;
    bytes.parts[i] = it.bytes;
    if (turns && is_loop) bytes.across += uses->bytes_across(i);
    if (!takes_part || it.array.dims.empty()) continue;
    double parts = 0;
    for (const Tile& part : uses->parts_of(i)) parts += bytes_of(it.array, part);
    bytes.parts[i] = std::min(bytes.parts[i], parts);
  }
  if (!turns || is_loop) return bytes;
  std::vector<double> moved = bytes.parts;
  for (const InstructionId root : kernel.graph.roots)
    moved[static_cast<size_t>(root)] += kernel.instructions[static_cast<size_t>(root)]->bytes;
  bytes.across = bytes_across_reduction(kernel, reduced_arrays(kernel, together), moved);
  return bytes;
}

}  // namespace strata::emitters
