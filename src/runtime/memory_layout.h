// Where the buffers of a program lie: those that live at different steps share bytes (support/memory_plan.h).
#pragma once

#include "runtime/launch_manifest.h"

namespace strata {

/// Offsets are multiples of it, as an allocation's address is.
constexpr int64_t kBufferAlignment = 256;

struct MemoryLayout {
  int64_t input_bytes = 0;
  int64_t constant_bytes = 0;  ///< what all constants share
  int64_t working_bytes = 0;   ///< what all others with an offset share
  int64_t separate_bytes = 0;  ///< what these would take without sharing
};

/// Gives each constant its offset, and each intermediate (where `outputs`, each output too) that lies in no other
/// buffer. A buffer lives from the first step that names it to the last; what is handed out, to the end.
void place_buffers(LaunchManifest& manifest, bool outputs);

/// What the offsets come to.
MemoryLayout layout_of(const LaunchManifest& manifest);

/// "4096 bytes of working memory, 8192 in buffers of their own".
std::string describe(const MemoryLayout& layout);

/// For each buffer, the one in whose memory it lies after all (lies_in of lies_in …), as numbers. Error (InvalidInput)
/// where it lies in none that there is, in a smaller one, or in itself.
Result<std::vector<size_t>> memory_roots(const LaunchManifest& manifest);

}  // namespace strata
