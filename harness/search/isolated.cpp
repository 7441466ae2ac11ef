#include "search/isolated.h"

#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "search/check_work.h"
#include "search/interrupt.h"
#include "search/worker_pool.h"

namespace tileproof {

namespace {

using nlohmann::json;

void work_on(const WorkerSide& side, Board& board, std::uint64_t count, const Isolation& isolation,
             const AnswerUnit& answer) {
  Slot& slot = side.lanes.front();
  watched() = &slot;
  while (steady_ns() < isolation.deadline_ns) {
    const std::uint64_t unit = board.subject(0).next.fetch_add(1);
    if (unit >= count) {
      return;
    }
    slot.unit = unit;
    slot.claimed_to = unit + 1;
    slot.batch_to = unit + 1;
    slot.since_ns = steady_ns();
    slot.stage = 1;
    const json message{{"unit", unit}, {"answer", answer(unit)}};
    side.send(message.dump(-1, ' ', false, json::error_handler_t::replace));
    slot.unit = unit + 1;
    slot.stage = 0;
  }
}

}  // namespace

std::vector<UnitAnswer> answer_units(std::string_view device, std::uint64_t count, const Isolation& isolation,
                                     const MakeWorker& make_worker) {
  std::vector<UnitAnswer> answers(count);
  if (count == 0) {
    return answers;
  }
  const long cores = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  const auto wanted = static_cast<std::uint64_t>(isolation.jobs > 0 ? isolation.jobs : cores);
  const auto workers = device == "cuda" ? 1 : static_cast<int>(std::min(wanted, count));
  Board board(1, 0);
  std::uint64_t done = 0;
  PoolCallbacks callbacks;
  callbacks.work = [&](const WorkerSide& side) {
    try {
      work_on(side, board, count, isolation, make_worker(side.number));
    } catch (const DeviceLost& error) {
      end_with_lost_device(side.lanes.front(), error.what());
    }
  };
  callbacks.message = [&](const std::string& line) {
    const json parsed = json::parse(line);
    UnitAnswer& answer = answers[parsed.at("unit").get<std::uint64_t>()];
    answer.done = true;
    answer.answer = parsed.at("answer");
    ++done;
  };
  callbacks.death = [&](const Death& death) {
    answers[death.unit].done = true;
    answers[death.unit].death = death.how;
  };
  callbacks.stop = [] { return interrupted_by() != 0; };
  callbacks.tick = [&] {
    if (isolation.progress) {
      isolation.progress(done);
    }
  };
  run_pool(workers, 1, isolation.timeout_seconds, callbacks);
  return answers;
}

}  // namespace tileproof
