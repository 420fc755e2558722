// What groups of warps, in one block or in the blocks of a cluster, have added up each for itself, brought together.
// Comes after strata_tiles.h.

namespace strata_device {

/// accum_rescale: what has been added so far, and what is added now, are multiplied by before and now.
template <class Math, class Reference>
struct Rescaling {
  Reference largest = filled<Reference>(Taking::neutral());
  Reference reference = filled<Reference>(Taking::neutral());  ///< of what is added, where it follows the largest
  Reference before;
  Reference now;

  STRATA_DEVICE void advance(const Reference& maxima) {
#pragma unroll
    for (int i = 0; i < Reference::kRegisters; ++i) {
      const float next = maximum(largest.v[i], maxima.v[i]);
      before.v[i] = weight(largest.v[i], next);
      now.v[i] = weight(maxima.v[i], next);
      largest.v[i] = next;
    }
  }
  /// Where any reference will do: it stays until it is exceeded by so much that powers would grow large, which after a
  /// few iterations is never; then what has been added need not be multiplied.
  STRATA_DEVICE void follow(const Reference& maxima) {
    constexpr float kMuch = 5;  // exp(5) = 148: far from the largest f16
#pragma unroll
    for (int i = 0; i < Reference::kRegisters; ++i) {
      largest.v[i] = maximum(largest.v[i], maxima.v[i]);
      const bool far = largest.v[i] > reference.v[i] + kMuch;
      before.v[i] = far ? weight(reference.v[i], largest.v[i]) : 1.0f;
      reference.v[i] = far ? largest.v[i] : reference.v[i];
    }
  }
  /// After the loop: what has been added and is multiplied by before is relative to the largest.
  STRATA_DEVICE void settle() {
#pragma unroll
    for (int i = 0; i < Reference::kRegisters; ++i) before.v[i] = weight(reference.v[i], largest.v[i]);
  }
  /// Where all references come before anything relative to them: the largest first, then a weight for each.
  STRATA_DEVICE void take(const Reference& maxima) {
#pragma unroll
    for (int i = 0; i < Reference::kRegisters; ++i) largest.v[i] = maximum(largest.v[i], maxima.v[i]);
  }
  STRATA_DEVICE void weigh(const Reference& maxima) {
#pragma unroll
    for (int i = 0; i < Reference::kRegisters; ++i) now.v[i] = weight(maxima.v[i], largest.v[i]);
  }
  /// Whether any row of the warp has a new reference.
  STRATA_DEVICE bool moved() const {
    bool any = false;
#pragma unroll
    for (int i = 0; i < Reference::kRegisters; ++i) any |= before.v[i] != 1.0f;
    return any_lane(any);
  }
  /// exp(x − largest); 1 where they are equal, also where both are −∞.
  STRATA_DEVICE static float weight(float x, float largest) {
    const float weight = Math::exponential(x - largest);
    return x == largest ? 1.0f : weight;
  }
};

/// Registers that move between shared memory and a lane at once.
template <int kCount>
struct alignas(4 * kCount) Registers {
  float v[kCount];
};

/// Lanes whose registers differ: a tile of one row is the same in all rows of a block, and one of one column in all
/// columns.
template <class TileType>
constexpr int kDifferentLanes = TileType::kRows == 1      ? 4
                                : TileType::kColumns == 1 ? 8
                                                          : 32;

/// Where register i of a lane lies in what leave() wrote: four of a lane's registers side by side.
template <class TileType>
STRATA_DEVICE int left_at(int i) {
  constexpr int kLanes = kDifferentLanes<TileType>;
  return i / 4 * (4 * kLanes) + (kLanes == 8 ? lane() / 4 : lane() % kLanes) * 4 + i % 4;
}

/// Leaves a tile in shared memory for other warps.
template <class TileType>
STRATA_DEVICE void leave(float* to, const TileType& tile) {
  if (kDifferentLanes<TileType> == 4 && lane() >= 4) return;
  if (kDifferentLanes<TileType> == 8 && lane() % 4 != 0) return;
#pragma unroll
  for (int i = 0; i + 4 <= TileType::kRegisters; i += 4) {
    *reinterpret_cast<Registers<4>*>(to + left_at<TileType>(i)) = {tile.v[i], tile.v[i + 1], tile.v[i + 2],
                                                                   tile.v[i + 3]};
  }
#pragma unroll
  for (int i = TileType::kRegisters / 4 * 4; i < TileType::kRegisters; ++i) to[left_at<TileType>(i)] = tile.v[i];
}

/// Combines with a tile what another warp's leave() of the same tile wrote. Before this warp leaves its own there, its
/// lanes must meet.
template <class Combine, class TileType>
STRATA_DEVICE void take_left(TileType& tile, const float* left) {
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; i += TileType::kRegisters % 4 == 0 ? 4 : 1) {
    constexpr int kCount = TileType::kRegisters % 4 == 0 ? 4 : 1;
    const auto values = *reinterpret_cast<const Registers<kCount>*>(left + left_at<TileType>(i));
#pragma unroll
    for (int e = 0; e < kCount; ++e) tile.v[i + e] = Combine::combine(tile.v[i + e], values.v[e]);
  }
}

