#include "sanitize/sanitizing_executor.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "execute/launch_request.h"
#include "execute/launch_watcher.h"
#include "execute/runner.h"
#include "memory/arena.h"
#include "sanitize/describe.h"
#include "sanitize/sanitizer.h"

namespace tileproof {

namespace {

using sanitize::sanitizer;

// Packed index of the first element in which two results differ; -1: none. A NaN is a NaN.
std::int64_t first_difference(const HostTensor& a, const HostTensor& b) {
  if (std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0) {
    return -1;
  }
  const std::size_t size = size_of(a.shape.dtype);
  for (std::int64_t i = 0; i < a.shape.elements(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, size) != 0 &&
        !(std::isnan(a.at(i)) && std::isnan(b.at(i)))) {
      return i;
    }
  }
  return -1;
}

// However it ends, later launches are not watched.
class Following {
 public:
  Following() = default;
  ~Following() { sanitizer.unfollow(); }
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;
};

class SanitizingExecutor : public Executor {
 public:
  explicit SanitizingExecutor(std::unique_ptr<Executor> fast) : fast_(std::move(fast)) {}
  void begin() override { fast_->begin(); }
  void execute(std::span<const RunOrder> orders) override {
    for (const RunOrder& order : orders) {
      if (order.sanitize) {
        run(order);
      } else {
        fast_->execute({&order, 1});
      }
    }
  }
  void fetch(RunResult& result) override { fast_->fetch(result); }

 private:
  // What lacks memory for its shadow is refused: that concerns nobody but the properties that wanted it.
  void run(const RunOrder& order) {
    RunResult result;
    try {
      look_at(order, result);
    } catch (const EnvironmentError& error) {
      result = {};
      result.status = RunResult::Status::refused;
      result.message = error.what();
    }
    result.inputs = std::move(order.result->inputs);
    *order.result = std::move(result);
  }

  void look_at(const RunOrder& order, RunResult& result) {
    look(order, result, [](const auto& tensors) { sanitizer.follow(tensors); });
    if (result.status == RunResult::Status::ok) {
      look_for_undefined_values(order, result);
    }
    if (sanitizer.wants_second_look()) {
      RunResult again;
      look(order, again, [](const auto& tensors) { sanitizer.follow_again(tensors); });
    }
    result.reports = sanitize::describe(sanitizer.sightings(), arena_.tensors());
  }

  template <typename Follow>
  void look(const RunOrder& order, RunResult& result, Follow follow) {
    {
      const Following following;
      {
        const Stopwatch watch(stage_times().fill);
        fill_arena(arena_, *order.problem, *order.tiling, *order.memory, *order.inputs);
        follow(arena_.tensors());
      }
      launch(*order.subject->sanitizing, order, result);
    }
    if (result.status == RunResult::Status::ok) {
      const Stopwatch watch(stage_times().gather);
      collect_results(arena_, *order.memory, *order.inputs, result);
    }
  }

  void launch(const tileproof_subject& build, const RunOrder& order, RunResult& result) {
    const Stopwatch watch(stage_times().kernel);
    LaunchRequest request(*order.problem, *order.tiling, arena_.tensors());
    const LaunchScope launching;
    request.submit(build, result);
  }

  // The same with zeros in what the sanitizing build fills with a pattern: what is stored must not show it.
  void look_for_undefined_values(const RunOrder& order, const RunResult& patterned) {
    RunResult zeroed;
    {
      const Stopwatch watch(stage_times().fill);
      fill_arena(arena_, *order.problem, *order.tiling, *order.memory, *order.inputs);
    }
    cpu::fill_missing_lanes(false);
    launch(*order.subject->zeroed, order, zeroed);
    cpu::fill_missing_lanes(true);
    const Stopwatch watch(stage_times().gather);
    if (zeroed.status != RunResult::Status::ok) {
      return;
    }
    collect_results(arena_, *order.memory, *order.inputs, zeroed);
    for (const Placed& placed : arena_.tensors()) {
      const std::size_t tensor = placed.layout.shape.index;
      const bool stored = placed.layout.shape.spec->role != Role::in;
      const std::int64_t element = stored ? first_difference(patterned.outputs[tensor], zeroed.outputs[tensor]) : -1;
      if (element >= 0) {
        const std::size_t size = size_of(placed.layout.shape.dtype);
        const auto base = reinterpret_cast<std::uintptr_t>(placed.base);
        sanitizer.ask_for_store(base + static_cast<std::size_t>(placed.layout.offset(element)) * size, size);
      }
    }
  }

  std::unique_ptr<Executor> fast_;
  Arena arena_;
};

}  // namespace

std::unique_ptr<Executor> make_sanitizing_executor(std::unique_ptr<Executor> fast) {
  return std::make_unique<SanitizingExecutor>(std::move(fast));
}

}  // namespace tileproof
