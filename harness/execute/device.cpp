#include "execute/device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <sstream>

#include <fmt/format.h>

#include "memory/arena.h"

namespace tileproof {

namespace {

// What a child process says: the number of GPUs, the reason, then lines.
std::string ask_in_child() {
  int ends[2];
  if (pipe(ends) != 0) {
    throw EnvironmentError("cannot open a pipe to a process that looks for GPUs");
  }
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) {
    throw EnvironmentError("cannot start a process that looks for GPUs");
  }
  if (pid == 0) {
    close(ends[0]);
    const CudaReport report = cuda::look();
    std::string text = fmt::format("{}\n{}\n{}", report.gpus, report.reason, fmt::join(report.lines, "\n"));
    const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char chunk[4096];
  for (ssize_t count = 0; (count = read(ends[0], chunk, sizeof chunk)) != 0;) {
    if (count < 0 && errno != EINTR) {
      break;
    }
    text.append(chunk, count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0
             ? text
             : std::string("0\nthe CUDA driver ended the process that looked for GPUs");
}

}  // namespace

const CudaReport& cuda_report() {
  static const CudaReport report = [] {
    CudaReport read;
    std::istringstream text(ask_in_child());
    std::string line;
    std::getline(text, line);
    read.gpus = std::atoi(line.c_str());
    std::getline(text, read.reason);
    while (std::getline(text, line)) {
      read.lines.push_back(line);
    }
    return read;
  }();
  return report;
}

std::vector<const Subject*> subjects_on(std::string_view device, const std::vector<std::string>& globs) {
  std::vector<const Subject*> on_cpu;
  std::vector<const Subject*> on_cuda;
  for (const Subject* subject : matching_subjects(globs)) {
    (std::string_view(subject->raw->device) == "cuda" ? on_cuda : on_cpu).push_back(subject);
  }
  if (device == "cpu") {
    return on_cpu;
  }
  const bool wants_cuda = device == "cuda" || (on_cpu.empty() && !on_cuda.empty());
  if (wants_cuda && !cuda_report().usable()) {
    throw EnvironmentError(fmt::format("device 'cuda' cannot be used: {}; --device cpu can", cuda_report().reason));
  }
  return wants_cuda || (!on_cuda.empty() && cuda_report().usable()) ? on_cuda : on_cpu;
}

std::unique_ptr<Executor> make_executor(std::string_view device, int ordinal) {
  return device == "cuda" ? cuda::make_executor(ordinal) : make_cpu_executor();
}

}  // namespace tileproof
