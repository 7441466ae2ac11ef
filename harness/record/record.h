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
std::string replay_line(const Finding& finding);

// What became of a property on a subject: "held", "FAILED", "not tried", "refused", "does not apply".
std::string verdict_word(const Tally& tally);

// A file that is written whole or not at all. The constructor creates the temporary beside it and throws InputError
// when that cannot be done, so that a check does not run for nothing.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void commit(const std::string& text);  // throws EnvironmentError

 private:
  std::string path_;
  std::string temporary_;
};

}  // namespace tileproof

#endif
