// What the driver without libFuzzer needs to know of a fuzz target, which defines fuzz_target() beside
// LLVMFuzzerTestOneInput().
#pragma once

#include <string>
#include <string_view>
#include <vector>

struct FuzzTarget {
  std::vector<const char*> folders;  ///< of the repository, whose files are the seeds
  const char* extension;             ///< of the seeds
  std::vector<std::string> words;    ///< that mutations put in the place of others
  bool (*parses)(std::string_view text);
};

const FuzzTarget& fuzz_target();
