// The check: many cases of many subjects against many properties, in worker processes.
#ifndef TILEPROOF_SEARCH_CHECK_H
#define TILEPROOF_SEARCH_CHECK_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memory/arena.h"
#include "search/engine.h"

namespace tileproof {

struct Progress {
  double elapsed = 0;        // seconds
  double total_seconds = 0;  // the budget; 0 when cases are counted instead
  std::uint64_t cases = 0;
  std::uint64_t launches = 0;
  std::uint64_t findings = 0;
  std::string subject;
};

struct CheckOptions {
  std::vector<const Subject*> subjects;
  std::vector<const Property*> properties;
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> cases;  // generated cases per subject; without it, `seconds` is shared among subjects
  double seconds = 30;
  int jobs = 0;                 // 0: one process per core; cuda: one thread per core, shared among the GPUs
  int gpus = 1;                 // of cuda subjects, one worker process each; all subjects are of one device
  double timeout_seconds = 10;  // a launch that takes longer hangs
  std::vector<Case> corpus;     // run first, on every subject of its operation
  // One generated case in so many is judged by the properties of the sanitizing build too, and every case of the
  // corpus; 0: none.
  std::uint64_t sanitize_every = 8;
  bool stop_on_failure = false;                   // a subject is done at its first failure
  std::function<void(const Progress&)> progress;  // a few times a second; may be empty
};

struct Tally {
  std::uint64_t cases = 0;  // judged: held + failed
  std::uint64_t power = 0;  // of those, how many could have failed
  std::uint64_t held = 0;
  std::uint64_t failed = 0;
  std::uint64_t refused = 0;
  std::uint64_t not_applicable = 0;
};

// The simplest case that fails as a finding does: see search/minimize.h.
struct MinimalCase {
  std::string case_text;
  std::string signature;  // may differ from the finding's in `where`
  std::string message;
  std::vector<std::string> evidence;
  bool complete = false;  // no simpler step fails; false: the time was up before that was known
  std::uint64_t tried = 0;
  int failures = 1;  // of so many launches of the case
  int launches = 1;
};

struct Finding {
  std::string subject;
  std::string property;
  std::string signature;
  std::string case_text;  // the smallest case that shows it
  std::string message;
  std::vector<std::string> evidence;
  std::uint64_t count = 0;        // cases with this signature
  std::uint64_t first_case = 0;   // number of the first such case; corpus cases come first
  std::uint64_t case_number = 0;  // of case_text
  std::int64_t elements = 0;      // of all tensors of case_text
  std::optional<MinimalCase> minimal;
  std::string condition;  // "fails when ...", of the most frequent finding of a subject; empty: not inferred
};

struct SubjectReport {
  const Subject* subject = nullptr;
  std::uint64_t cases = 0;
  std::uint64_t launches = 0;
  std::vector<Tally> tallies;     // parallel to the properties
  std::vector<Finding> findings;  // by property, then by first case
  std::string refusal;            // why the first case that was refused was refused; empty when none was
};

struct CheckReport {
  std::uint64_t seed = 0;
  double seconds = 0;
  int jobs = 0;
  std::vector<const Property*> properties;
  std::vector<SubjectReport> subjects;
  double largest_error_over_bound = 0;
  std::uint64_t sanitize_every =
      0;                   // as in the options; 0 too where no subject or no property is of a sanitizing build
  int interrupted_by = 0;  // the signal that ended it early; 0: none
  std::string gave_up;     // why it ended early for a reason that is no kernel's; empty: it did not
};

// Throws EnvironmentError where it cannot even begin. What ends it early (SIGINT, SIGTERM, SIGHUP; a worker that cannot
// go on) leaves what was found so far.
CheckReport run_check(const CheckOptions& options);

}  // namespace tileproof

#endif
