// What launches touch, as their manifest says it (classes and accesses), against the order of steps and against memory.
#pragma once

#include "runtime/launch_manifest.h"

namespace strata {

/// A map to indices of `from` as one to indices of `to`, an array of as many elements in the same memory: to those at
/// the same places.
indexing::IndexingMap of_same_memory(indexing::IndexingMap map, const ArrayType& from, const ArrayType& to);

/// Gives each launch that has accesses, or has none because it touches nothing (`known`), the classes of its arguments,
/// by what all steps write. Expects offsets (place_buffers).
void classify_arguments(LaunchManifest& manifest, const std::function<bool(const GpuLaunch&)>& known);

/// Error (InvalidInput), naming the step, where what is said cannot be: a map that is none of the grid's blocks or none
/// of the buffer's indices, or leaves the buffer at its first or last block; a write to an argument of class constant,
/// or by any step to its memory; a step that reads a buffer which no step before has written, or whose memory another
/// buffer has taken since. Accesses of a launch are in order as steps are: it may itself have written, by one of them,
/// what a later one reads. Of launches without classes, and of the host's steps, nothing is known: they are taken to
/// write all that they may.
Result<void> check_accesses(const LaunchManifest& manifest);

}  // namespace strata
