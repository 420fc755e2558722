// What the host tells the kernels that exchange keys, values and logits with a caller's memory, in device memory; it
// writes it before each launch of theirs. Both sides have this text: the host compiles it, and it stands in an image's
// source.
#pragma once

namespace strata_device {

/// A layer's cache, and the caller's keys and values of it: 16-bit elements [heads, positions, columns], where heads
/// are counted through all sequences.
struct CallerLayer {
  unsigned char* tiles = nullptr;
  unsigned short* keys = nullptr;
  unsigned short* values = nullptr;
};

struct CallerRows {
  long long positions = 0;           ///< of the caller's keys and values
  long long first = 0, count = 0;    ///< those to be copied
  int into_tiles = 0;                ///< 1: from the caller to the cache; 0: from the cache to the caller
  int vocabulary = 0;                ///< logits of a sequence
  unsigned short* logits = nullptr;  ///< the caller's, [sequences, vocabulary]
};

}  // namespace strata_device