/// Where a part of a tile begins: in parts, along batches, rows and columns.
struct Place {
  int batch;
  int row;
  int column;
};

/// The register of Whole that is register i of Part at a place.
template <class Part, class Whole>
STRATA_DEVICE int register_of(int i, const Place& place) {
  return Whole::at(Part::batch_of(i) + place.batch * Part::kBatches,
                   Part::row_block_of(i) + place.row * Part::kRowBlocks,
                   Part::column_block_of(i) + place.column * Part::kColumnBlocks, i % Part::kPair);
}

/// Calls each(i, value) for every register of Part in what a group left of Whole, as many at once as lie side by side.
template <class Part, class Whole, class Each>
STRATA_DEVICE void each_left(const float* left, const Place& place, Each each) {
  constexpr bool kFour = Part::kPair == 2 && Part::kColumnBlocks % 2 == 0 && Whole::kColumnBlocks % 2 == 0;
  constexpr int kCount = kFour ? 4 : Part::kPair;
#pragma unroll
  for (int i = 0; i < Part::kRegisters; i += kCount) {
    const auto values =
        *reinterpret_cast<const Registers<kCount>*>(left + left_at<Whole>(register_of<Part, Whole>(i, place)));
#pragma unroll
    for (int e = 0; e < kCount; ++e) each(i + e, values.v[e]);
  }
}

/// What leave() wrote: by every group of a block, kStride floats from one to the next, in every block of a cluster.
template <int kBlocks, int kGroupsOfBlock, int kStride>
struct Lefts {
  static constexpr int kGroups = kBlocks * kGroupsOfBlock;
  const float* here;
  int first;  ///< rank in the cluster of the block with the first groups
  STRATA_DEVICE const float* of(int group) const {
    const float* block = kBlocks == 1 ? here : cluster_pointer(here, first + group / kGroupsOfBlock);
    return block + group % kGroupsOfBlock * kStride;
  }
};

/// This lane's share of a tile that all groups left: their sum or maximum.
template <class Combine, class Part, class Whole, class From>
STRATA_DEVICE Part gathered(const From& from, int first, Place place) {
  Part to = filled<Part>(Combine::neutral());
#pragma unroll
  for (int group = 0; group < From::kGroups; ++group) {
    each_left<Part, Whole>(from.of(group) + first, place,
                           [&](int i, float value) { to.v[i] = Combine::combine(to.v[i], value); });
  }
  return to;
}

/// The same for accum_rescale: each group's part counts relative to exp of its own largest reference.
template <class Math, class Part, class Whole, class PartReference, class WholeReference, class From>
STRATA_DEVICE Part gathered_rescaled(const From& from, int first, Place place, int first_reference,
                                     Place place_of_reference, const PartReference& largest) {
  Part to = filled<Part>(0.0f);
#pragma unroll
  for (int group = 0; group < From::kGroups; ++group) {
    const float* left = from.of(group);
    PartReference weights;
    each_left<PartReference, WholeReference>(left + first_reference, place_of_reference, [&](int i, float value) {
      weights.v[i] = Rescaling<Math, PartReference>::weight(value, largest.v[i]);
    });
    each_left<Part, Whole>(left + first, place, [&](int i, float value) {
      to.v[i] += value * weights.v[broadcast<PartReference, Part>(i)];
    });
  }
  return to;
}

}  // namespace strata_device
