#include "app/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "execute/executor.h"
#include "record/record.h"

namespace tileproof {

namespace {

// A short check needs no progress.
constexpr double kQuietSeconds = 1;

void show_progress(const Progress& progress) {
  const std::string budget =
      progress.total_seconds > 0 ? fmt::format(" of {:.0f}", progress.total_seconds) : std::string();
  fmt::print(stderr, "\r\x1b[K{:.0f}{} s  {} cases  {} launches  {} findings  {}", progress.elapsed, budget,
             progress.cases, progress.launches, progress.findings, progress.subject);
}

}  // namespace

void require_standard_files() {
  const bool closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
  for (int file = open("/dev/null", O_RDWR); file >= 0; file = open("/dev/null", O_RDWR)) {
    if (file > STDERR_FILENO) {
      close(file);
      break;
    }
  }
  if (closed) {
    throw EnvironmentError("standard output is closed, expected it open; redirect it to a file or to /dev/null");
  }
}

void say(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) {
      throw EnvironmentError(fmt::format("standard output cannot be written ({}); free space or redirect it elsewhere",
                                         std::strerror(errno)));
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

bool colour_on(int file) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  return isatty(file) != 0 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

ProgressLine::ProgressLine() : start_(static_cast<double>(steady_ns()) * 1e-9), terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(const std::string& text) {
  const double now = static_cast<double>(steady_ns()) * 1e-9;
  if (terminal_ && now - start_ > kQuietSeconds && now - last_ > 0.2) {
    fmt::print(stderr, "\r\x1b[K{:.0f} s  {}", now - start_, text);
    last_ = now;
    shown_ = true;
  }
}

void ProgressLine::clear() {
  if (shown_) {
    fmt::print(stderr, "\r\x1b[K");
    shown_ = false;
  }
}

CheckReport run_with_progress(CheckOptions options) {
  bool shown = false;
  if (isatty(STDERR_FILENO) != 0) {
    options.progress = [&shown](const Progress& progress) {
      if (progress.elapsed > kQuietSeconds) {
        show_progress(progress);
        shown = true;
      }
    };
  }
  CheckReport report = run_check(options);
  if (shown) {
    fmt::print(stderr, "\r\x1b[K");
  }
  return report;
}

int status_of(const CheckReport& report) {
  if (!report.gave_up.empty()) {
    throw EnvironmentError(report.gave_up);
  }
  const bool failed = std::any_of(report.subjects.begin(), report.subjects.end(),
                                  [](const SubjectReport& subject) { return !subject.findings.empty(); });
  if (failed) {
    return 1;
  }
  if (report.interrupted_by != 0) {
    return 128 + report.interrupted_by;
  }
  if (judged_nothing(report)) {
    throw InputError(
        "no property judged any case, which is no pass: the cases were refused, the properties do not apply, or there "
        "was no case; choose other subjects, properties or cases");
  }
  return 0;
}

}  // namespace tileproof
