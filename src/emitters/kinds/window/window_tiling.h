// How threads share a convolution that multiplies few channels: tiles of results and of the window in registers.
#pragma once

#include <optional>
#include <vector>

#include "hlo/hlo.h"
#include "indexing/indexing_map.h"
#include "machine/target.h"

namespace strata::emitters {

/// A thread computes `outputs` results beside each other along one spatial dimension, its strip: a place. For `taps`
/// elements of the window along it at a time it loads what lies below once, and multiplies each element by all of the
/// taps that meet it. These, with the other dimensions of the window and the channels, are the terms of a place.
/// Several threads of a block may share them and add up their sums; so may blocks, whose sums another kernel adds up.
struct WindowTiling {
  size_t dimension = 0;  ///< number of the spatial dimension of strips
  int64_t outputs = 1, taps = 1;
  int64_t strips = 1;           ///< along the dimension
  int64_t chunks = 1;           ///< of taps
  int64_t places = 1;           ///< strips of all results
  int64_t terms = 1;            ///< of a place: chunks, elements of other dimensions, channels
  bool lanes_on_terms = false;  ///< lanes of a warp share the terms of a place; else they have places beside each other
  int64_t threads_of_place = 1;
  int64_t places_of_block = 1;
  int64_t parts = 1;        ///< blocks that share the terms of a place
  double microseconds = 0;  ///< by the model

  int64_t threads() const { return threads_of_place * places_of_block; }
  int64_t blocks_of_part() const { return (places + places_of_block - 1) / places_of_block; }
  int64_t blocks() const { return blocks_of_part() * parts; }
  int64_t iterations() const { return (terms + threads_of_place * parts - 1) / (threads_of_place * parts); }
  /// Sums of a place's threads that meet in shared memory: of each, or of each warp of them.
  int64_t sums_of_place() const { return lanes_on_terms ? threads_of_place / 32 : threads_of_place; }
  bool is_shared() const { return threads_of_place > 1; }
  int64_t shared_bytes(int64_t bytes_of_sum) const {
    return is_shared() ? (sums_of_place() * outputs * places_of_block * bytes_of_sum + 15) / 16 * 16 : 0;
  }
};

/// An element below a strip, `offset` from where the first tap of a window without padding lies at the strip's first
/// output, and the pairs of output and tap that meet there.
struct ElementBelow {
  int64_t offset = 0;
  std::vector<std::pair<int64_t, int64_t>> products;
  bool may_be_before = false, may_be_after = false;  ///< of some strip and chunk it lies beyond the image's ends
};
/// Those of a strip and a chunk, in order, but for those that lie beyond the image of all strips.
std::vector<ElementBelow> elements_below(const hlo::WindowDimension& window, int64_t image, const WindowTiling& tiling);

/// The fastest tiling by the model; an error (Unsupported) where results beside each other share nothing, or where the
/// types are no real floats.
Result<WindowTiling> choose_window_tiling(const hlo::Computation& computation, const hlo::Instruction& it,
                                          const Target& target);

/// A shape of strips: of a convolution's result, in its layout.
hlo::Shape shape_of_places(const hlo::Instruction& it, const WindowTiling& tiling);
/// (channel, elements of the window's dimensions), of the strips' one the chunk; lanes follow its innermost dimension.
hlo::Shape shape_of_terms(const hlo::Computation& computation, const hlo::Instruction& it, const WindowTiling& tiling);

}  // namespace strata::emitters
