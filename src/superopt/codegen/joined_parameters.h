// The parameters of a kernel that calls the functions of several launches. Folder-internal.
#pragma once

#include <string>
#include <vector>

#include "superopt/codegen/generate.h"

namespace strata {

/// Each buffer once, and all tensor maps, for some launches of generated functions.
struct JoinedParameters {
  std::vector<std::string> arguments;  ///< buffers
  std::vector<std::string> types;      ///< pointers; to what nobody writes, const ones
  std::vector<std::string> names;
  std::vector<GpuTensorMap> tensor_maps;
  std::vector<std::vector<std::string>> tensors;  ///< by launch: names of its own
  std::vector<std::vector<size_t>> places;        ///< by launch: of its own among all
  std::vector<std::vector<std::string>> maps;     ///< by launch

  explicit JoinedParameters(const std::vector<const KernelLaunch*>& launches);
  /// One that no launch has.
  void add(const std::string& argument, const std::string& type, const std::string& name);
  /// What the blocks of launch n touch of these (KernelLaunch::block_accesses).
  std::vector<GpuAccess> accesses(size_t n, const KernelLaunch& launch) const;
  /// All of them, of a function that a kernel calls.
  std::string declaration() const;
  /// What the kernel calls it with.
  std::vector<std::string> values() const;
};

}  // namespace strata
