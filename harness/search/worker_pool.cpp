#include "search/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "memory/arena.h"

namespace tileproof {

namespace {

constexpr int kPollMilliseconds = 20;

struct Worker {
  pid_t pid = -1;
  int pipe = -1;
  std::string buffer;
  bool timed_out = false;
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

[[noreturn]] void child(int file, pid_t supervisor, Slot& slot, const Resume& resume, const PoolCallbacks& callbacks) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) {
    _exit(0);  // it died before the line above could take effect
  }
  // A terminal or a CI runner signals the whole group; when work ends is for the supervisor to say.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
  try {
    callbacks.work(slot, resume, [file](const std::string& message) { write_all(file, Frame::message, message); });
  } catch (const std::bad_alloc&) {
    write_all(file, Frame::failure, "out of memory; use fewer --jobs or smaller shapes");
  } catch (const std::exception& error) {
    write_all(file, Frame::failure, error.what());
  }
  _exit(0);
}

void start(Worker& worker, Slot& slot, const Resume& resume, const PoolCallbacks& callbacks) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw EnvironmentError(fmt::format("cannot open a pipe to a worker: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);
  slot.stage = 0;
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
    child(ends[1], supervisor, slot, resume, callbacks);
  }
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  worker = Worker{pid, ends[0], {}, false};
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

std::string how_it_ended(int status, bool timed_out) {
  if (timed_out) {
    return "timeout";
  }
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return name == nullptr ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("SIG{}", name);
  }
  return fmt::format("exit {}", WEXITSTATUS(status));
}

// The worker's stream has ended: true when it died at work and was replaced.
bool replace_if_lost(Worker& worker, Slot& slot, const PoolCallbacks& callbacks, bool stopping) {
  int status = 0;
  while (waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
  }
  close(worker.pipe);
  const bool timed_out = worker.timed_out;
  worker = Worker{};
  if ((WIFEXITED(status) && WEXITSTATUS(status) == 0 && slot.stage == 0) || stopping) {
    return false;
  }
  const bool at_work = slot.stage != 0;
  if (at_work) {
    callbacks.death(Death{&slot, how_it_ended(status, timed_out), slot.stage == 2});
  }
  const std::uint64_t next = slot.unit + (at_work ? 1 : 0);
  start(worker, slot, Resume{slot.subject, next, slot.claimed_to}, callbacks);
  return true;
}

void kill_late(std::vector<Worker>& workers, SharedSlots& slots, double timeout_seconds, bool stopping) {
  const auto limit = static_cast<std::int64_t>(timeout_seconds * 1e9);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const bool late = slots[i].stage != 0 && steady_ns() - slots[i].since_ns > limit;
    if (workers[i].pid > 0 && !workers[i].timed_out && (late || stopping)) {
      workers[i].timed_out = late;
      kill(workers[i].pid, SIGKILL);
    }
  }
}

}  // namespace

void run_pool(int jobs, double timeout_seconds, const PoolCallbacks& callbacks) {
  const auto count = static_cast<std::size_t>(jobs);
  SharedSlots slots(count);
  Workers owned(count);
  std::vector<Worker>& workers = owned.all;
  for (std::size_t i = 0; i < count; ++i) {
    start(workers[i], slots[i], Resume{}, callbacks);
  }
  std::size_t running = count;
  while (running > 0) {
    std::vector<pollfd> files;
    for (const Worker& worker : workers) {
      files.push_back({worker.pipe, POLLIN, 0});  // poll ignores negative files
    }
    poll(files.data(), files.size(), kPollMilliseconds);
    const bool stopping = callbacks.stop();
    kill_late(workers, slots, timeout_seconds, stopping);
    for (std::size_t i = 0; i < count; ++i) {
      if (workers[i].pid > 0 && !drain(workers[i], callbacks)) {
        running -= replace_if_lost(workers[i], slots[i], callbacks, stopping) ? 0 : 1;
      }
    }
    callbacks.tick();
  }
}

}  // namespace tileproof
