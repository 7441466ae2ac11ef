// What a check leaves behind: the table on the console, JSON (harness/docs/json.md) and JUnit.
#ifndef TILEPROOF_RECORD_RECORD_H
#define TILEPROOF_RECORD_RECORD_H

#include <string>

#include "search/check.h"

namespace tileproof {

// Properties in rows, subjects in columns; then each finding with its replay line; then one closing line.
std::string console_text(const CheckReport& report, bool colour);
std::string json_text(const CheckReport& report);
std::string junit_text(const CheckReport& report);

// "tileproof replay '...' --subject ...", quoted for a shell.
std::string replay_line(const std::string& case_text, const std::string& subject);

// What is shown of a finding: its minimal case where there is one, else the smallest that the check met.
struct Shown {
  std::string case_text;
  std::string message;
  std::vector<std::string> evidence;
};
Shown shown_of(const Finding& finding);

// Whether no property judged a single case: that is no pass.
bool judged_nothing(const CheckReport& report);

// What became of a property on a subject: "held", "FAILED", "not tried", "refused", "does not apply".
std::string verdict_word(const Tally& tally);

}  // namespace tileproof

#endif
