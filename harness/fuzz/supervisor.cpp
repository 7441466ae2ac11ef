#include "fuzz/supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "fuzz/examiner.h"
#include "fuzz/fuzzer_process.h"
#include "memory/arena.h"
#include "search/interrupt.h"

namespace tileproof {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kTick = 200;                // ms between two looks at everything
constexpr std::int64_t kStatusEvery = 1000;        // ms
constexpr std::int64_t kAppendEvery = 5000;        // ms
constexpr std::int64_t kRecordEvery = 10'000;      // ms
constexpr double kClosingSeconds = 60;             // to look into what is left when the time is up,
constexpr double kInterruptedClosingSeconds = 20;  // or when somebody waits for it
// A fuzzer that ends within its first seconds so often in a row will go on ending.
constexpr int kMostFailedStarts = 5;
constexpr std::int64_t kFailedStart = 5000;  // ms
// What the processes may write before the next look.
constexpr std::uint64_t kLeastFree = std::uint64_t{16} << 20;

const char* const kDirectories[] = {"corpus", "findings", "flights", "lost", "tmp"};

void remove_partial_files(const std::string& directory) {
  std::error_code gone;
  for (const char* inside : {"", "findings", "lost"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(directory) / inside, gone)) {
      if (entry.path().extension() == ".partial") {
        fs::remove(entry.path(), gone);
      }
    }
  }
}

std::string last_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    last = line.empty() ? last : line;
  }
  return last;
}

// Minimising and explaining, in a process of its own: it launches kernels, and forks.
class ExaminerProcess {
 public:
  explicit ExaminerProcess(CampaignBoard& board) : board_(board) {}
  ~ExaminerProcess() { stop(); }
  ExaminerProcess(const ExaminerProcess&) = delete;
  ExaminerProcess& operator=(const ExaminerProcess&) = delete;

  // Unless one runs. No store may be open: SQLite's state is not for two processes.
  void start(const std::string& directory) {
    if (child_ >= 0) {
      return;
    }
    child_ = fork();
    if (child_ == 0) {
      become(directory);
    }
    if (child_ < 0) {
      throw EnvironmentError(fmt::format("cannot start a process ({}); use fewer --jobs", std::strerror(errno)));
    }
    setpgid(child_, child_);
  }
  bool is_running() {
    if (child_ >= 0 && waitpid(child_, nullptr, WNOHANG) == child_) {
      kill(-child_, SIGKILL);  // what it may have left
      child_ = -1;
    }
    return child_ >= 0;
  }
  void stop() {
    if (child_ >= 0) {
      kill(-child_, SIGKILL);
      while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
      }
      child_ = -1;
    }
  }

 private:
  [[noreturn]] void become(const std::string& directory) {
    setpgid(0, 0);  // a Ctrl-C at the terminal is the supervisor's
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    redirect_output(directory);
    try {
      examine(directory);
      _exit(0);
    } catch (const std::exception& error) {
      board_.give_up(error.what());
      _exit(3);
    }
  }

  CampaignBoard& board_;
  pid_t child_ = -1;
};

class Supervisor {
 public:
  explicit Supervisor(const CampaignOptions& options)
      : options_(options),
        settings_(read_settings(options.directory)),
        history_(options.directory, subjects_of(settings_), options.seconds),
        fuzzer_(options.program, options.directory, options.jobs, settings_.seed + history_.board().cases(),
                settings_.timeout_seconds),
        examiner_(history_.board()),
        began_(milliseconds_now()) {
    remove_partial_files(options.directory);
    history_.board().forget_giving_up();
    rescue_inputs(options.directory);
    collect_flights(options.directory, Flights::all);
    Store facts(options.directory, Database::Mode::create);
    facts.set_fact("seed", std::to_string(settings_.seed));
    facts.set_fact("subjects", fmt::format("{}", fmt::join(settings_.subjects, " ")));
    facts.set_fact("properties", fmt::format("{}", fmt::join(settings_.properties, " ")));
  }

  CampaignOutcome run() {
    const auto until = began_ + static_cast<std::int64_t>(options_.seconds * 1000);
    try {
      while (milliseconds_now() < until && interrupted_by() == 0 && gave_up_.empty()) {
        tick();
        std::this_thread::sleep_for(std::chrono::milliseconds(kTick));
      }
      close();
    } catch (const std::exception& error) {
      gave_up_ = error.what();
    }
    CampaignOutcome outcome;
    outcome.interrupted_by = interrupted_by();
    outcome.gave_up = gave_up_;
    outcome.harness_error = last_line_of(options_.directory + "/harness_errors.txt");
    outcome.status = history_.now();
    return outcome;
  }

