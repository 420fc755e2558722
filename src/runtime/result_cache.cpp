#include "runtime/result_cache.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "support/hash.h"
#include "support/trusted_path.h"

namespace strata {
namespace {

/// The version of the tables below. A database of a later version is left alone.
constexpr int kFormat = 2;
/// Milliseconds to wait for another process that writes.
constexpr int kPatience = 5000;

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS results (kind TEXT NOT NULL, hash INTEGER NOT NULL, key BLOB NOT NULL,"
    " value BLOB NOT NULL, checksum INTEGER NOT NULL, effort REAL NOT NULL, created TEXT NOT NULL,"
    " PRIMARY KEY (kind, hash, key)) WITHOUT ROWID;"
    // Of entries that may be dropped, when they were used: apart, since to change a row is to write all of it again.
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

/// Of a whole entry: a value that stands under another key, or claims another effort, is damaged too.
int64_t checksum_of(std::string_view kind, std::string_view key, std::string_view value, double effort) {
  return static_cast<int64_t>(Hasher().add(kind).add(key).add(value).add(std::bit_cast<uint64_t>(effort)).value());
}

/// What helps, by an SQLite result code.
std::string remedy_for(int code) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "wait for the process that holds it, or name another folder with --cache";
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return "check the permissions of its folder, or name another with --cache";
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return "free space on its disk, or name another folder with --cache";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "remove the file; it is made anew";
    default:
      return "name another folder with --cache, or use --no-cache";
  }
}

/// A URI of a database that is read as it lies there: SQLite then needs no file beside it.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    uri += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return uri + "?immutable=1";
}

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
  if (warn_ && !warned_) warn_(fmt::format("the cache of results '{}' is not used: {}\n  {}", path_, what, remedy));
  warned_ = true;
}

void ResultCache::give_up(int code) {
  const std::string what = code == SQLITE_DONE ? "it is unreadable" : sqlite3_errstr(code);
  give_up(what, remedy_for(code));
}

void ResultCache::only_read(int code) {
  writable_ = false;
  if (warn_ && !warned_) {
    warn_(
        fmt::format("the cache of results '{}' is only read: {}\n  {}", path_, sqlite3_errstr(code), remedy_for(code)));
  }
  warned_ = true;
}

void ResultCache::open() {
  std::error_code unknown;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  const bool exists = std::filesystem::exists(path_, unknown);
  // Entries are run and believed: nobody else may write them.
  if (const std::string why = why_not_trusted(exists ? std::filesystem::path(path_) : folder, geteuid());
      !why.empty()) {
    give_up(why, "name a folder of your own with --cache, or use --no-cache");
    return;
  }
  writable_ = !exists || (access(path_.c_str(), W_OK) == 0 && access(folder.c_str(), W_OK) == 0);
  const bool log = std::filesystem::exists(path_ + "-wal", unknown);
  const std::string name = writable_ || log ? path_ : immutable_uri(path_);
  const int flags = writable_ ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  sqlite3* made = nullptr;
  const int opened = sqlite3_open_v2(name.c_str(), &made, flags, nullptr);
  database_ = made;
  if (opened != SQLITE_OK) {
    give_up(opened);
    return;
  }
  sqlite3_busy_timeout(made, kPatience);
  int format = 0;
  {
    const Statement version = prepare("PRAGMA user_version");
    if (version.statement == nullptr || sqlite3_step(version.statement) != SQLITE_ROW) {
      give_up(sqlite3_errcode(made));
      return;
    }
    format = sqlite3_column_int(version.statement, 0);
  }
  if (format > kFormat) {
    give_up(fmt::format("its format {} is from a newer Strata; this one knows {}", format, kFormat),
            "name another folder with --cache, or use the newer program");
    return;
  }
  if (!writable_) {
    if (format < kFormat)
      give_up(fmt::format("it is of format {} and cannot be written", format), remedy_for(SQLITE_READONLY));
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
    if (const int dropped = drop_least_used(); dropped != SQLITE_DONE) {
      give_up(dropped);
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

bool ResultCache::usable_tables() {
  const Statement tables = prepare("SELECT 1 FROM results LEFT JOIN uses USING (kind, hash) LIMIT 1");
  if (tables.statement == nullptr) return false;
  const int step = sqlite3_step(tables.statement);
  return step == SQLITE_ROW || step == SQLITE_DONE;
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
  const int code = sqlite3_exec(handle(database_), text, nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return true;
  // Where another process writes for long, what is there can be read all the same.
  if ((code == SQLITE_BUSY || code == SQLITE_READONLY) && usable_tables()) {
    only_read(code);
  } else {
    give_up(code);
  }
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
  bool damaged = false;
  bool may_be_dropped = false;
  int64_t last_used = 0;
  int trouble = SQLITE_OK;
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
      damaged = sqlite3_column_int64(query.statement, 1) != checksum_of(kind, key, entry.value, entry.effort);
      if (!damaged) found = std::move(entry);
      may_be_dropped = sqlite3_column_type(query.statement, 4) != SQLITE_NULL;
      last_used = sqlite3_column_int64(query.statement, 4);
    } else if (step != SQLITE_DONE) {
      trouble = sqlite3_errcode(handle(database_));
    }
  }
  if (trouble != SQLITE_OK) give_up(trouble);
  if (damaged) erase(kind, key);
  if (found && may_be_dropped) touch(kind, hash_of(key), last_used);
  return found;
}

void ResultCache::forget(std::string_view kind, std::string_view key) {
  const std::scoped_lock lock(mutex_);
  if (database_ != nullptr) erase(kind, key);
}

/// Whatever effort it claims, what is computed in its place is then kept.
void ResultCache::erase(std::string_view kind, std::string_view key) {
  if (!writable_) return;
  Statement removal = prepare("DELETE FROM results WHERE kind = ? AND hash = ? AND key = ?");
  if (removal.statement == nullptr) return;
  removal.bind(1, kind);
  sqlite3_bind_int64(removal.statement, 2, hash_of(key));
  removal.bind(3, key);
  sqlite3_step(removal.statement);
}

void ResultCache::touch(std::string_view kind, int64_t hash, int64_t last_used) {
  const int64_t time = now();
  if (!writable_ || time < last_used + kSameUse) return;
  Statement update = prepare("UPDATE uses SET used = ? WHERE kind = ? AND hash = ?");
  if (update.statement == nullptr) return;
  sqlite3_bind_int64(update.statement, 1, time);
  update.bind(2, kind);
  sqlite3_bind_int64(update.statement, 3, hash);
  // Where it cannot be written, the use is forgotten: it was found. No later one is waited for.
  if (const int step = sqlite3_step(update.statement); step == SQLITE_BUSY || step == SQLITE_READONLY) only_read(step);
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
    sqlite3_bind_int64(result.statement, 5, checksum_of(kind, key, value, effort));
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
  if (database_ == nullptr) return;
  if (!writable_) {
    only_read(SQLITE_READONLY);
    return;
  }
  if (!run("BEGIN IMMEDIATE")) return;
  if (const int inserted = insert(kind, key, value, effort, keep); inserted == SQLITE_DONE) {
    run("COMMIT");
  } else {  // what was begun ends with the connection
    give_up(inserted);
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
