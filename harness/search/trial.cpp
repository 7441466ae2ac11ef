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

Trial trial_of(const Judged& judged, const Property& property) {
  switch (judged.verdict) {
    case Verdict::failed: return {Outcome::fails, signature(property.name(), *judged.failure), judged.failure->message};
    case Verdict::held: return {Outcome::holds, {}, {}};
    case Verdict::refused: return {Outcome::refused, {}, judged.reason};
    case Verdict::not_applicable: break;
  }
  return {Outcome::skipped, {}, judged.reason};
}

// A case may ask for what the machine cannot give, or claim to be exact and not be: then it says nothing of the
// subject.
Trial try_one(Engine& engine, const Subject& subject, const Property& property, const Case& c) {
  try {
    return trial_of(engine.check(subject, {&c, 1}, {&property}).front().front(), property);
  } catch (const EnvironmentError& error) {
    return {Outcome::refused, {}, error.what()};
  } catch (const HarnessError& error) {
    return {Outcome::refused, {}, error.what()};
  }
}

Trial of_answer(const UnitAnswer& answer, const Property& property) {
  if (!answer.done) {
    return {Outcome::skipped, {}, "out of time"};
  }
  if (!answer.death.empty()) {
    const std::string how = fmt::format("the process that launched it ended with {}", answer.death);
    return property.judges_failed_launches()
               ? Trial{Outcome::fails, fmt::format("{}//launch/{}", property.name(), answer.death), how}
               : Trial{Outcome::skipped, {}, how};
  }
  const json parsed = json::parse(answer.answer);
  return {static_cast<Outcome>(parsed.at(0).get<int>()), parsed.at(1), parsed.at(2)};
}

}  // namespace

std::vector<Trial> try_cases(const Subject& subject, const Property& property, std::span<const Case> cases,
                             const Isolation& isolation) {
  const std::string_view device = subject.raw->device;
  const auto make_worker = [&](int number) -> AnswerUnit {
    return [&, engine = std::make_shared<Engine>(make_executor(device, number))](std::uint64_t unit) {
      const Trial trial = try_one(*engine, subject, property, cases[unit]);
      return json{static_cast<int>(trial.outcome), trial.signature, trial.message}.dump(-1, ' ', false,
                                                                                        json::error_handler_t::replace);
    };
  };
  std::vector<Trial> trials;
  for (const UnitAnswer& answer : answer_units(device, cases.size(), isolation, make_worker)) {
    trials.push_back(of_answer(answer, property));
  }
  return trials;
}

bool same_cause(const std::string& signature, const std::string& other) {
  const Signature a = parse_signature(signature);
  const Signature b = parse_signature(other);
  return a.property == b.property && a.tensor == b.tensor;
}

}  // namespace tileproof