 private:
  void tick() {
    keep_fuzzing();
    collect_flights(options_.directory, Flights::of_the_dead);
    require_space();
    gave_up_ = history_.board().gave_up();
    const std::int64_t now = milliseconds_now();
    if (now < status_at_) {
      return;
    }
    status_at_ = now + kStatusEvery;
    const CampaignStatus status = history_.now();
    if (now >= append_at_) {
      history_.append(status);
      append_at_ = now + kAppendEvery;
    }
    if (now >= record_at_) {
      history_.record(status);
      record_at_ = now + kRecordEvery;
    }
    keep_examining();
    options_.status(status);
  }

  void keep_fuzzing() {
    if (fuzzer_.is_running()) {
      return;
    }
    const std::int64_t now = milliseconds_now();
    if (started_at_ != 0) {
      failed_starts_ = now - started_at_ < kFailedStart && !fuzzer_.was_killed() ? failed_starts_ + 1 : 0;
      if (failed_starts_ >= kMostFailedStarts) {
        throw EnvironmentError(
            fmt::format("libFuzzer ended {} times within {} s; the last line of {}/libfuzzer.log: {}", failed_starts_,
                        kFailedStart / 1000, options_.directory, last_line_of(options_.directory + "/libfuzzer.log")));
      }
    }
    started_at_ = now;
    fuzzer_.start();
  }

  void keep_examining() {
    if (!examiner_.is_running() && something_waits()) {
      examiner_.start(options_.directory);
    }
  }

  bool something_waits() const {
    return needs_examination(options_.directory, Store(options_.directory, Database::Mode::read));
  }

  void require_space() const {
    struct statvfs status {};
    if (statvfs(options_.directory.c_str(), &status) != 0) {
      throw EnvironmentError(fmt::format("'{}' is gone ({})", options_.directory, std::strerror(errno)));
    }
    const std::uint64_t free = std::uint64_t{status.f_bavail} * status.f_frsize;
    if (free < kLeastFree || (status.f_files > 0 && status.f_favail == 0)) {
      throw EnvironmentError(
          fmt::format("the disk of '{}' is full ({} MiB and {} files are left); free space and start "
                      "again: the campaign goes on",
                      options_.directory, free >> 20, status.f_favail));
    }
  }

  // The search is over; what it met is still looked into.
  void close() {
    fuzzer_.stop();
    collect_flights(options_.directory, Flights::discard);
    const int interrupts = interrupt_count();
    const double seconds = interrupts > 0 ? kInterruptedClosingSeconds : kClosingSeconds;
    const std::int64_t until = milliseconds_now() + static_cast<std::int64_t>(seconds * 1000);
    while (gave_up_.empty() && milliseconds_now() < until && interrupt_count() == interrupts &&
           (examiner_.is_running() || something_waits())) {
      keep_examining();
      options_.closing("looking into the last findings");
      std::this_thread::sleep_for(std::chrono::milliseconds(kTick));
      gave_up_ = history_.board().gave_up();
    }
    examiner_.stop();
    const CampaignStatus status = history_.now();
    history_.append(status);
    history_.record(status);
  }

  const CampaignOptions& options_;
  CampaignSettings settings_;
  CampaignHistory history_;
  FuzzerProcess fuzzer_;
  ExaminerProcess examiner_;
  std::string gave_up_;
  std::int64_t began_;
  std::int64_t started_at_ = 0, status_at_ = 0, append_at_ = 0, record_at_ = 0;
  int failed_starts_ = 0;
};

}  // namespace

CampaignLock::CampaignLock(const std::string& directory) {
  std::error_code error;
  if (fs::exists(directory, error) && !fs::is_directory(directory, error)) {
    throw InputError(
        fmt::format("--dir '{}' given, which is no directory; expected a new one, or a campaign's", directory));
  }
  if (!has_settings(directory) && fs::is_directory(directory, error) && !fs::exists(directory + "/lock") &&
      !fs::is_empty(directory, error)) {
    throw InputError(
        fmt::format("--dir '{}' given, which holds other things and no campaign; expected a new directory, "
                    "an empty one, or a campaign's",
                    directory));
  }
  fs::create_directories(directory, error);
  file_ = open((directory + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) {
    throw InputError(fmt::format("--dir '{}' given, which cannot be written ({}); expected a directory that can",
                                 directory, std::strerror(errno)));
  }
  // Of this process alone: one that it forks must not hold on to it.
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(file_, F_SETLK, &whole) != 0) {
    close(file_);
    throw InputError(
        fmt::format("--dir '{}' given, where a campaign runs; expected one that does not: wait for it, or "
                    "choose another directory",
                    directory));
  }
  for (const char* inside : kDirectories) {
    fs::create_directories(fs::path(directory) / inside, error);
  }
}

CampaignLock::~CampaignLock() { close(file_); }

CampaignOutcome run_campaign(const CampaignOptions& options) {
  const InterruptScope scope;
  return Supervisor(options).run();
}

}  // namespace tileproof
