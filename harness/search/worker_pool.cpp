#include "search/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include <fmt/format.h>

#include "memory/arena.h"

namespace tileproof {

namespace {

constexpr int kPollMilliseconds = 20;

constexpr int kDeviceLost = 4;  // exit status
constexpr const char* kTimeout = "timeout";
// Several units in flight together are given up after this part of the timeout, and tried one by one, each with all of
// it: a hang costs little more than the timeout, and units that were only slow lose nothing but that work.
constexpr std::int64_t kPatience = 4;

struct Worker {
  pid_t pid = -1;
  int pipe = -1;
  std::string buffer;
  bool timed_out = false;
  int number = 0;
  std::span<Slot> lanes;
  Slot* alone = nullptr;
  // Units one of which may have cost the worker before this one, which tries each alone; and how that one ended.
  std::vector<Range> suspects;
  std::string suspected_of;
  std::uint64_t suspected = 0;  // how many there were; 0: none are being tried
  Range first_suspect;
  bool culprit_found = false;
};

// No worker outlives the pool, however it is left.
struct Workers {
  explicit Workers(std::size_t count) : all(count) {}
  ~Workers() {
    for (const Worker& worker : all) {
      if (worker.pid > 0) {
        kill(worker.pid, SIGKILL);
        waitpid(worker.pid, nullptr, 0);
        close(worker.pipe);
      }
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  std::vector<Worker> all;
};

class SharedSlots {
 public:
  explicit SharedSlots(std::size_t count) : size_(count * sizeof(Slot)) {
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw EnvironmentError("cannot map shared memory for the worker processes");
    }
    slots_ = static_cast<Slot*>(memory);
    std::uninitialized_default_construct_n(slots_, count);
  }
  ~SharedSlots() { munmap(slots_, size_); }
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;
  Slot& operator[](std::size_t index) { return slots_[index]; }

 private:
  Slot* slots_ = nullptr;
  std::size_t size_;
};

// A frame is its size, its kind and its text.
enum class Frame : char { message, failure };

void write_all(int file, Frame kind, const std::string& message) {
  const auto size = static_cast<std::uint32_t>(message.size() + 1);
  std::string framed(sizeof size, '\0');
  std::memcpy(framed.data(), &size, sizeof size);
  framed += static_cast<char>(kind);
  framed += message;
  std::size_t done = 0;
  while (done < framed.size()) {
    const ssize_t count = write(file, framed.data() + done, framed.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      _exit(0);  // the supervisor is gone: nobody is left to report to
    }
    done += static_cast<std::size_t>(count);
  }
}

[[noreturn]] void child(int file, pid_t supervisor, const Worker& worker, const PoolCallbacks& callbacks) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) {
    _exit(0);  // it died before the line above could take effect
  }
  // A terminal or a CI runner signals the whole group; when work ends is for the supervisor to say.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
  try {
    std::mutex writing;
    callbacks.work(WorkerSide{worker.number, worker.lanes, worker.alone, worker.suspects,
                              [file, &writing](const std::string& message) {
                                const std::lock_guard lock(writing);
                                write_all(file, Frame::message, message);
                              }});
  } catch (const std::bad_alloc&) {
    write_all(file, Frame::failure, "out of memory; use fewer --jobs or smaller shapes");
  } catch (const std::exception& error) {
    write_all(file, Frame::failure, error.what());
  }
  _exit(0);
}

void start(Worker& worker, const PoolCallbacks& callbacks) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw EnvironmentError(fmt::format("cannot open a pipe to a worker: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);
  const pid_t supervisor = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    throw EnvironmentError(fmt::format("cannot start a worker process: {}", std::strerror(error)));
  }
  if (pid == 0) {
    close(ends[0]);
    child(ends[1], supervisor, worker, callbacks);
  }
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  worker.pid = pid;
  worker.pipe = ends[0];
}

// Hands every whole message to the supervisor; false at the end of the stream. Throws EnvironmentError when the worker
// could not do its work for a reason that is no kernel's.
bool drain(Worker& worker, const PoolCallbacks& callbacks) {
  char chunk[65536];
  while (true) {
    const ssize_t count = read(worker.pipe, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return count < 0 && errno == EAGAIN;
    }
    worker.buffer.append(chunk, static_cast<std::size_t>(count));
    std::size_t at = 0;
    std::uint32_t size = 0;
    while (worker.buffer.size() - at >= sizeof size) {
      std::memcpy(&size, worker.buffer.data() + at, sizeof size);
      if (worker.buffer.size() - at - sizeof size < size) {
        break;
      }
      const auto kind = static_cast<Frame>(worker.buffer[at + sizeof size]);
      const std::string text = worker.buffer.substr(at + sizeof size + 1, size - 1);
      if (kind == Frame::failure) {
        throw EnvironmentError(fmt::format("a worker process gave up: {}", text));
      }
      callbacks.message(text);
      at += sizeof size + size;
    }
    worker.buffer.erase(0, at);
  }
}

std::string how_it_ended(int status, const Worker& worker) {
  if (worker.timed_out) {
    return kTimeout;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kDeviceLost) {
    if (worker.alone->error[0] != '\0') {
      return worker.alone->error.data();
    }
    for (const Slot& slot : worker.lanes) {
      if (slot.error[0] != '\0') {
        return slot.error.data();
      }
    }
  }
  return end_of_process(status);
}

// Drops the suspects that have been tried: those before `unit` of `subject`, which is in the first range left.
void drop_tried(std::vector<Range>& suspects, std::uint32_t subject, std::uint64_t unit) {
  while (!suspects.empty()) {
    Range& first = suspects.front();
    if (first.subject == subject && first.from <= unit && unit <= first.to) {
      first.from = unit;
      if (first.from < first.to) {
        return;
      }
    }
    const bool last = first.subject == subject && first.to == unit;
    suspects.erase(suspects.begin());
    if (last) {
      return;
    }
  }
}

// When all suspects were tried and each ended well alone, what happened is told of the first. Being late is nothing to
// tell then: together they took long, and none of them did.
void settle_suspects(Worker& worker, const PoolCallbacks& callbacks) {
  if (worker.suspected == 0 || (!worker.suspects.empty() && worker.alone->stage != 3)) {
    return;
  }
  if (!worker.culprit_found && worker.suspected_of != kTimeout) {
    callbacks.death(
        {worker.first_suspect.subject, worker.first_suspect.from, worker.suspected_of, true, worker.suspected});
  }
  worker.suspects.clear();
  worker.suspected = 0;
  worker.alone->stage = 0;
}

// Notes who is lost: a unit that was alone in flight, or suspects for the next worker.
void account_for(Worker& worker, const std::string& how, const PoolCallbacks& callbacks) {
  Slot& alone = *worker.alone;
  const bool device_lost = how.rfind("cuda", 0) == 0;
  if (worker.suspected > 0) {
    const bool lost = alone.stage != 0;
    if (lost) {
      callbacks.death({alone.subject, alone.unit, how, device_lost || alone.stage == 2, 1});
      worker.culprit_found = true;
    }
    if (alone.batch_to > 0) {
      drop_tried(worker.suspects, alone.subject, alone.unit + (lost ? 1 : 0));
    }
    alone.stage = 0;
    alone.batch_to = 0;
    return;
  }
  std::vector<Range> in_flight;
  std::uint64_t units = 0;
  bool inside = device_lost;
  for (Slot& slot : worker.lanes) {
    if (slot.stage != 0 && slot.unit < slot.batch_to) {
      in_flight.push_back({slot.subject, slot.unit, slot.batch_to});
      units += slot.batch_to - slot.unit;
      inside = inside || slot.stage == 2;
      slot.unit = slot.batch_to.load();
    }
    slot.stage = 0;
  }
  if (units == 1) {
    callbacks.death({in_flight[0].subject, in_flight[0].from, how, inside, 1});
  } else if (units > 1) {
    worker.suspects = in_flight;
    worker.first_suspect = in_flight[0];
    worker.suspected_of = how;
    worker.suspected = units;
    worker.culprit_found = false;
    alone.stage = 0;
    alone.batch_to = 0;
  }
}

// The worker's stream has ended: true when it died at work and was replaced.
bool replace_if_lost(Worker& worker, const PoolCallbacks& callbacks, bool stopping) {
  int status = 0;
  while (waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
  }
  close(worker.pipe);
  worker.pid = -1;
  worker.pipe = -1;
  worker.buffer.clear();
  settle_suspects(worker, callbacks);
  const auto idle = [](const Slot& slot) { return slot.stage == 0; };
  if ((WIFEXITED(status) && WEXITSTATUS(status) == 0 && std::all_of(worker.lanes.begin(), worker.lanes.end(), idle)) ||
      stopping) {
    return false;
  }
  account_for(worker, how_it_ended(status, worker), callbacks);
  settle_suspects(worker, callbacks);
  worker.timed_out = false;
  worker.alone->error[0] = '\0';
  for (Slot& slot : worker.lanes) {
    slot.error[0] = '\0';
  }
  start(worker, callbacks);
  return true;
}

void kill_late(Worker& worker, double timeout_seconds, bool stopping) {
  const auto limit = static_cast<std::int64_t>(timeout_seconds * 1e9);
  // Only a unit that is alone may be named for taking too long.
  const auto late = [limit](const Slot& slot) {
    const bool alone = slot.batch_to <= slot.unit + 1;
    return (slot.stage == 1 || slot.stage == 2) && steady_ns() - slot.since_ns > (alone ? limit : limit / kPatience);
  };
  const bool some_late = late(*worker.alone) || std::any_of(worker.lanes.begin(), worker.lanes.end(), late);
  if (worker.pid > 0 && !worker.timed_out && (some_late || stopping)) {
    worker.timed_out = some_late;
    kill(worker.pid, SIGKILL);
  }
}

}  // namespace

