#include "app/report_files.h"

#include <unistd.h>

#include <exception>

#include <CLI/CLI.hpp>

#include "app/output.h"
#include "record/record.h"

namespace tileproof {

void ReportFiles::add_options(CLI::App& app) {
  app.add_option("--junit", junit_path_, "write a JUnit file: a suite per subject, a test per property")
      ->type_name("FILE");
  app.add_option("--json", json_path_, "write tileproof.check/1; '-': to standard output, instead of the table")
      ->type_name("FILE");
}

void ReportFiles::open() {
  if (junit_path_ && junit_path_ == json_path_) {
    throw InputError("--junit and --json '" + *json_path_ + "' given, expected two different files");
  }
  if (junit_path_) {
    junit_.emplace("--junit", *junit_path_);
  }
  if (json_path_ && !json_on_output()) {
    json_.emplace("--json", *json_path_);
  }
}

void ReportFiles::write(const CheckReport& report) const {
  // A file that cannot be written must not cost the table too.
  std::exception_ptr failure;
  try {
    if (junit_) {
      junit_->commit(junit_text(report));
    }
    if (json_) {
      json_->commit(json_text(report));
    }
  } catch (const EnvironmentError&) {
    failure = std::current_exception();
  }
  say(json_on_output() ? json_text(report) : console_text(report, colour_on(STDOUT_FILENO)));
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace tileproof
