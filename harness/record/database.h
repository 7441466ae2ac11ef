// SQLite (WAL, every commit on the disk before it returns), with its errors as ours.
#ifndef TILEPROOF_RECORD_DATABASE_H
#define TILEPROOF_RECORD_DATABASE_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace tileproof {

// Every member throws: InputError where the file is none of ours or damaged, EnvironmentError where the disk is full,
// cannot be read or written, or another process keeps the database locked. Several processes may use one file at once;
// one object is for one thread, and not to be carried over a fork.
class Database {
 public:
  enum class Mode {
    create,  // makes the file where there is none
    read,    // works in a directory that cannot be written too
  };
  Database(std::string path, Mode mode);

  // One or more statements without values and without rows.
  void execute(const std::string& sql) const;

  const std::string& path() const { return path_; }

 private:
  friend class Statement;
  struct Closer {
    void operator()(sqlite3* handle) const;
  };
  void open(const std::string& uri, int flags);
  void require(int code) const;  // throws unless the code is one of success

  std::string path_;
  std::unique_ptr<sqlite3, Closer> handle_;
};

// One statement of a database that outlives it. Values are bound in the order of its '?'.
class Statement {
 public:
  Statement(const Database& database, std::string_view sql);

  template <typename... Values>
  Statement& bind(const Values&... values) {
    rewind();
    int index = 0;
    (bind_at(++index, values), ...);
    return *this;
  }
  bool step();  // true: there is a row
  void run();   // to its end

  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;  // NULL: empty

 private:
  struct Closer {
    void operator()(sqlite3_stmt* handle) const;
  };
  void rewind();
  void bind_at(int index, std::int64_t value);
  void bind_at(int index, int value) { bind_at(index, std::int64_t{value}); }
  void bind_at(int index, bool value) { bind_at(index, std::int64_t{value}); }
  void bind_at(int index, std::uint64_t value) { bind_at(index, static_cast<std::int64_t>(value)); }
  void bind_at(int index, double value);
  void bind_at(int index, const std::string& value);

  const Database& database_;
  std::unique_ptr<sqlite3_stmt, Closer> handle_;
};

// All or nothing: rolled back where it is left without commit().
class Transaction {
 public:
  explicit Transaction(const Database& database);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  const Database& database_;
  bool open_ = true;
};

}  // namespace tileproof

#endif
