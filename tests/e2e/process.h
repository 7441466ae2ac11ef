// Runs the tileproof binary as a user does: arguments, environment, files 0, 1 and 2, signals.
#ifndef TILEPROOF_TESTS_E2E_PROCESS_H
#define TILEPROOF_TESTS_E2E_PROCESS_H

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace tileproof::e2e {

enum class Sink { pipe, terminal, closed, full_device };

struct Start {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // KEY=VALUE, on top of this process's; NO_COLOR and TERM are set by `terminal`
  std::string input;                     // standard input; at most what a pipe holds
  Sink out = Sink::pipe;
  Sink err = Sink::pipe;
  std::string directory;  // where it runs; empty: here
  std::string program;    // empty: tileproof
};

struct Outcome {
  int status = -1;  // exit status; -1 when a signal ended it
  int signal = 0;
  bool killed_by_guard = false;  // it did not end within the guard of a minute
  std::string out;               // a terminal's is collected here too
  std::string err;
};

// A process in a group of its own. It is killed with its group when the object goes.
class Process {
 public:
  explicit Process(const Start& start);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Collects output until `done` holds of it; false when the process ended or the guard struck before.
  bool read_until(const std::function<bool(const Outcome&)>& done);
  Outcome wait();                       // throws when the guard strikes: nothing may outlive it that holds its outputs
  std::vector<pid_t> children() const;  // its child processes now

 private:
  bool read_some();  // false at the end of both outputs
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  double deadline_ = 0;
  Outcome outcome_;
};

// Whether Sink::terminal can be had: a bare chroot has no /dev/pts.
bool has_terminals();

Outcome run(const Start& start);
Outcome tileproof(const std::vector<std::string>& arguments);

// All that came of a process and have one of its line still there, each after its parent.
std::vector<pid_t> descendants_of(pid_t pid);

// Whether a process is there and no zombie.
bool is_running(pid_t pid);

// Asks again and again, until `holds` does or a minute has passed; returns whether it did.
bool eventually(const std::function<bool()>& holds);

// A directory of the test's own, removed with it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const;  // returns its path
  std::vector<std::string> names() const;                                        // what is in it, sorted

 private:
  std::string path_;
};

std::string read_file(const std::string& path);

}  // namespace tileproof::e2e

#endif
