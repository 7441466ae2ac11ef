// What a check does at its end for the person who reads it: each finding is minimised, and the most frequent one of
// each subject explained.
#ifndef TILEPROOF_SEARCH_CLOSING_H
#define TILEPROOF_SEARCH_CLOSING_H

#include <functional>
#include <string>

#include "search/check.h"

namespace tileproof {

struct ClosingOptions {
  double seconds = 10;          // for all findings together
  double timeout_seconds = 10;  // as in the check
  std::function<void(const std::string&)> progress = {};
};

// Minimises the findings of a report, the most frequent ones of every subject first, and then says of the first of each
// when it fails (search/explain.h), until the time is up: those that are left keep the smallest case that the check
// met. A signal ends it early too, and is noted in the report.
void close_findings(CheckReport& report, const ClosingOptions& options);

// One finding of a subject, from its smallest case that is known, in at most so many seconds. Sets its minimal case, or
// notes in its evidence that it did not fail again. Throws EnvironmentError and HarnessError.
void minimise_finding(Finding& finding, const Subject& subject, const std::vector<const Property*>& properties,
                      double timeout_seconds, double seconds);

// Sets the condition of a finding that has a minimal case. None when the time came first, so that what is said does not
// depend on it, or where there is none to say. Throws as above.
void explain_finding(Finding& finding, const Subject& subject, std::uint64_t seed, double timeout_seconds,
                     double seconds);

}  // namespace tileproof

#endif
