// Finished work of a search on disk, so that an interrupted one goes on where it was.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "superopt/search/assemble.h"

namespace strata {

/// What one unit of work found.
struct UnitResult {
  std::vector<KernelChoice> choices;
};

/// A JSON file of unit results, valid for one program and one set of options. Thread-safe.
class Checkpoint {
 public:
  /// `path` empty: keeps nothing. `key` identifies program and options. Error where the file exists and is of another
  /// search, or is damaged.
  static Result<std::unique_ptr<Checkpoint>> open(std::string path, uint64_t key);

  /// The unit's result, if an earlier run finished it.
  std::optional<UnitResult> find(const std::string& unit) const;
  /// Remembers it, and writes the file if the last writing was some seconds ago.
  void record(const std::string& unit, const UnitResult& result);
  /// Writes the file: to a temporary name first, so that a kill leaves the old one whole.
  Result<void> save();

 private:
  Checkpoint(std::string path, uint64_t key) : path_(std::move(path)), key_(key) {}

  struct Entry {
    int result;
    std::vector<int> inputs;
    double seconds;
    std::string text;
  };

  std::string path_;
  uint64_t key_;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Entry>> units_;
  double last_saved_ = 0;
};

/// Writes the units of all `from` to `to`; how many there are. Error where a file is missing, damaged or of another
/// search, or where two disagree.
Result<size_t> merge_checkpoints(const std::vector<std::string>& from, const std::string& to);

}  // namespace strata
