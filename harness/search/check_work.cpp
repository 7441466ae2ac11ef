#include "search/check_work.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "execute/device.h"
#include "generate/generator.h"
#include "search/batch_judge.h"
#include "search/results.h"

namespace tileproof {

Board::Board(std::size_t subjects, std::size_t properties)
    : properties_(properties),
      size_(subjects * (sizeof(SharedSubject) + properties * sizeof(SharedTally)) + sizeof(std::atomic<double>)) {
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError("cannot map shared memory for the counters of the check");
  }
  largest_ = new (memory) std::atomic<double>(0);
  subjects_ = reinterpret_cast<SharedSubject*>(largest_ + 1);
  std::uninitialized_default_construct_n(subjects_, subjects);
  tallies_ = reinterpret_cast<SharedTally*>(subjects_ + subjects);
  std::uninitialized_default_construct_n(tallies_, subjects * properties);
}

Board::~Board() { munmap(static_cast<void*>(largest_), size_); }

Work::Work(const CheckOptions& options) : options_(options), start_ns_(steady_ns()) {
  for (const Subject* subject : options.subjects) {
    std::vector<const Case*> own;
    for (const Case& c : options.corpus) {
      if (&c.problem.operation() == subject->operation) {
        own.push_back(&c);
      }
    }
    corpus_.push_back(std::move(own));
  }
}

Case Work::at(std::size_t subject, std::uint64_t unit) const {
  const auto& own = corpus_[subject];
  if (unit < own.size()) {
    return *own[unit];
  }
  const std::lock_guard lock(generating_);
  return generate_case(*options_.subjects[subject], options_.seed, unit - own.size());
}

namespace {

using nlohmann::json;

// What a lane claims at once, and, on a GPU, what it has in flight together.
constexpr std::uint64_t kChunk = 4;
constexpr std::uint64_t kBatch = 16;

bool on_gpu(const CheckOptions& options) { return std::string_view(options.subjects.front()->raw->device) == "cuda"; }

// One thread of a worker process, with a device executor of its own.
class Lane {
 public:
  Lane(const CheckOptions& options, const Work& work, Board& board, const WorkerSide& side, Slot& slot)
      : options_(options),
        work_(work),
        board_(board),
        slot_(slot),
        send_(side.send),
        judge_(make_executor(options.subjects.front()->raw->device, side.number), options.properties) {
    watched() = &slot_;
  }

  // What the slot's chunk has left, then chunk after chunk.
  void run() {
    const std::uint64_t batch = on_gpu(options_) ? kBatch : 1;
    const std::uint64_t chunk = on_gpu(options_) ? kBatch : kChunk;
    const std::size_t first = slot_.subject;
    run_units(first, slot_.unit, slot_.claimed_to, batch);
    for (std::size_t subject = first; subject < options_.subjects.size(); ++subject) {
      SharedSubject& shared = board_.subject(subject);
      while (!shared.done) {
        const std::uint64_t from = shared.next.fetch_add(chunk);
        if (!work_.has(subject, from)) {
          break;
        }
        run_units(subject, from, from + chunk, batch);
      }
    }
  }

  // Units [from, to), `batch` of them in flight together.
  void run_units(std::size_t subject, std::uint64_t from, std::uint64_t to, std::uint64_t batch) {
    slot_.subject = static_cast<std::uint32_t>(subject);
    slot_.unit = from;
    slot_.claimed_to = to;
    while (from < to && !board_.subject(subject).done && work_.has(subject, from)) {
      slot_.batch_to = std::min(from + batch, to);
      slot_.since_ns = steady_ns();
      slot_.stage = 1;
      std::uint64_t end = from;
      std::vector<Case> cases;
      for (; end < to && end - from < batch && work_.has(subject, end); ++end) {
        cases.push_back(work_.at(subject, end));
      }
      slot_.batch_to = end;
      run_batch(subject, from, cases);
      board_.raise_largest(largest_error_over_bound());  // now: the next unit may cost this process
      slot_.stage = 0;
      from = end;
    }
  }

