#include "runtime/result_cache.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>

#include "support/hash.h"

namespace strata {
namespace {

/// Of the tables below; a database of a later one is left alone.
constexpr int kFormat = 1;
/// Milliseconds to wait for another process that writes.
constexpr int kPatience = 5000;

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS results (kind TEXT NOT NULL, hash INTEGER NOT NULL, key BLOB NOT NULL,"
    " value BLOB NOT NULL, checksum INTEGER NOT NULL, effort REAL NOT NULL, created TEXT NOT NULL,"
    " PRIMARY KEY (kind, hash, key)) WITHOUT ROWID;";

sqlite3* handle(void* database) { return static_cast<sqlite3*>(database); }

int64_t hash_of(std::string_view text) { return static_cast<int64_t>(Hasher().add(text).value()); }

}  // namespace

struct ResultCache::Statement {
  explicit Statement(sqlite3_stmt* made) : statement(made) {}
  ~Statement() { sqlite3_finalize(statement); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int at, std::string_view text) {
    sqlite3_bind_blob64(statement, at, text.data(), text.size(), SQLITE_STATIC);
  }
  std::string text(int column) const {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement, column));
    return data == nullptr ? std::string()
                           : std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement, column)));
  }

  sqlite3_stmt* statement;
};

ResultCache::ResultCache(std::string folder, std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {
  path_ = folder + "/results.sqlite";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  open();
}

ResultCache::~ResultCache() { sqlite3_close_v2(handle(database_)); }

void ResultCache::give_up(const std::string& what, const std::string& remedy) {
  sqlite3_close_v2(handle(database_));
  database_ = nullptr;
  if (warn_) warn_(fmt::format("the cache of results '{}' is not used: {}\n  {}", path_, what, remedy));
}

void ResultCache::open() {
  sqlite3* made = nullptr;
  const int opened = sqlite3_open_v2(path_.c_str(), &made, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  database_ = made;
  if (opened != SQLITE_OK) {
    give_up(sqlite3_errstr(opened), "name another folder with --cache, or use --no-cache");
    return;
  }
  sqlite3_busy_timeout(made, kPatience);
  int format = 0;
  {
    const Statement version = prepare("PRAGMA user_version");
    if (version.statement == nullptr || sqlite3_step(version.statement) != SQLITE_ROW) {
      give_up(sqlite3_errmsg(made), "remove the file");
      return;
    }
    format = sqlite3_column_int(version.statement, 0);
  }
  if (format > kFormat) {
    give_up(fmt::format("it is of format {}, of a newer Strata; this one knows {}", format, kFormat),
            "name another folder with --cache, or use the newer program");
    return;
  }
  // Readers then do not wait for a writer. Where a file system cannot do it, they do.
  sqlite3_exec(made, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
  sqlite3_exec(made, "PRAGMA synchronous=NORMAL", nullptr, nullptr, nullptr);
  if (format == kFormat) return;
  run(kTables) && run(fmt::format("PRAGMA user_version={}", kFormat).c_str());
}

bool ResultCache::run(const char* text) {
  if (sqlite3_exec(handle(database_), text, nullptr, nullptr, nullptr) == SQLITE_OK) return true;
  give_up(sqlite3_errmsg(handle(database_)), "check the folder's permissions and free space, or remove the file");
  return false;
}

ResultCache::Statement ResultCache::prepare(const char* text) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(handle(database_), text, -1, &statement, nullptr);
  return Statement(statement);
}

std::optional<ResultCache::Entry> ResultCache::find(std::string_view kind, std::string_view key) {
  const std::scoped_lock lock(mutex_);
  if (database_ == nullptr) return std::nullopt;
  std::optional<Entry> found;
  std::string trouble;
  {
    Statement query =
        prepare("SELECT value, checksum, effort, created FROM results WHERE kind = ? AND hash = ? AND key = ?");
    int step = SQLITE_ERROR;
    if (query.statement != nullptr) {
      query.bind(1, kind);
      sqlite3_bind_int64(query.statement, 2, hash_of(key));
      query.bind(3, key);
      step = sqlite3_step(query.statement);
    }
    if (step == SQLITE_ROW) {
      Entry entry{query.text(0), query.text(3), sqlite3_column_double(query.statement, 2)};
      // A damaged entry is none; what is computed in its place overwrites it.
      if (sqlite3_column_int64(query.statement, 1) == hash_of(entry.value)) found = std::move(entry);
    } else if (step != SQLITE_DONE) {
      trouble = sqlite3_errmsg(handle(database_));
    }
  }
  if (!trouble.empty()) give_up(trouble, "remove the file; it is made anew");
  return found;
}

void ResultCache::store(std::string_view kind, std::string_view key, std::string_view value, double effort) {
  const std::scoped_lock lock(mutex_);
  if (database_ == nullptr) return;
  std::string trouble;
  {
    Statement insert = prepare(
        "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M UTC', 'now'))"
        " ON CONFLICT DO UPDATE SET value = excluded.value, checksum = excluded.checksum, effort = excluded.effort,"
        " created = excluded.created WHERE excluded.effort >= results.effort");
    int step = SQLITE_ERROR;
    if (insert.statement != nullptr) {
      insert.bind(1, kind);
      sqlite3_bind_int64(insert.statement, 2, hash_of(key));
      insert.bind(3, key);
      insert.bind(4, value);
      sqlite3_bind_int64(insert.statement, 5, hash_of(value));
      sqlite3_bind_double(insert.statement, 6, effort);
      step = sqlite3_step(insert.statement);
    }
    if (step != SQLITE_DONE) trouble = sqlite3_errmsg(handle(database_));
  }
  if (!trouble.empty()) give_up(trouble, "check the folder's permissions and free space, or remove the file");
}

std::string default_cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string folder = variable("XDG_CACHE_HOME"); !folder.empty()) return folder + "/strata";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/strata";
  return {};
}

}  // namespace strata
