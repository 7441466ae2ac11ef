// What a campaign has found and tried, in one SQLite file: versioned, shared by its processes, and safe against the end
// of any of them at any moment. What a call has recorded when it returns is on the disk.
#ifndef TILEPROOF_RECORD_STORE_H
#define TILEPROOF_RECORD_STORE_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "record/database.h"
#include "search/check.h"

namespace tileproof {

// The name of the file in the directory of a campaign.
inline constexpr const char* kStoreFile = "campaign.db";

// The times of day are milliseconds since 1970 UTC, given by the caller.

struct StoredFinding {
  Finding finding;  // first_case and case_number are those of the process that found it
  std::int64_t first_seen = 0;
  std::int64_t last_seen = 0;
  std::string artifact;  // the regression case file, relative to the directory; empty: not written yet
};

// The state of a campaign at one time; all but `at` are totals since it first began, over all its restarts.
struct Sample {
  std::int64_t at = 0;
  double elapsed = 0;  // seconds
  std::uint64_t cases = 0;
  std::uint64_t launches = 0;
  std::uint64_t cells = 0;      // covered
  std::uint64_t reachable = 0;  // so many can be
  std::uint64_t corpus = 0;     // entries
  std::uint64_t findings = 0;
};

// How often a property passed and failed on a subject at two values, such as head_num 3 and block_h 2: one field of a
// heat map.
struct TriedPair {
  std::string subject;
  std::string property;
  std::string across_key, down_key;  // e.g. "head_num", "block_h"
  std::int64_t across = 0, down = 0;
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
};

// A combination that cases can have, in words: "mla_rope_q_fwd: layout=thd dtype=bf16".
struct Cell {
  std::string name;
  std::int64_t first_seen = 0;  // 0: never tried
};

// Throws as Database does; a file of a newer schema or of another program is an InputError, and is never written to.
class Store {
 public:
  Store(const std::string& directory, Database::Mode mode);

  // Facts of the campaign, such as its seed and its subjects.
  void set_fact(const std::string& key, const std::string& value);
  std::string fact(const std::string& key) const;  // empty: never set

  // Adds the count to what is there under the same subject, property and signature, and takes its case where it is
  // smaller. Returns whether it is new. Its minimal case and condition are recorded by close().
  bool record(const Finding& finding, std::int64_t now);
  // Sets minimal case, condition and artifact of a recorded finding.
  void close(const Finding& finding, const std::string& artifact);

  void add(const Sample& sample);
  // The counts are added to those that are there.
  void add(const std::vector<TriedPair>& pairs);
  // A cell that is there as never tried gets its time; another one keeps its own.
  void add(const std::vector<Cell>& cells);

  std::uint64_t finding_count() const;
  bool has_open_findings() const;               // some that close() was not called for
  std::vector<StoredFinding> findings() const;  // by subject, property, then time
  std::vector<Sample> samples() const;          // by time
  std::vector<TriedPair> pairs() const;         // by subject, property, keys, down, across
  std::vector<Cell> cells() const;              // by name

 private:
  Database database_;
};

}  // namespace tileproof

#endif
