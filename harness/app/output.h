// Standard output and standard error of the program.
#ifndef TILEPROOF_APP_OUTPUT_H
#define TILEPROOF_APP_OUTPUT_H

#include <string>

#include "search/check.h"

namespace tileproof {

// Makes sure that files 0, 1 and 2 are open, so that no file opened later takes their place. Throws EnvironmentError
// when standard output is closed: there would be nobody to report to.
void require_standard_files();

// Writes to standard output at once. Throws EnvironmentError when it takes no more (a full device).
void say(const std::string& text);

// Whether what is written to this file may be coloured: a terminal, and neither NO_COLOR nor TERM=dumb.
bool colour_on(int file);

// A line of progress on standard error: on a terminal only, after the first second, a few times a second.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& text);
  void clear();

 private:
  double start_;
  double last_ = 0;
  bool terminal_;
  bool shown_ = false;
};

// run_check with a line of progress on standard error where that is a terminal.
CheckReport run_with_progress(CheckOptions options);

// Exit status of a check that ran to its end (EnvironmentError where it gave up): 1 a property failed; else 128 + the
// signal that interrupted it; 2 nothing was judged, with a line that says so; else 0.
int status_of(const CheckReport& report);

}  // namespace tileproof

#endif