 private:
  void run_batch(std::size_t subject, std::uint64_t from, const std::vector<Case>& cases) {
    const std::uint64_t launches = judge_.launches();
    // Batches are for a GPU, where nothing is sanitized.
    const bool sanitize = work_.sanitizes(subject, from);
    const Subject& judged_subject = *options_.subjects[subject];
    std::vector<std::vector<Judged>> judged = judge_.judge(judged_subject, cases, sanitize);
    for (std::size_t i = 0; i < cases.size() && (i == 0 || !board_.subject(subject).done); ++i) {
      if (cases.size() > 1) {
        judge_.judge_alone(judged_subject, cases[i], judged[i], sanitize);
      }
      ++board_.subject(subject).cases;
      for (std::size_t p = 0; p < judged[i].size(); ++p) {
        record(subject, from + i, p, judged[i][p], cases[i]);
      }
      slot_.unit = from + i + 1;
    }
    board_.subject(subject).launches += judge_.launches() - launches;
  }

  // Only the first one counts: this lane need not tell any that is not before those it has told.
  void tell_refusal(std::size_t subject, std::uint64_t unit, const std::string& reason) {
    const auto [told, is_first] = refused_.emplace(subject, unit);
    if (is_first || unit < told->second) {
      told->second = unit;
      const json message{{"subject", subject}, {"unit", unit}, {"refused", reason}};
      send_(message.dump(-1, ' ', false, json::error_handler_t::replace));
    }
  }

  void record(std::size_t subject, std::uint64_t unit, std::size_t property, const Judged& judged, const Case& c) {
    SharedTally& tally = board_.tally(subject, property);
    switch (judged.verdict) {
      case Verdict::held: ++tally.held; break;
      case Verdict::failed: ++tally.failed; break;
      case Verdict::refused:
        ++tally.refused;
        tell_refusal(subject, unit, judged.reason);
        return;
      case Verdict::not_applicable: ++tally.not_applicable; return;
    }
    // A case that did fail could have failed, whatever the property foresaw.
    tally.power += judged.power || judged.verdict == Verdict::failed ? 1 : 0;
    if (!judged.failure) {
      return;
    }
    board_.subject(subject).done = options_.stop_on_failure;
    const std::string sign = signature(options_.properties[property]->name(), *judged.failure);
    json message{{"subject", subject}, {"property", property}, {"unit", unit}, {"signature", sign}};
    const std::pair<std::int64_t, std::uint64_t> size{elements_of(c.problem), unit};
    const auto [known, fresh] = told_.try_emplace({subject, sign}, size);
    if (fresh || size < known->second) {
      known->second = size;
      message["elements"] = size.first;
      message["case"] = text(c);
      message["message"] = judged.failure->message;
      message["evidence"] = judged.failure->evidence;
    }
    send_(message.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  const CheckOptions& options_;
  const Work& work_;
  Board& board_;
  Slot& slot_;
  const std::function<void(const std::string&)>& send_;  // the worker's
  BatchJudge judge_;
  // Per subject and signature, elements and number of the smallest case whose evidence this worker has told.
  std::map<std::pair<std::size_t, std::string>, std::pair<std::int64_t, std::uint64_t>> told_;
  std::map<std::size_t, std::uint64_t> refused_;  // per subject, the first refused case that it has told
};

// Runs `work` with the slot's lane. A lost device ends the process: the supervisor knows what was in flight.
template <typename Use>
void with_lane(const CheckOptions& options, const Work& work, Board& board, const WorkerSide& side, Slot& slot,
               Use use) {
  try {
    Lane lane(options, work, board, side, slot);
    use(lane);
  } catch (const DeviceLost& error) {
    end_with_lost_device(slot, error.what());
  }
}

}  // namespace

Crew crew_for(const CheckOptions& options) {
  const int cores = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  if (!on_gpu(options)) {
    return {options.jobs > 0 ? options.jobs : cores, 1};
  }
  const int lanes = options.jobs > 0 ? options.jobs : cores;
  return {options.gpus, std::max(1, lanes / options.gpus)};
}

void do_work(const CheckOptions& options, const Work& work, Board& board, const WorkerSide& side) {
  if (!side.suspects.empty()) {
    with_lane(options, work, board, side, *side.alone, [&](Lane& lane) {
      for (const Range& range : side.suspects) {
        lane.run_units(range.subject, range.from, range.to, 1);
      }
    });
    side.alone->stage = 3;
  }
  if (side.lanes.size() == 1) {
    with_lane(options, work, board, side, side.lanes.front(), [](Lane& lane) { lane.run(); });
    return;
  }
  std::mutex failing;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (Slot& slot : side.lanes) {
    threads.emplace_back([&] {
      try {
        with_lane(options, work, board, side, slot, [](Lane& lane) { lane.run(); });
      } catch (...) {
        const std::lock_guard lock(failing);
        failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace tileproof
