#include "search/trial.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "execute/device.h"
#include "memory/arena.h"
#include "search/prober.h"

namespace tileproof {

namespace {

using nlohmann::json;
using Outcome = Trial::Outcome;

Trial of_judged(const Judged& judged, const Property& property) {
  switch (judged.verdict) {
    case Verdict::failed: return {Outcome::fails, signature(property.name(), *judged.failure), judged.failure->message};
    case Verdict::held: return {Outcome::holds, {}, {}};
    case Verdict::refused: return {Outcome::refused, {}, judged.reason};
    case Verdict::not_applicable: break;
  }
  return {Outcome::skipped, {}, judged.reason};
}

}  // namespace

// A case may ask for what the machine cannot give, or claim to be exact and not be: then it says nothing of the
// subject.
std::string answer_attempts(const Attempts& attempts, const std::function<Trial(const Case&)>& try_one) {
  Trial trial;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    Trial next;
    try {
      next = try_one(attempts[i]);
    } catch (const EnvironmentError& error) {
      next = {Outcome::refused, {}, error.what()};
    } catch (const HarnessError& error) {
      next = {Outcome::refused, {}, error.what()};
    }
    if (i == 0 || next.outcome == Outcome::fails) {
      trial = std::move(next);
      trial.attempt = i;
    }
    if (trial.outcome != Outcome::holds) {
      break;
    }
  }
  return json{static_cast<int>(trial.outcome), trial.signature, trial.message, trial.attempt}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

Trial trial_of(const UnitAnswer& answer, const std::function<Trial(const std::string& how)>& of_death) {
  if (!answer.done) {
    return {Outcome::skipped, {}, "out of time"};
  }
  if (!answer.death.empty()) {
    return of_death(answer.death);
  }
  const json parsed = json::parse(answer.answer);
  return {static_cast<Outcome>(parsed.at(0).get<int>()), parsed.at(1), parsed.at(2), parsed.at(3)};
}

std::vector<Trial> try_cases(const Subject& subject, const Property& property, std::span<const Attempts> cases,
                             const Isolation& isolation) {
  const std::string_view device = subject.raw->device;
  const auto make_worker = [&](int number) -> AnswerUnit {
    return [&, engine = std::make_shared<Engine>(make_executor(device, number))](std::uint64_t unit) {
      return answer_attempts(cases[unit], [&](const Case& c) {
        return of_judged(engine->check(subject, {&c, 1}, {&property}).front().front(), property);
      });
    };
  };
  const auto of_death = [&](const std::string& how) -> Trial {
    const std::string message = fmt::format("the process that launched it ended with {}", how);
    return property.judges_failed_launches()
               ? Trial{Outcome::fails, fmt::format("{}//launch/{}", property.name(), how), message}
               : Trial{Outcome::skipped, {}, message};
  };
  std::vector<Trial> trials;
  for (const UnitAnswer& answer : answer_units(device, cases.size(), isolation, make_worker)) {
    trials.push_back(trial_of(answer, of_death));
  }
  return trials;
}

Trial try_case(const Subject& subject, const Property& property, const Case& c, const Isolation& isolation) {
  const Attempts one{c};
  return try_cases(subject, property, {&one, 1}, isolation).front();
}

bool same_cause(const std::string& signature, const std::string& other) {
  const Signature a = parse_signature(signature);
  const Signature b = parse_signature(other);
  return a.property == b.property && a.tensor == b.tensor;
}

}  // namespace tileproof
