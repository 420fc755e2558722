// Results that outlive a run: a table in an SQLite database in the user's cache folder. Many processes may use it at
// once. It is a convenience and never a reason to fail: what is wrong with it is one warning, and work goes on without.
// Where others can write it, it is not used; where it cannot be written, or is locked for long, it is only read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

class ResultCache {
 public:
  /// Bytes, of values and keys as the database stores them.
  static constexpr int64_t kDefaultLimit = int64_t{2} << 30;

  /// Whether an entry may be dropped when the limit is reached: what is large, and quickly made again.
  enum class Keep { Always, WhileThereIsRoom };

  struct Entry {
    std::string value;
    std::string created;  ///< "2026-01-31 12:00 UTC"
    double effort = 0;    ///< what it cost; the meaning is the caller's
  };

  /// Opens or makes FOLDER/results.sqlite. `warn` gets at most one line, with place and remedy. Where entries take more
  /// than `limit` bytes, the least recently used that need not be kept are dropped, now and at each store.
  ResultCache(std::string folder, std::function<void(const std::string&)> warn, int64_t limit = kDefaultLimit);
  ~ResultCache();
  ResultCache(const ResultCache&) = delete;
  ResultCache& operator=(const ResultCache&) = delete;

  /// Entries are found by a hash of the key, and the keys compared: no two keys share an entry.
  std::optional<Entry> find(std::string_view kind, std::string_view key);
  /// Replaces an entry of no more effort.
  void store(std::string_view kind, std::string_view key, std::string_view value, double effort = 0,
             Keep keep = Keep::Always);

  /// Drops an entry, of whatever effort: its reader found it wrong.
  void forget(std::string_view kind, std::string_view key);

  /// False once something was wrong with it.
  bool usable() const { return database_ != nullptr; }

 private:
  struct Statement;
  Statement prepare(const char* text);
  void give_up(const std::string& what, const std::string& remedy);
  void give_up(int code);
  void only_read(int code);
  bool usable_tables();
  void erase(std::string_view kind, std::string_view key);
  bool run(const char* text);
  void open();
  bool migrate();
  /// An SQLite result code; SQLITE_DONE where all went well. Within a transaction, as is `drop_least_used`.
  int insert(std::string_view kind, std::string_view key, std::string_view value, double effort, Keep keep);
  int drop_least_used();
  void touch(std::string_view kind, int64_t hash, int64_t last_used);
  int64_t number(const char* query);
  int64_t used_bytes();

  std::string path_;
  int64_t limit_;
  std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  void* database_ = nullptr;
  bool writable_ = true;
  bool warned_ = false;
};

/// $XDG_CACHE_HOME/strata, or ~/.cache/strata; empty where neither is known.
std::string default_cache_folder();

/// Tells builds of this program apart, so that one does not take the results of another for its own.
std::string build_identity();

}  // namespace strata
