#include "search/minimize.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "execute/executor.h"
#include "generate/generator.h"
#include "search/interrupt.h"
#include "search/shrink_steps.h"

namespace tileproof {

namespace {

constexpr std::int64_t kLargestControl = 16;
constexpr int kFirstTries = 10;  // of the start: enough to tell a failure that comes and goes from one that stays
constexpr double kHangSeconds = 1;
constexpr int kRateTries = 20;  // of every case, once it is known to come and go

double seconds_since(std::int64_t start_ns) { return static_cast<double>(steady_ns() - start_ns) * 1e-9; }

class Walk {
 public:
  Walk(const Subject& subject, Case start, const std::function<bool(const Case&)>& fails, const MinimizeLimits& limits)
      : subject_(subject),
        fails_(fails),
        limits_(limits),
        start_ns_(steady_ns()),
        result_{std::move(start), false, 0} {}

  Descent run() {
    bool moved = true;
    while (moved) {
      while (take_one_of(shrink_steps(subject_, result_.the_case))) {
      }
      moved = !over() && take_one_of(double_steps(subject_, result_.the_case));
    }
    result_.minimal = !over();
    return std::move(result_);
  }

 private:
  bool over() const {
    return result_.tried >= limits_.probes || seconds_since(start_ns_) > limits_.seconds || interrupted_by() != 0;
  }

  // Goes to the first of the steps that fails. False: none does, or it is over.
  bool take_one_of(const std::vector<Case>& steps) {
    for (const Case& step : steps) {
      if (!passed_.insert(text(step)).second) {
        continue;
      }
      if (over()) {
        return false;
      }
      ++result_.tried;
      if (limits_.progress) {
        limits_.progress(result_.tried);
      }
      if (fails_(step)) {
        result_.the_case = step;
        return true;
      }
    }
    return false;
  }

  const Subject& subject_;
  const std::function<bool(const Case&)>& fails_;
  const MinimizeLimits& limits_;
  std::int64_t start_ns_;
  Descent result_;
  std::set<std::string> passed_;  // tried before: those that failed are further up, or are where it stands
};

// Counts failures in `tries` tries; stops early when fewer than `needed` can still be reached.
Rate measure(const Case& c, const Signature& wanted, Prober& prober, int tries, int needed) {
  Rate rate;
  while (rate.launches < tries && rate.failures + tries - rate.launches >= needed) {
    ++rate.launches;
    rate.failures += prober.probe(c).find(wanted) != nullptr ? 1 : 0;
  }
  return rate;
}

// Whose value is where it should not be, by data that name their place.
void add_owner(const Case& c, const Signature& wanted, Prober& prober, ProbedFailure& failure) {
  Case named = c;
  Value data = named.problem.value("data");
  const auto& choices =
      named.problem.operation().parameters()[named.problem.operation().parameter_index("data")].choices;
  data.number = std::find(choices.begin(), choices.end(), "index") - choices.begin();
  named.problem.set("data", data);
  if (failure.signature.empty() || data.number == std::ssize(choices) || !is_legal(named.problem)) {
    return;
  }
  const Probe probe = prober.look_for_owner(named);
  const ProbedFailure* found = probe.find(wanted);
  for (const std::string& line : found == nullptr ? std::vector<std::string>() : found->evidence) {
    if (line.rfind("with index data", 0) == 0) {
      failure.evidence.push_back(line);
    }
  }
}

}  // namespace

Descent descend(const Subject& subject, Case start, const std::function<bool(const Case&)>& fails,
                const MinimizeLimits& limits) {
  return Walk(subject, std::move(start), fails, limits).run();
}

std::optional<Minimum> minimize(const Subject& subject, const Case& start, const Signature& wanted,
                                const std::vector<const Property*>& properties, double timeout_seconds,
                                const MinimizeLimits& limits) {
  const std::int64_t start_ns = steady_ns();
  const double timeout = wanted.kind == "timeout" ? std::min(timeout_seconds, kHangSeconds) : timeout_seconds;
  std::vector<const Property*> own;
  std::copy_if(properties.begin(), properties.end(), std::back_inserter(own),
               [&](const Property* property) { return property->name() == wanted.property; });
  std::unique_ptr<Prober> prober;
  Rate first;
  for (const std::vector<const Property*>* asked : {&std::as_const(own), &properties}) {
    if (asked->empty() || first.failures > 0) {
      continue;
    }
    prober = std::make_unique<Prober>(subject, *asked, timeout);
    first = measure(start, wanted, *prober, kFirstTries, 0);
  }
  if (first.failures == 0) {
    return std::nullopt;
  }
  if (!first.always()) {
    const Rate more = measure(start, wanted, *prober, kRateTries, 0);
    first = {first.failures + more.failures, first.launches + more.launches};
  }
  const int needed = std::max(1, static_cast<int>(first.value() * kRateTries / 2));
  const auto fails = [&](const Case& c) {
    return first.always() ? prober->probe(c).find(wanted) != nullptr
                          : measure(c, wanted, *prober, kRateTries, needed).failures >= needed;
  };
  MinimizeLimits rest = limits;
  rest.seconds -= seconds_since(start_ns);
  const Descent descent = descend(subject, start, fails, rest);
  Minimum minimum{descent.the_case, {}, descent.minimal, {}, descent.tried, 0};
  minimum.rate = measure(descent.the_case, wanted, *prober, first.always() ? 1 : kRateTries, 0);
  // The closer look is one more try, which a failure that comes and goes may not show.
  for (int i = 0; i < kRateTries && minimum.failure.signature.empty(); ++i) {
    const Probe closer = prober->look_closer(descent.the_case);
    if (const ProbedFailure* failure = closer.find(wanted)) {
      minimum.failure = *failure;
    }
  }
  add_owner(descent.the_case, wanted, *prober, minimum.failure);
  minimum.seconds = seconds_since(start_ns);
  return minimum.failure.signature.empty() ? std::nullopt : std::optional<Minimum>(std::move(minimum));
}

std::optional<Tiling> passing_tiling(const Subject& subject, const Case& c,
                                     const std::vector<const Property*>& properties, double timeout_seconds) {
  Prober prober(subject, properties, timeout_seconds);
  const auto& declared = subject.operation->tiling_parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    for (std::int64_t value = 1; value <= kLargestControl; ++value) {
      Case only = c;
      only.tilings = {c.tilings.front()};
      only.tilings.front().values[i] = value;
      if (value < declared[i].min || value > declared[i].max || outside_limits(subject, only) ||
          std::find(c.tilings.begin(), c.tilings.end(), only.tilings.front()) != c.tilings.end()) {
        continue;
      }
      const Probe probe = prober.probe(only);
      if (probe.judged && probe.failures.empty()) {
        return only.tilings.front();
      }
    }
  }
  return std::nullopt;
}

}  // namespace tileproof
