// --junit and --json of the commands that check.
#ifndef TILEPROOF_APP_REPORT_FILES_H
#define TILEPROOF_APP_REPORT_FILES_H

#include <optional>
#include <string>

#include "record/output_file.h"
#include "search/check.h"

namespace CLI {
class App;
}

namespace tileproof {

class ReportFiles {
 public:
  void add_options(CLI::App& app);
  // Tries the paths before anything runs. Throws InputError.
  void open();
  // JSON goes to standard output ("--json -"), and nothing else does.
  bool json_on_output() const { return json_path_ == "-"; }
  // Writes the files, then the table (or JSON) to standard output. Throws EnvironmentError.
  void write(const CheckReport& report) const;

 private:
  std::optional<std::string> junit_path_;
  std::optional<std::string> json_path_;
  std::optional<OutputFile> junit_;
  std::optional<OutputFile> json_;
};

}  // namespace tileproof

#endif
