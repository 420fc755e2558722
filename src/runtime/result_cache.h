// Results that outlive a run: a table in an SQLite database in the user's cache folder. Many processes may use it at
// once. It is a convenience and never a reason to fail: what is wrong with it is one warning, and work goes on without.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

class ResultCache {
 public:
  struct Entry {
    std::string value;
    std::string created;  ///< "2026-01-31 12:00 UTC"
    double effort = 0;    ///< what it cost; the meaning is the caller's
  };

  /// Opens or makes FOLDER/results.sqlite. `warn` gets at most one line, with place and remedy.
  ResultCache(std::string folder, std::function<void(const std::string&)> warn);
  ~ResultCache();
  ResultCache(const ResultCache&) = delete;
  ResultCache& operator=(const ResultCache&) = delete;

  /// Entries are found by a hash of the key, and the keys compared: no two keys share an entry.
  std::optional<Entry> find(std::string_view kind, std::string_view key);
  /// Replaces an entry of no more effort.
  void store(std::string_view kind, std::string_view key, std::string_view value, double effort = 0);

  /// False once something was wrong with it.
  bool usable() const { return database_ != nullptr; }

 private:
  struct Statement;
  Statement prepare(const char* text);
  void give_up(const std::string& what, const std::string& remedy);
  bool run(const char* text);
  void open();

  std::string path_;
  std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  void* database_ = nullptr;
};

/// $XDG_CACHE_HOME/strata, or ~/.cache/strata; empty where neither is known.
std::string default_cache_folder();

/// Tells builds of this program apart, so that one does not take the results of another for its own.
std::string build_identity();

}  // namespace strata
