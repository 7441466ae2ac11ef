#include "search/difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "execute/device.h"
#include "memory/arena.h"
#include "memory/recipes.h"
#include "search/results.h"

namespace tileproof {

namespace {

using Outcome = Trial::Outcome;

Trial differ(const std::string& tensor, const char* where, std::string message) {
  return {Outcome::fails, fmt::format("compare/{}/{}/differs", tensor, where), std::move(message)};
}

// One run under both subjects.
struct Pair {
  RunResult old_one;
  RunResult new_one;
};

std::string status_text(const RunResult& run) {
  switch (run.status) {
    case RunResult::Status::ok: return "ran";
    case RunResult::Status::refused: return "refused: " + run.message;
    case RunResult::Status::failed: return "failed: " + run.message;
  }
  return {};
}

// The packed index of the first element that differs; -1 when none does.
std::int64_t first_difference(const HostTensor& a, const HostTensor& b) {
  if (a.bytes == b.bytes) {
    return -1;
  }
  const std::size_t size = size_of(a.shape.dtype);
  for (std::int64_t i = 0; i < a.shape.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, size) != 0 &&
        !(std::isnan(a.at(i)) && std::isnan(b.at(i)))) {
      return i;
    }
  }
  return -1;
}

std::optional<Trial> different_outputs(const Pair& pair, const std::string& tiling) {
  for (std::size_t i = 0; i < pair.old_one.outputs.size(); ++i) {
    const HostTensor& a = pair.old_one.outputs[i];
    const HostTensor& b = pair.new_one.outputs[i];
    const std::int64_t at = a.bytes.empty() ? -1 : first_difference(a, b);
    if (at >= 0) {
      return differ(a.shape.spec->name, "outputs",
                    fmt::format("{} is {} in the old one and {} in the new one, under {}", element_name(a.shape, at),
                                a.at(at), b.at(at), tiling));
    }
  }
  return std::nullopt;
}

bool same_place(const GuardDamage& a, const GuardDamage& b) {
  return a.tensor == b.tensor && a.bytes == b.bytes && a.first_byte == b.first_byte && a.last_byte == b.last_byte &&
         a.elements == b.elements;
}

std::optional<Trial> different_guards(const Operation& operation, const Pair& pair, const std::string& tiling) {
  const auto& a = pair.old_one.damage;
  const auto& b = pair.new_one.damage;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && same_place(a[i], b[i])) {
      continue;
    }
    const bool by_old = i < a.size();
    const GuardDamage& damage = by_old ? a[i] : b[i];
    return differ(operation.tensors()[damage.tensor].name, "guards",
                  fmt::format("the {} one, under {}: {}", by_old ? "old" : "new", tiling, damage.text));
  }
  return std::nullopt;
}

// What both did of one run; empty: the same.
std::optional<Trial> difference_of(const Operation& operation, const Pair& pair, const std::string& tiling) {
  if (pair.old_one.status != pair.new_one.status) {
    return differ("", "launch",
                  fmt::format("the old one {}, the new one {}", status_text(pair.old_one), status_text(pair.new_one)));
  }
  if (pair.old_one.status != RunResult::Status::ok) {
    return Trial{Outcome::refused, {}, "both: " + status_text(pair.old_one)};
  }
  auto found = different_outputs(pair, tiling);
  return found ? found : different_guards(operation, pair, tiling);
}

struct Setting {
  Tiling tiling;
  Memory memory;
};

std::vector<Setting> settings_of(const Case& c, bool orders) {
  std::vector<Setting> result;
  for (const Tiling& tiling : c.tilings) {
    result.push_back({tiling, {}});
    result.push_back({tiling, {.guard = GuardFill::nan, .prefill = GuardFill::nan}});
    if (orders) {
      Tiling reversed = tiling;
      reversed.threads = Order::reverse;
      reversed.blocks = Order::reverse;
      result.push_back({reversed, {}});
    }
  }
  return result;
}

