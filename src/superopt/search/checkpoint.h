// Finished work of searches on disk, so that an interrupted run goes on where it was.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "superopt/search/assemble.h"
#include "superopt/search/search.h"

namespace strata {

/// What one unit of work found.
struct UnitResult {
  std::vector<KernelChoice> choices;
};

/// One file for all searches of a run, valid for one program, one set of options and one build. A line with a checksum
/// of what follows, then JSON. Thread-safe.
class Checkpoint {
 public:
  /// A kernel choice as it is stored: nothing of it is known to be right.
  struct Entry {
    int result = 0;
    std::vector<int> inputs;
    std::string graph;
    bool operator==(const Entry&) const = default;
  };
  /// By name of the unit.
  using Units = std::map<std::string, std::vector<Entry>>;

  /// Reads the file where it exists, and writes it: what cannot be kept is known before the search. Error where it is
  /// damaged, of another program, other options or another build, or cannot be written.
  static Result<std::shared_ptr<Checkpoint>> open(std::string path, const Graph& program, const SearchOptions& options);

  /// The units that earlier runs finished of the search with this key.
  Units finished(const std::string& search) const;
  /// Remembers a unit, and writes the file if the last writing was some seconds ago.
  void record(const std::string& search, const std::string& unit, const UnitResult& result);
  Result<void> save();
  const std::string& path() const { return path_; }
  /// The error of a file that was read, and does not fit the search.
  Error damaged(std::string_view why) const;

 private:
  Checkpoint(std::string path, std::string key) : path_(std::move(path)), key_(std::move(key)) {}

  std::string path_;
  std::string key_;
  mutable std::mutex mutex_;
  std::map<std::string, Units> searches_;
  double last_saved_ = 0;
};

/// Writes the units of all `from` to `to`; how many there are. Error where a file is missing, damaged or of another
/// search, or where two disagree.
Result<size_t> merge_checkpoints(const std::vector<std::string>& from, const std::string& to);

/// A checkpoint's text: the line with the checksum before what it is of.
std::string with_checksum(std::string_view body);

/// What options and a program's text mean for a search, as a key.
std::string search_key(const Graph& program, const SearchOptions& options);

}  // namespace strata
