#include "search/prober.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "execute/device.h"
#include "execute/executor.h"
#include "memory/arena.h"
#include "search/show.h"
#include "search/worker_pool.h"

namespace tileproof {

namespace {

using nlohmann::json;

// In front of a case, what is asked about it.
constexpr char kPlain = ' ';
constexpr char kMap = '+';
constexpr char kOwner = '?';

Engine::Closer closer_for(char kind) {
  return kind == kMap ? Engine::Closer(map_of_failure) : kind == kOwner ? Engine::Closer(owner_of_value) : nullptr;
}

// False: nobody reads any more.
bool write_line(int file, const std::string& line) {
  const std::string whole = line + "\n";
  std::size_t done = 0;
  while (done < whole.size()) {
    const ssize_t count = write(file, whole.data() + done, whole.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    done += static_cast<std::size_t>(count);
  }
  return true;
}

json verdict_of(Engine& engine, const Subject& subject, const std::vector<const Property*>& properties, const Case& c) {
  json reply{{"judged", false}, {"failures", json::array()}};
  std::vector<Judged> judged;
  try {
    judged = engine.check(subject, {&c, 1}, properties).front();
  } catch (const EnvironmentError&) {  // it asks for more memory than there is: refused, as in a check
    return reply;
  } catch (const HarnessError& error) {
    return {{"harness", fmt::format("{} (case: {})", error.what(), text(c))}};
  } catch (const DeviceLost& error) {
    return {{"lost", error.what()}};
  }
  for (std::size_t i = 0; i < judged.size(); ++i) {
    const Judged& one = judged[i];
    reply["judged"] = reply["judged"].get<bool>() || one.verdict == Verdict::held || one.verdict == Verdict::failed;
    if (one.failure) {
      reply["failures"].push_back({{"signature", signature(properties[i]->name(), *one.failure)},
                                   {"message", one.failure->message},
                                   {"evidence", one.failure->evidence}});
    }
  }
  return reply;
}

[[noreturn]] void serve(int from_parent, int to_parent, pid_t parent, const Subject& subject,
                        const std::vector<const Property*>& properties) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(0);
  }
  // A terminal signals the whole group; when this ends is for the parent to say.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
  try {
    Engine engine(make_executor(subject.raw->device, 0));
    std::string buffer;
    char chunk[4096];
    while (true) {
      const std::size_t end = buffer.find('\n');
      if (end == std::string::npos) {
        const ssize_t count = read(from_parent, chunk, sizeof chunk);
        if (count < 0 && errno == EINTR) {
          continue;
        }
        if (count <= 0) {
          _exit(0);
        }
        buffer.append(chunk, static_cast<std::size_t>(count));
        continue;
      }
      const Case c = parse_case(std::string_view(buffer).substr(1, end - 1));
      engine.look_closer_with(closer_for(buffer.front()));
      buffer.erase(0, end + 1);
      const json reply = verdict_of(engine, subject, properties, c);
      if (!write_line(to_parent, reply.dump(-1, ' ', false, json::error_handler_t::replace)) ||
          reply.contains("lost")) {
        _exit(0);
      }
    }
  } catch (const std::exception& error) {
    write_line(to_parent, json{{"environment", error.what()}}.dump());
  }
  _exit(0);
}

}  // namespace

Signature parse_signature(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '/' && parts.size() < 4) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  parts.resize(4);
  return {parts[0], parts[1], parts[2], parts[3]};
}

bool same_failure(const Signature& a, const Signature& b) {
  return a.property == b.property && a.tensor == b.tensor && a.kind == b.kind;
}

const ProbedFailure* Probe::find(const Signature& wanted) const {
  for (const ProbedFailure& failure : failures) {
    if (same_failure(parse_signature(failure.signature), wanted)) {
      return &failure;
    }
  }
  return nullptr;
}

Prober::Prober(const Subject& subject, std::vector<const Property*> properties, double timeout_seconds)
    : subject_(subject), properties_(std::move(properties)), timeout_seconds_(timeout_seconds) {}

Prober::~Prober() { stop(); }

void Prober::stop() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(to_child_);
    close(from_child_);
    child_ = -1;
  }
}

void Prober::start() {
  int down[2];
  int up[2];
  if (pipe2(down, O_CLOEXEC) != 0) {
    throw EnvironmentError(fmt::format("cannot open a pipe to a process: {}", std::strerror(errno)));
  }
  if (pipe2(up, O_CLOEXEC) != 0) {
    close(down[0]);
    close(down[1]);
    throw EnvironmentError(fmt::format("cannot open a pipe to a process: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int error = errno;
  if (pid == 0) {
    close(down[1]);
    close(up[0]);
    serve(down[0], up[1], parent, subject_, properties_);
  }
  close(down[0]);
  close(up[1]);
  if (pid < 0) {
    close(down[1]);
    close(up[0]);
    throw EnvironmentError(fmt::format("cannot start a process: {}", std::strerror(error)));
  }
  child_ = pid;
  to_child_ = down[1];
  from_child_ = up[0];
  timed_out_ = false;
  buffer_.clear();
}

std::optional<std::string> Prober::answer() {
  const std::int64_t deadline = steady_ns() + static_cast<std::int64_t>(timeout_seconds_ * 1e9);
  while (true) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    const std::int64_t left = (deadline - steady_ns()) / 1'000'000;
    pollfd readable{from_child_, POLLIN, 0};
    const int ready = left < 0 ? 0 : poll(&readable, 1, static_cast<int>(left) + 1);
    if (ready == 0) {
      timed_out_ = true;
      kill(child_, SIGKILL);
      return std::nullopt;
    }
    char chunk[4096];
    const ssize_t count = ready < 0 ? -1 : read(from_child_, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return std::nullopt;
    }
    buffer_.append(chunk, static_cast<std::size_t>(count));
  }
}

// The child is gone: how it went is the failure.
Probe Prober::lost() {
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  close(to_child_);
  close(from_child_);
  child_ = -1;
  const std::string how = timed_out_ ? "timeout" : end_of_process(status);
  return {true,
          {{fmt::format("launch_valid//launch/{}", how),
            timed_out_ ? fmt::format("the case did not end within {:g} s and was killed", timeout_seconds_)
                       : fmt::format("the process that launched it died with {}", how),
            {}}}};
}

Probe Prober::ask(const std::string& request) {
  ++probes_;
  if (child_ < 0) {
    start();
  }
  // A child that died between two cases is replaced once: that death is no answer to this case.
  if (!write_line(to_child_, request)) {
    stop();
    start();
    write_line(to_child_, request);
  }
  const std::optional<std::string> line = answer();
  if (!line) {
    return lost();
  }
  const json reply = json::parse(*line);
  if (reply.contains("environment")) {
    throw EnvironmentError(reply.at("environment").get<std::string>());
  }
  if (reply.contains("harness")) {
    throw HarnessError(reply.at("harness").get<std::string>());
  }
  if (reply.contains("lost")) {
    const std::string how = reply.at("lost");
    stop();
    return {true,
            {{fmt::format("launch_valid//launch/{}", how),
              fmt::format("the process that launched it died with {}", how),
              {}}}};
  }
  Probe probe{reply.at("judged"), {}};
  for (const json& failure : reply.at("failures")) {
    probe.failures.push_back({failure.at("signature"), failure.at("message"), failure.at("evidence")});
  }
  return probe;
}

Probe Prober::probe(const Case& c) { return ask(kPlain + text(c)); }
Probe Prober::look_closer(const Case& c) { return ask(kMap + text(c)); }
Probe Prober::look_for_owner(const Case& c) { return ask(kOwner + text(c)); }

}  // namespace tileproof
