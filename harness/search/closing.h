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

}  // namespace tileproof

#endif
