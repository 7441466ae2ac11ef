#include "record/store.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tileproof {

namespace {

constexpr std::int64_t kApplication = 0x74707266;  // "tprf"
constexpr std::int64_t kSchema = 1;

constexpr const char* kTables = R"(
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE findings (
  subject TEXT NOT NULL, property TEXT NOT NULL, signature TEXT NOT NULL,
  count INTEGER NOT NULL, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL,
  first_case INTEGER NOT NULL, case_number INTEGER NOT NULL,
  case_text TEXT NOT NULL, elements INTEGER NOT NULL, message TEXT NOT NULL, evidence TEXT NOT NULL,
  minimal TEXT NOT NULL DEFAULT '', condition TEXT NOT NULL DEFAULT '', artifact TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (subject, property, signature)) WITHOUT ROWID;
CREATE TABLE samples (
  at INTEGER NOT NULL, elapsed REAL NOT NULL, cases INTEGER NOT NULL, launches INTEGER NOT NULL,
  cells INTEGER NOT NULL, reachable INTEGER NOT NULL, corpus INTEGER NOT NULL, findings INTEGER NOT NULL);
CREATE TABLE pairs (
  subject TEXT NOT NULL, property TEXT NOT NULL, across_key TEXT NOT NULL, down_key TEXT NOT NULL,
  across INTEGER NOT NULL, down INTEGER NOT NULL, passed INTEGER NOT NULL, failed INTEGER NOT NULL,
  PRIMARY KEY (subject, property, across_key, down_key, down, across)) WITHOUT ROWID;
CREATE TABLE cells (
  name TEXT PRIMARY KEY, first_seen INTEGER NOT NULL) WITHOUT ROWID;
)";

std::int64_t pragma(const Database& database, const char* name) {
  Statement statement(database, fmt::format("PRAGMA {}", name));
  return statement.step() ? statement.integer(0) : 0;
}

bool is_empty(const Database& database) {
  Statement tables(database, "SELECT count(*) FROM sqlite_master");
  return tables.step() && tables.integer(0) == 0;
}

// Text that SQLite and JSON both keep; a message may quote bytes of a kernel's memory.
std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string minimal_text(const MinimalCase& minimal) {
  return json_text({{"case", minimal.case_text},
                    {"signature", minimal.signature},
                    {"message", minimal.message},
                    {"evidence", minimal.evidence},
                    {"complete", minimal.complete},
                    {"tried", minimal.tried},
                    {"failures", minimal.failures},
                    {"launches", minimal.launches}});
}

MinimalCase minimal_of(const nlohmann::json& value) {
  MinimalCase minimal;
  value.at("case").get_to(minimal.case_text);
  value.at("signature").get_to(minimal.signature);
  value.at("message").get_to(minimal.message);
  value.at("evidence").get_to(minimal.evidence);
  value.at("complete").get_to(minimal.complete);
  value.at("tried").get_to(minimal.tried);
  value.at("failures").get_to(minimal.failures);
  value.at("launches").get_to(minimal.launches);
  return minimal;
}

StoredFinding finding_of(const Statement& row) {
  StoredFinding stored;
  Finding& finding = stored.finding;
  finding.subject = row.text(0);
  finding.property = row.text(1);
  finding.signature = row.text(2);
  finding.count = static_cast<std::uint64_t>(row.integer(3));
  stored.first_seen = row.integer(4);
  stored.last_seen = row.integer(5);
  finding.first_case = static_cast<std::uint64_t>(row.integer(6));
  finding.case_number = static_cast<std::uint64_t>(row.integer(7));
  finding.case_text = row.text(8);
  finding.elements = row.integer(9);
  finding.message = row.text(10);
  finding.evidence = nlohmann::json::parse(row.text(11)).get<std::vector<std::string>>();
  if (const std::string minimal = row.text(12); !minimal.empty()) {
    finding.minimal = minimal_of(nlohmann::json::parse(minimal));
  }
  finding.condition = row.text(13);
  stored.artifact = row.text(14);
  return stored;
}

}  // namespace

Store::Store(const std::string& directory, Database::Mode mode)
    : database_((std::filesystem::path(directory) / kStoreFile).string(), mode) {
  const auto refuse = [this](const std::string& what) {
    throw InputError(
        fmt::format("'{}' given, {}; expected a campaign of this tileproof (schema {}); it is left as it "
                    "is: choose another directory",
                    database_.path(), what, kSchema));
  };
  std::int64_t application = pragma(database_, "application_id");
  // Who made the file may have been ended before its first commit.
  if (mode == Database::Mode::create && application == 0 && is_empty(database_)) {
    database_.execute("PRAGMA journal_mode=WAL");
    Transaction transaction(database_);
    if (is_empty(database_)) {  // another process may have been first
      database_.execute(
          fmt::format("{}PRAGMA application_id={};PRAGMA user_version={}", kTables, kApplication, kSchema));
    }
    transaction.commit();
    application = pragma(database_, "application_id");
  }
  if (application != kApplication) {
    refuse(application == 0 && is_empty(database_) ? "which holds nothing" : "a database of another program");
  }
  if (const std::int64_t version = pragma(database_, "user_version"); version != kSchema) {
    refuse(
        fmt::format("a campaign of schema {}{}", version, version > kSchema ? ", which a newer tileproof wrote" : ""));
  }
  if (mode == Database::Mode::create) {
    database_.execute("PRAGMA synchronous=FULL");
  }
}

void Store::set_fact(const std::string& key, const std::string& value) {
  Statement(database_, "INSERT OR REPLACE INTO facts VALUES (?, ?)").bind(key, value).run();
}

