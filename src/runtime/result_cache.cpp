#include "runtime/result_cache.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "support/hash.h"

namespace strata {
namespace {

/// Of the tables below; a database of a later one is left alone.
constexpr int kFormat = 2;
/// Milliseconds to wait for another process that writes.
constexpr int kPatience = 60000;

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS results (kind TEXT NOT NULL, hash INTEGER NOT NULL, key BLOB NOT NULL,"
    " value BLOB NOT NULL, checksum INTEGER NOT NULL, effort REAL NOT NULL, created TEXT NOT NULL,"
    " PRIMARY KEY (kind, hash, key)) WITHOUT ROWID;"
    // Of entries that may be dropped, when they were used: apart, since to change a row is to write all of it anew.
    "CREATE TABLE IF NOT EXISTS uses (id INTEGER PRIMARY KEY, kind BLOB NOT NULL, hash INTEGER NOT NULL,"
    " used INTEGER NOT NULL, UNIQUE (kind, hash));"
    "CREATE INDEX IF NOT EXISTS by_use ON uses (used, id);";
/// Before format 2 nothing was dropped.
constexpr const char* kFromFormat1 =
    "INSERT OR IGNORE INTO uses (kind, hash, used) SELECT kind, hash, 0 FROM results WHERE kind = x'637562696e';";
/// Milliseconds within which a use again is not written down: most reads then write nothing.
constexpr int64_t kSameUse = 60'000;
/// Entries dropped and pages given back in one transaction: other processes, of no more patience, can write in between.
constexpr int kDropsAtOnce = 100;
constexpr int kPagesAtOnce = 2000;

sqlite3* handle(void* database) { return static_cast<sqlite3*>(database); }

int64_t now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

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

ResultCache::ResultCache(std::string folder, std::function<void(const std::string&)> warn, int64_t limit)
    : limit_(limit), warn_(std::move(warn)) {
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
  // Before the first table is made: an opened file can then give back what was dropped.
  sqlite3_exec(made, "PRAGMA auto_vacuum=INCREMENTAL", nullptr, nullptr, nullptr);
  // Readers then do not wait for a writer. Where a file system cannot do it, they do.
  sqlite3_exec(made, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
  sqlite3_exec(made, "PRAGMA synchronous=NORMAL", nullptr, nullptr, nullptr);
  if (format < kFormat && !migrate()) return;
  if (used_bytes() <= limit_) return;
  while (used_bytes() > limit_ && number("SELECT id FROM uses LIMIT 1") != 0) {
    if (!run("BEGIN IMMEDIATE")) return;
    if (drop_least_used() != SQLITE_DONE) {
      give_up(sqlite3_errmsg(made), "remove the file; it is made anew");
      return;
    }
    if (!run("COMMIT")) return;
  }
  const auto free_pages = [&] { return number("PRAGMA freelist_count"); };
  for (int64_t left = free_pages(), before = left + 1; left > 0 && left < before;) {
    if (!run(fmt::format("PRAGMA incremental_vacuum({})", kPagesAtOnce).c_str())) return;
    before = std::exchange(left, free_pages());
  }
}

/// Other processes may do the same at once: the first does it, and the others see it done.
bool ResultCache::migrate() {
  return run("BEGIN IMMEDIATE") && run(kTables) && (number("PRAGMA user_version") != 1 || run(kFromFormat1)) &&
         run(fmt::format("PRAGMA user_version={}", kFormat).c_str()) && run("COMMIT");
}

int64_t ResultCache::number(const char* query) {
  const Statement statement = prepare(query);
  const bool row = statement.statement != nullptr && sqlite3_step(statement.statement) == SQLITE_ROW;
  return row ? sqlite3_column_int64(statement.statement, 0) : 0;
}

int64_t ResultCache::used_bytes() {
  return (number("PRAGMA page_count") - number("PRAGMA freelist_count")) * number("PRAGMA page_size");
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
  bool may_be_dropped = false;
  int64_t last_used = 0;
  std::string trouble;
  {
    Statement query = prepare(
        "SELECT value, checksum, effort, created, used FROM results LEFT JOIN uses USING (kind, hash)"
        " WHERE kind = ? AND hash = ? AND key = ?");
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
      may_be_dropped = sqlite3_column_type(query.statement, 4) != SQLITE_NULL;
      last_used = sqlite3_column_int64(query.statement, 4);
    } else if (step != SQLITE_DONE) {
      trouble = sqlite3_errmsg(handle(database_));
    }
  }
  if (!trouble.empty()) give_up(trouble, "remove the file; it is made anew");
  if (found && may_be_dropped) touch(kind, hash_of(key), last_used);
  return found;
}

void ResultCache::touch(std::string_view kind, int64_t hash, int64_t last_used) {
  const int64_t time = now();
  if (time < last_used + kSameUse) return;
  Statement update = prepare("UPDATE uses SET used = ? WHERE kind = ? AND hash = ?");
  if (update.statement == nullptr) return;
  sqlite3_bind_int64(update.statement, 1, time);
  update.bind(2, kind);
  sqlite3_bind_int64(update.statement, 3, hash);
  // Where another process writes for long, or the file cannot be written, the use is forgotten: it was found.
  sqlite3_step(update.statement);
}

int ResultCache::insert(std::string_view kind, std::string_view key, std::string_view value, double effort, Keep keep) {
  {
    Statement result = prepare(
        "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M UTC', 'now'))"
        " ON CONFLICT DO UPDATE SET value = excluded.value, checksum = excluded.checksum, effort = excluded.effort,"
        " created = excluded.created WHERE excluded.effort >= results.effort");
    if (result.statement == nullptr) return SQLITE_ERROR;
    result.bind(1, kind);
    sqlite3_bind_int64(result.statement, 2, hash_of(key));
    result.bind(3, key);
    result.bind(4, value);
    sqlite3_bind_int64(result.statement, 5, hash_of(value));
    sqlite3_bind_double(result.statement, 6, effort);
    if (const int step = sqlite3_step(result.statement); step != SQLITE_DONE) return step;
  }
  if (keep == Keep::WhileThereIsRoom) {
    Statement use = prepare("INSERT OR REPLACE INTO uses (kind, hash, used) VALUES (?, ?, ?)");
    if (use.statement == nullptr) return SQLITE_ERROR;
    use.bind(1, kind);
    sqlite3_bind_int64(use.statement, 2, hash_of(key));
    sqlite3_bind_int64(use.statement, 3, now());
    if (const int step = sqlite3_step(use.statement); step != SQLITE_DONE) return step;
  }
  return drop_least_used();
}

int ResultCache::drop_least_used() {
  for (int drops = 0; drops < kDropsAtOnce && used_bytes() > limit_; ++drops) {
    const int64_t id = number("SELECT id FROM uses ORDER BY used, id LIMIT 1");
    if (id == 0) break;  // all that is left is kept
    for (const char* text : {"DELETE FROM results WHERE (kind, hash) = (SELECT kind, hash FROM uses WHERE id = ?)",
                             "DELETE FROM uses WHERE id = ?"}) {
      const Statement removal = prepare(text);
      if (removal.statement == nullptr) return SQLITE_ERROR;
      sqlite3_bind_int64(removal.statement, 1, id);
      if (const int step = sqlite3_step(removal.statement); step != SQLITE_DONE) return step;
    }
  }
  return SQLITE_DONE;
}

void ResultCache::store(std::string_view kind, std::string_view key, std::string_view value, double effort, Keep keep) {
  const std::scoped_lock lock(mutex_);
  if (database_ == nullptr || !run("BEGIN IMMEDIATE")) return;
  if (insert(kind, key, value, effort, keep) == SQLITE_DONE) {
    run("COMMIT");
  } else {  // what was begun ends with the connection
    give_up(sqlite3_errmsg(handle(database_)), "check the folder's permissions and free space, or remove the file");
  }
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
