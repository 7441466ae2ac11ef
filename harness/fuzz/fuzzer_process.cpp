#include "fuzz/fuzzer_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "memory/arena.h"

namespace tileproof {

namespace fs = std::filesystem;

FuzzerProcess::FuzzerProcess(std::string program, std::string directory, int jobs, std::uint64_t seed,
                             double timeout_seconds)
    : program_(std::move(program)),
      directory_(std::move(directory)),
      jobs_(jobs),
      seed_(seed),
      timeout_seconds_(timeout_seconds) {
  // Its processes are those of shells that it starts: when it ends they become this process's children, to be waited
  // for.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (pipe2(lifeline_, O_CLOEXEC) != 0) {
    throw EnvironmentError(
        fmt::format("cannot open a pipe ({}); close some files or raise the limit of open ones", std::strerror(errno)));
  }
}

FuzzerProcess::~FuzzerProcess() {
  stop();
  close(lifeline_[0]);
  close(lifeline_[1]);
}

void FuzzerProcess::become() const {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  fcntl(lifeline_[0], F_SETFD, 0);
  setenv("TILEPROOF_LIFELINE", std::to_string(lifeline_[0]).c_str(), 1);
  setenv("TILEPROOF_CAMPAIGN", directory_.c_str(), 1);
  setenv("TMPDIR", (directory_ + "/tmp").c_str(), 1);
  redirect_output(directory_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    std::signal(signal, SIG_DFL);
  }
  // A lost process is a crash to libFuzzer, and no reason to stop. Memory is limited by what a case may ask for. Its
  // entropic schedule spends more time on thousands of cells for each input than the kernels take.
  const auto seconds = static_cast<long>(std::ceil(timeout_seconds_));
  const std::vector<std::string> arguments = {program_,
                                              fmt::format("-fork={}", jobs_),
                                              "-ignore_crashes=1",
                                              "-ignore_timeouts=1",
                                              "-ignore_ooms=1",
                                              fmt::format("-timeout={}", std::max(1L, seconds)),
                                              "-rss_limit_mb=0",
                                              "-max_len=4096",
                                              "-len_control=0",
                                              "-entropic=0",
                                              fmt::format("-seed={}", 1 + (seed_ + starts_) % 0x7fffffff),
                                              fmt::format("-artifact_prefix={}/tmp/", directory_),
                                              directory_ + "/corpus"};
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  execv(program_.c_str(), pointers.data());
  _exit(127);
}

void FuzzerProcess::start() {
  ++starts_;
  child_ = fork();
  if (child_ == 0) {
    become();
  }
  if (child_ < 0) {
    throw EnvironmentError(fmt::format("cannot start a process ({}); use fewer --jobs", std::strerror(errno)));
  }
  setpgid(child_, child_);  // whoever comes first
}

void FuzzerProcess::stop() {
  if (child_ < 0) {
    return;
  }
  kill(-child_, SIGKILL);
  const pid_t group = child_;
  while (waitpid(-group, nullptr, 0) > 0 || errno == EINTR) {
    // Those that are left become this process's children one by one.
    kill(-group, SIGKILL);
  }
  child_ = -1;
  rescue_inputs(directory_);
}

bool FuzzerProcess::is_running() {
  if (child_ < 0) {
    return false;
  }
  siginfo_t ended{};
  if (waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == child_) {
    was_killed_ = ended.si_code == CLD_KILLED && ended.si_status == SIGKILL;
    stop();
    return false;
  }
  return true;
}

void redirect_output(const std::string& directory) {
  const int log = open((directory + "/libfuzzer.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(log >= 0 ? log : nothing, STDOUT_FILENO);
  dup2(log >= 0 ? log : nothing, STDERR_FILENO);
}

void rescue_inputs(const std::string& directory) {
  std::error_code ignored;
  const fs::path temporary = fs::path(directory) / "tmp";
  for (const fs::directory_entry& run : fs::directory_iterator(temporary, ignored)) {
    for (const fs::directory_entry& job : fs::directory_iterator(run, ignored)) {
      if (job.path().filename().string().rfind('C', 0) != 0 || !job.is_directory()) {
        continue;
      }
      for (const fs::directory_entry& input : fs::directory_iterator(job, ignored)) {
        const fs::path kept = fs::path(directory) / "corpus" / input.path().filename();
        if (!fs::exists(kept)) {
          fs::rename(input.path(), kept, ignored);
        }
      }
    }
  }
  fs::remove_all(temporary, ignored);
  fs::create_directories(temporary, ignored);
}

}  // namespace tileproof