std::string Store::fact(const std::string& key) const {
  Statement statement(database_, "SELECT value FROM facts WHERE key = ?");
  return statement.bind(key).step() ? statement.text(0) : std::string();
}

bool Store::record(const Finding& finding, std::int64_t now) {
  Transaction transaction(database_);
  Statement known(database_, "SELECT elements FROM findings WHERE subject = ? AND property = ? AND signature = ?");
  const bool is_known = known.bind(finding.subject, finding.property, finding.signature).step();
  const bool is_smaller = is_known && finding.elements < known.integer(0);
  if (!is_known) {
    Statement(database_,
              "INSERT INTO findings (subject, property, signature, count, first_seen, last_seen, first_case, "
              "case_number, case_text, elements, message, evidence) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(finding.subject, finding.property, finding.signature, finding.count, now, now, finding.first_case,
              finding.case_number, finding.case_text, finding.elements, finding.message, json_text(finding.evidence))
        .run();
  } else {
    Statement(database_,
              "UPDATE findings SET count = count + ?, last_seen = max(last_seen, ?) "
              "WHERE subject = ? AND property = ? AND signature = ?")
        .bind(finding.count, now, finding.subject, finding.property, finding.signature)
        .run();
    if (is_smaller) {
      Statement(database_,
                "UPDATE findings SET case_number = ?, case_text = ?, elements = ?, message = ?, evidence = ? "
                "WHERE subject = ? AND property = ? AND signature = ?")
          .bind(finding.case_number, finding.case_text, finding.elements, finding.message, json_text(finding.evidence),
                finding.subject, finding.property, finding.signature)
          .run();
    }
  }
  transaction.commit();
  return !is_known;
}

void Store::close(const Finding& finding, const std::string& artifact) {
  Statement(database_,
            "UPDATE findings SET minimal = ?, condition = ?, artifact = ? "
            "WHERE subject = ? AND property = ? AND signature = ?")
      .bind(finding.minimal ? minimal_text(*finding.minimal) : std::string(), finding.condition, artifact,
            finding.subject, finding.property, finding.signature)
      .run();
}

void Store::add(const Sample& sample) {
  Statement(database_, "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(sample.at, sample.elapsed, sample.cases, sample.launches, sample.cells, sample.reachable, sample.corpus,
            sample.findings)
      .run();
}

void Store::add(const std::vector<TriedPair>& pairs) {
  Transaction transaction(database_);
  Statement add(database_,
                "INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET passed = passed + excluded.passed, failed = failed + excluded.failed");
  for (const TriedPair& pair : pairs) {
    add.bind(pair.subject, pair.property, pair.across_key, pair.down_key, pair.across, pair.down, pair.passed,
             pair.failed)
        .run();
  }
  transaction.commit();
}

void Store::add(const std::vector<Cell>& cells) {
  Transaction transaction(database_);
  Statement add(database_,
                "INSERT INTO cells VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET first_seen = excluded.first_seen WHERE first_seen = 0");
  for (const Cell& cell : cells) {
    add.bind(cell.name, cell.first_seen).run();
  }
  transaction.commit();
}

std::uint64_t Store::finding_count() const {
  Statement count(database_, "SELECT count(*) FROM findings");
  return count.step() ? static_cast<std::uint64_t>(count.integer(0)) : 0;
}

bool Store::has_open_findings() const {
  Statement open(database_, "SELECT 1 FROM findings WHERE artifact = '' LIMIT 1");
  return open.step();
}

std::vector<StoredFinding> Store::findings() const {
  Statement rows(database_,
                 "SELECT subject, property, signature, count, first_seen, last_seen, first_case, case_number, "
                 "case_text, elements, message, evidence, minimal, condition, artifact FROM findings "
                 "ORDER BY subject, property, first_seen, signature");
  std::vector<StoredFinding> result;
  try {
    while (rows.step()) {
      result.push_back(finding_of(rows));
    }
  } catch (const nlohmann::json::exception& error) {
    throw InputError(
        fmt::format("'{}' given, whose finding {} cannot be read ({}); expected a campaign that only "
                    "tileproof wrote to",
                    database_.path(), result.size() + 1, error.what()));
  }
  return result;
}

std::vector<Sample> Store::samples() const {
  Statement rows(database_,
                 "SELECT at, elapsed, cases, launches, cells, reachable, corpus, findings FROM samples ORDER BY at");
  std::vector<Sample> result;
  const auto count = [&](int column) { return static_cast<std::uint64_t>(rows.integer(column)); };
  while (rows.step()) {
    result.push_back({rows.integer(0), rows.real(1), count(2), count(3), count(4), count(5), count(6), count(7)});
  }
  return result;
}

std::vector<TriedPair> Store::pairs() const {
  Statement rows(database_,
                 "SELECT subject, property, across_key, down_key, across, down, passed, failed FROM pairs "
                 "ORDER BY subject, property, across_key, down_key, down, across");
  std::vector<TriedPair> result;
  while (rows.step()) {
    result.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.integer(4), rows.integer(5),
                      static_cast<std::uint64_t>(rows.integer(6)), static_cast<std::uint64_t>(rows.integer(7))});
  }
  return result;
}

std::vector<Cell> Store::cells() const {
  Statement rows(database_, "SELECT name, first_seen FROM cells ORDER BY name");
  std::vector<Cell> result;
  while (rows.step()) {
    result.push_back({rows.text(0), rows.integer(1)});
  }
  return result;
}

}  // namespace tileproof
