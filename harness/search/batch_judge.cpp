#include "search/batch_judge.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "execute/executor.h"
#include "memory/arena.h"

namespace tileproof {

BatchJudge::BatchJudge(std::unique_ptr<Executor> executor, const std::vector<const Property*>& properties)
    : properties_(properties), engine_(std::move(executor)) {}

std::vector<std::vector<Judged>> BatchJudge::judge(const Subject& subject, std::span<const Case> cases, bool sanitize) {
  try {
    return engine_.check(subject, cases, properties_, sanitize);
  } catch (const EnvironmentError& error) {
    if (cases.size() == 1) {
      return {{properties_.size(), Judged{Verdict::refused, false, error.what(), std::nullopt, std::nullopt}}};
    }
  } catch (const HarnessError& error) {
    if (cases.size() == 1) {
      throw HarnessError(fmt::format("{} (case: {})", error.what(), text(cases.front())));
    }
  }
  // One of them asks for what cannot be had: only that one is to suffer.
  std::vector<std::vector<Judged>> judged;
  for (const Case& c : cases) {
    judged.push_back(judge(subject, {&c, 1}, sanitize).front());
  }
  return judged;
}

void BatchJudge::judge_alone(const Subject& subject, const Case& c, std::vector<Judged>& in_batch, bool sanitize) {
  const auto failed = [](const Judged& judged) { return judged.verdict == Verdict::failed; };
  if (std::none_of(in_batch.begin(), in_batch.end(), failed)) {
    return;
  }
  std::vector<Judged> alone = judge(subject, {&c, 1}, sanitize).front();
  for (std::size_t i = 0; i < alone.size(); ++i) {
    if (failed(in_batch[i]) && alone[i].verdict == Verdict::held) {
      alone[i] = std::move(in_batch[i]);
      alone[i].failure->evidence.emplace_back(
          "it held when the case was run again alone: a race, or a stray write of another case of its batch");
    }
  }
  in_batch = std::move(alone);
}

}  // namespace tileproof