class Comparer {
 public:
  Comparer(const Subject& old_one, const Subject& new_one, int number)
      : old_(old_one), new_(new_one), executor_(make_executor(old_one.raw->device, number)) {}

  Trial compare(const Case& c) {
    for (const Subject* subject : {&old_, &new_}) {
      auto limit = outside_limits(*subject, c.problem);
      for (const Tiling& tiling : c.tilings) {
        limit = limit ? limit : outside_limits(*subject, tiling);
      }
      if (limit) {
        return {Outcome::refused, {}, fmt::format("{} takes only '{}'", subject->name, *limit)};
      }
    }
    make_inputs(c.problem, inputs_);
    for (const Setting& setting : settings_of(c, std::string_view(old_.raw->device) == "cpu")) {
      const Pair pair{run(old_, c.problem, setting), run(new_, c.problem, setting)};
      if (auto found = difference_of(c.problem.operation(), pair, text(c.problem.operation(), setting.tiling))) {
        return std::move(*found);
      }
    }
    return {Outcome::holds, {}, {}};
  }

  // Whether one subject alone survives the case.
  void launch(const Subject& subject, const Case& c) {
    make_inputs(c.problem, inputs_);
    for (const Setting& setting : settings_of(c, std::string_view(subject.raw->device) == "cpu")) {
      run(subject, c.problem, setting);
    }
  }

 private:
  RunResult run(const Subject& subject, const Problem& problem, const Setting& setting) {
    RunResult result;
    const RunOrder order{&subject, &problem, &setting.tiling, &setting.memory, &inputs_, true, &result};
    executor_->begin();
    executor_->execute({&order, 1});
    return result;
  }

  const Subject& old_;
  const Subject& new_;
  std::unique_ptr<Executor> executor_;
  HostTensors inputs_;
};

// Of a case that cost the process: each subject alone. Both: nothing can be compared.
Trial trial_of_deaths(const UnitAnswer& old_one, const UnitAnswer& new_one) {
  if (!old_one.done || !new_one.done) {
    return {Outcome::skipped, {}, "out of time"};
  }
  if (old_one.death.empty() == new_one.death.empty()) {
    return {Outcome::refused, {}, "a launch ended its process; compared alone, neither or both do"};
  }
  const bool by_old = !old_one.death.empty();
  return differ("", "launch",
                fmt::format("the {} one ended its process with {}, the other did not", by_old ? "old" : "new",
                            by_old ? old_one.death : new_one.death));
}

}  // namespace

std::vector<Trial> compare_subjects(const Subject& old_one, const Subject& new_one, std::span<const Attempts> cases,
                                    const Isolation& isolation) {
  const std::string_view device = old_one.raw->device;
  const auto compare = [&](int number) -> AnswerUnit {
    return [&, comparer = std::make_shared<Comparer>(old_one, new_one, number)](std::uint64_t unit) {
      return answer_attempts(cases[unit], [&](const Case& c) { return comparer->compare(c); });
    };
  };
  const std::vector<UnitAnswer> answers = answer_units(device, cases.size(), isolation, compare);
  std::vector<std::size_t> lost;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].death.empty()) {
      lost.push_back(i);
    }
  }
  const auto launch = [&](int number) -> AnswerUnit {
    return [&, comparer = std::make_shared<Comparer>(old_one, new_one, number)](std::uint64_t unit) {
      comparer->launch(unit % 2 == 0 ? old_one : new_one, cases[lost[unit / 2]].front());
      return std::string("ran");
    };
  };
  const std::vector<UnitAnswer> alone = answer_units(device, 2 * lost.size(), isolation, launch);
  std::vector<Trial> trials;
  std::size_t deaths = 0;
  for (const UnitAnswer& answer : answers) {
    trials.push_back(trial_of(answer, [&](const std::string&) {
      const std::size_t at = 2 * deaths++;
      return trial_of_deaths(alone[at], alone[at + 1]);
    }));
  }
  return trials;
}

}  // namespace tileproof
