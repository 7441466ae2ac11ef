#include "record/database.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "memory/arena.h"

namespace tileproof {

namespace {

// How long one process waits for another: commits take milliseconds, a slow disk some seconds.
constexpr int kLockMilliseconds = 30'000;

// A path as the URI that SQLite reads.
std::string uri_of(const std::string& path, std::string_view parameters) {
  std::string result = "file:";
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("/._-", c) != nullptr;
    result += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return result + std::string(parameters);
}

bool is_there_with_content(const std::string& path) {
  std::error_code error;
  return std::filesystem::file_size(path, error) > 0 && !error;
}

[[noreturn]] void refuse_damaged(const std::string& path, const std::string& why) {
  throw InputError(
      fmt::format("'{}' given, which is damaged or no database ({}); expected a campaign of tileproof; it "
                  "is left as it is: choose another directory, or save what it holds with `sqlite3 {} .recover`",
                  path, why, path));
}

}  // namespace

void Database::Closer::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

void Database::require(int code) const {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) {
    return;
  }
  const std::string why = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  const int system_error = handle_ ? sqlite3_system_errno(handle_.get()) : 0;
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT: refuse_damaged(path_, why);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw EnvironmentError(
          fmt::format("'{}' is kept locked by another process for more than {} s ({}); end that "
                      "process, then start again on the same directory",
                      path_, kLockMilliseconds / 1000, why));
    case SQLITE_FULL:
    case SQLITE_IOERR:
      throw EnvironmentError(
          fmt::format("'{}' cannot be written or read ({}{}); what was recorded is kept: free space, "
                      "then start again on the same directory",
                      path_, why, system_error != 0 ? fmt::format(", {}", std::strerror(system_error)) : ""));
    default:
      throw EnvironmentError(fmt::format("'{}' cannot be used ({}{}); expected a file that can be read and written",
                                         path_, why,
                                         system_error != 0 ? fmt::format(", {}", std::strerror(system_error)) : ""));
  }
}

void Database::open(const std::string& uri, int flags) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(uri.c_str(), &handle, flags | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE, nullptr);
  handle_.reset(handle);
  require(code);
  require(sqlite3_busy_timeout(handle_.get(), kLockMilliseconds));
}

Database::Database(std::string path, Mode mode) : path_(std::move(path)) {
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  if (mode == Mode::create) {
    open(uri_of(path_, ""), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  } else if (access(path_.c_str(), F_OK) != 0) {
    throw InputError(fmt::format("'{}' given, which cannot be opened ({}); expected a campaign of tileproof", path_,
                                 std::strerror(errno)));
  } else if (access(directory.empty() ? "." : directory.c_str(), W_OK) == 0) {
    open(uri_of(path_, "?mode=ro"), SQLITE_OPEN_READONLY);
  } else if (is_there_with_content(path_ + "-wal")) {
    throw EnvironmentError(
        fmt::format("'{}' was not closed, and its directory cannot be written, which reading it "
                    "needs; copy the directory and read the copy",
                    path_));
  } else {
    // Without a journal beside it nobody writes, and nothing can be written beside it.
    open(uri_of(path_, "?mode=ro&immutable=1"), SQLITE_OPEN_READONLY);
  }
  Statement check(*this, "PRAGMA quick_check(1)");
  if (check.step() && check.text(0) != "ok") {
    std::string why = check.text(0);
    std::replace(why.begin(), why.end(), '\n', ' ');
    refuse_damaged(path_, why);
  }
}

void Database::execute(const std::string& sql) const {
  require(sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr));
}

void Statement::Closer::operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }

Statement::Statement(const Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* handle = nullptr;
  const int code =
      sqlite3_prepare_v2(database.handle_.get(), sql.data(), static_cast<int>(sql.size()), &handle, nullptr);
  handle_.reset(handle);
  database.require(code);
}

bool Statement::step() {
  const int code = sqlite3_step(handle_.get());
  database_.require(code);
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::rewind() { sqlite3_reset(handle_.get()); }

void Statement::bind_at(int index, std::int64_t value) {
  database_.require(sqlite3_bind_int64(handle_.get(), index, value));
}

void Statement::bind_at(int index, double value) {
  database_.require(sqlite3_bind_double(handle_.get(), index, value));
}

void Statement::bind_at(int index, const std::string& value) {
  database_.require(
      sqlite3_bind_text(handle_.get(), index, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT));
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }

double Statement::real(int column) const { return sqlite3_column_double(handle_.get(), column); }

std::string Statement::text(int column) const {
  const unsigned char* bytes = sqlite3_column_text(handle_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  return bytes == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(bytes), size);
}

Transaction::Transaction(const Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

Transaction::~Transaction() {
  if (open_) {
    try {
      database_.execute("ROLLBACK");
    } catch (const std::exception&) {
      // After a full disk SQLite has rolled back already; the error that led here is on its way.
      open_ = false;
    }
  }
}

}  // namespace tileproof