std::string end_of_process(int status) {
  if (!WIFSIGNALED(status)) {
    return fmt::format("exit {}", WEXITSTATUS(status));
  }
  const char* name = sigabbrev_np(WTERMSIG(status));
  return name == nullptr ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("SIG{}", name);
}

void end_with_lost_device(Slot& slot, const char* error) {
  std::snprintf(slot.error.data(), slot.error.size(), "%s", error);
  _exit(kDeviceLost);  // nothing of CUDA can be tidied up any more
}

void run_pool(int workers, int lanes, double timeout_seconds, const PoolCallbacks& callbacks) {
  const auto per_worker = static_cast<std::size_t>(lanes) + 1;  // the last one is of the suspects
  SharedSlots slots(static_cast<std::size_t>(workers) * per_worker);
  Workers owned(static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < owned.all.size(); ++i) {
    Worker& worker = owned.all[i];
    worker.number = static_cast<int>(i);
    worker.lanes = {&slots[i * per_worker], static_cast<std::size_t>(lanes)};
    worker.alone = &slots[i * per_worker + static_cast<std::size_t>(lanes)];
    start(worker, callbacks);
  }
  std::size_t running = owned.all.size();
  while (running > 0) {
    std::vector<pollfd> files;
    for (const Worker& worker : owned.all) {
      files.push_back({worker.pipe, POLLIN, 0});  // poll ignores negative files
    }
    poll(files.data(), files.size(), kPollMilliseconds);
    const bool stopping = callbacks.stop();
    for (Worker& worker : owned.all) {
      kill_late(worker, timeout_seconds, stopping);
      if (worker.pid > 0 && !drain(worker, callbacks)) {
        running -= replace_if_lost(worker, callbacks, stopping) ? 0 : 1;
      }
      settle_suspects(worker, callbacks);
    }
    callbacks.tick();
  }
}

}  // namespace tileproof
