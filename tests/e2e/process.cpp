#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace tileproof::e2e {

namespace {

constexpr double kGuardSeconds = 60;
constexpr int kPollMilliseconds = 10;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void give_up(const std::string& what) { throw std::runtime_error(what); }

// The two ends of an output: what the process gets and what is read here. -1: none.
struct Ends {
  int theirs = -1;
  int ours = -1;
};

Ends open_sink(Sink sink) {
  Ends ends;
  if (sink == Sink::full_device) {
    ends.theirs = open("/dev/full", O_WRONLY | O_CLOEXEC);
  } else if (sink == Sink::terminal) {
    ends.ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    std::array<char, 128> name{};
    if (ends.ours < 0 || grantpt(ends.ours) != 0 || unlockpt(ends.ours) != 0 ||
        ptsname_r(ends.ours, name.data(), name.size()) != 0) {
      give_up("there is no pseudo terminal");
    }
    ends.theirs = open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  } else if (sink == Sink::pipe) {
    std::array<int, 2> both{};
    if (pipe2(both.data(), O_CLOEXEC) != 0) {
      give_up("no pipe");
    }
    ends = {both[1], both[0]};
  }
  if (sink != Sink::closed && ends.theirs < 0) {
    give_up("an output of the process cannot be opened");
  }
  return ends;
}

std::vector<std::string> environment_of(const Start& start) {
  std::vector<std::string> all{"TERM=xterm"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (text.rfind("NO_COLOR=", 0) != 0 && text.rfind("TERM=", 0) != 0) {
      all.push_back(text);
    }
  }
  // The last one of a name would be hidden by the first.
  all.insert(all.begin(), start.environment.begin(), start.environment.end());
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) {
    result.push_back(word.data());
  }
  result.push_back(nullptr);
  return result;
}

void place(posix_spawn_file_actions_t& actions, int end, int file) {
  if (end < 0) {
    posix_spawn_file_actions_addclose(&actions, file);
  } else {
    posix_spawn_file_actions_adddup2(&actions, end, file);
  }
}

// A pipe that holds `text` and then ends.
int input_of(const std::string& text) {
  std::array<int, 2> both{};
  if (pipe2(both.data(), O_CLOEXEC) != 0 ||
      write(both[1], text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    give_up("no pipe for the input");
  }
  close(both[1]);
  return both[0];
}

bool append_from(int& file, std::string& to) {
  std::array<char, 65536> chunk{};
  const ssize_t count = read(file, chunk.data(), chunk.size());
  if (count > 0) {
    to.append(chunk.data(), static_cast<std::size_t>(count));
    return true;
  }
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
    return true;
  }
  close(file);  // the end; a terminal says EIO
  file = -1;
  return false;
}

}  // namespace

Process::Process(const Start& start) : deadline_(now() + kGuardSeconds) {
  const int in = input_of(start.input);
  const Ends out = open_sink(start.out);
  const Ends err = open_sink(start.err);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!start.directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, start.directory.c_str());
  }
  place(actions, in, STDIN_FILENO);
  place(actions, out.theirs, STDOUT_FILENO);
  place(actions, err.theirs, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    sigaddset(&defaults, signal);
  }
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  const std::string program = start.program.empty() ? TILEPROOF_BINARY : start.program;
  std::vector<std::string> words{program};
  words.insert(words.end(), start.arguments.begin(), start.arguments.end());
  std::vector<std::string> environment = environment_of(start);
  const int error =
      posix_spawn(&pid_, program.c_str(), &actions, &attributes, pointers(words).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  for (const int file : {in, out.theirs, err.theirs}) {
    if (file >= 0) {
      close(file);
    }
  }
  out_ = out.ours;
  err_ = err.ours;
  if (error != 0) {
    give_up("cannot start " + program);
  }
}

Process::~Process() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int file : {out_, err_}) {
    if (file >= 0) {
      close(file);
    }
  }
}

bool Process::read_some() {
  if (out_ < 0 && err_ < 0) {
    return false;
  }
  std::array<pollfd, 2> files{{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
  poll(files.data(), files.size(), kPollMilliseconds);
  if (files[0].revents != 0) {
    append_from(out_, outcome_.out);
  }
  if (files[1].revents != 0) {
    append_from(err_, outcome_.err);
  }
  if (now() > deadline_ && !outcome_.killed_by_guard) {
    outcome_.killed_by_guard = true;
    kill(-pid_, SIGKILL);
  }
  return true;
}

bool Process::read_until(const std::function<bool(const Outcome&)>& done) {
  while (!done(outcome_)) {
    if (!read_some() || outcome_.killed_by_guard) {
      return false;
    }
  }
  return true;
}

Outcome Process::wait() {
  while (read_some()) {
  }
  int status = 0;
  const bool ended = eventually([this, &status] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!ended) {
    outcome_.killed_by_guard = true;
    kill(-pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  pid_ = -1;
  if (outcome_.killed_by_guard) {
    give_up("the process, or one that holds its outputs, did not end within the guard");
  }
  outcome_.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return outcome_;
}

std::vector<pid_t> Process::children() const {
  const std::string pid = std::to_string(pid_);
  std::istringstream list(read_file("/proc/" + pid + "/task/" + pid + "/children"));
  return {std::istream_iterator<pid_t>(list), {}};
}

std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<pid_t> all;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    std::istringstream list(read_file(task.path().string() + "/children"));
    for (pid_t child = 0; list >> child;) {
      all.push_back(child);
      const std::vector<pid_t> more = descendants_of(child);
      all.insert(all.end(), more.begin(), more.end());
    }
  }
  return all;
}

Outcome run(const Start& start) { return Process(start).wait(); }

Outcome tileproof(const std::vector<std::string>& arguments) {
  Start start;
  start.arguments = arguments;
  return run(start);
}

bool has_terminals() {
  const int end = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  std::array<char, 128> name{};
  const bool has = end >= 0 && grantpt(end) == 0 && unlockpt(end) == 0 && ptsname_r(end, name.data(), name.size()) == 0;
  if (end >= 0) {
    close(end);
  }
  return has;
}

bool is_running(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] != 'Z' &&
         stat[name_end + 2] != 'X';
}

bool eventually(const std::function<bool()>& holds) {
  const double deadline = now() + kGuardSeconds;
  while (!holds()) {
    if (now() > deadline) {
      return false;
    }
    poll(nullptr, 0, kPollMilliseconds);
  }
  return true;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tileproof-e2e-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    give_up("cannot make " + pattern);
  }
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TemporaryDirectory::write(const std::string& name, const std::string& content) const {
  std::ofstream(file(name), std::ios::binary) << content;
  return file(name);
}

std::vector<std::string> TemporaryDirectory::names() const {
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    result.push_back(entry.path().filename().string());
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace tileproof::e2e
