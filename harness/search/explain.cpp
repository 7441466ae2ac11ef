#include "search/explain.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "generate/generator.h"
#include "search/interrupt.h"
#include "search/simplicity.h"

namespace tileproof {

namespace {

using Outcome = Trial::Outcome;

constexpr std::size_t kFirstBatch = 600;  // samples before the first condition is inferred
constexpr std::size_t kBatch = 160;       // and between two
constexpr std::size_t kCandidates = 24;   // conditions that a batch is to tell apart
constexpr int kQuietRounds = 4;           // rounds without a surprise after which it is done
constexpr int kSeedsOfSmallCases = 8;     // contents tried before a small case counts as holding
constexpr int kSeedsOfLargeCases = 3;
constexpr std::int64_t kSmallCase = 500;  // elements

class Explainer {
 public:
  Explainer(const Names& names, const Subject& subject, const Case& start, const TryCases& try_all,
            const IsSame& is_same, const ExplainOptions& options)
      : names_(names),
        vocabulary_(vocabulary_of(names)),
        try_all_(try_all),
        is_same_(is_same),
        options_(options),
        near_(subject, start, options.held, options.seed),
        draw_(options.seed, 0x6578706c) {}

  Explanation run() {
    take({near_.start()});
    sample_around();
    infer();
    for (int quiet = 0; quiet < kQuietRounds && !is_full();) {
      const std::vector<Separation> before = candidates_;
      sample_disputed();
      infer();
      const bool same = !candidates_.empty() && !before.empty() &&
                        before.front().condition == candidates_.front().condition &&
                        before.front().exact == candidates_.front().exact;
      quiet = same || candidates_.empty() ? quiet + 1 : 0;
    }
    result_.samples = samples_.size();
    if (!candidates_.empty()) {
      result_.separation = candidates_.front();
      result_.others.assign(candidates_.begin() + 1, candidates_.end());
      note_exceptions(candidates_.front().condition);
    }
    return std::move(result_);
  }

 private:
  bool is_full() {
    note_time();
    return result_.out_of_time || samples_.size() >= options_.cases;
  }

  void note_time() {
    result_.out_of_time = result_.out_of_time || interrupted_by() != 0 || steady_ns() >= options_.deadline_ns;
  }

  void infer() {
    candidates_ = result_.failing == 0 ? std::vector<Separation>() : separate(vocabulary_, samples_, kCandidates);
  }

  // One parameter changed, each as often; two; half; all.
  void sample_around() {
    std::vector<Case> batch;
    const std::size_t share = std::min<std::size_t>(kFirstBatch, options_.cases) / 4;
    const std::size_t parameters = near_.parameters();
    for (std::size_t i = 0; i < share; ++i) {
      add(near_.vary(near_.start(), 1, i % parameters), batch);
    }
    for (std::size_t i = 0; i < share; ++i) {
      add(near_.vary(near_.start(), 2), batch);
      add(near_.cross(near_.start()), batch);
      add(near_.far(), batch);
    }
    take(batch);
  }

  // Cases on which the conditions in question are of two minds, and as many at random: a condition that is right about
  // all that was asked may be wrong elsewhere.
  void sample_disputed() {
    std::vector<Case> batch;
    std::vector<Case> random;
    for (std::size_t i = 0; i < 40 * kBatch && batch.size() < kBatch / 2; ++i) {
      auto one = any_variant();
      if (!one || seen_.contains(text(*one))) {
        continue;
      }
      if (is_disputed(*one)) {
        add(std::move(one), batch);
      } else if (random.size() < kBatch / 2) {
        add(std::move(one), random);
      }
    }
    batch.insert(batch.end(), random.begin(), random.end());
    take(batch);
  }

  std::optional<Case> any_variant() {
    const Case& base = draw_.below(2) == 0 || cases_.empty() ? near_.start() : cases_[draw_.below(cases_.size())];
    switch (draw_.below(5)) {
      case 0: return near_.far();
      case 1: return near_.cross(base);
      case 2: return near_.vary(base, 3);
      case 3: return near_.vary(base, 1);
      default: return near_.vary(base, 2);
    }
  }

  bool is_disputed(const Case& c) const {
    const std::vector<Names::Facts> sites = sites_of(c);
    std::size_t holding = 0;
    for (const Separation& one : candidates_) {
      holding +=
          std::any_of(sites.begin(), sites.end(), [&](const auto& site) { return one.condition.holds(site); }) ? 1 : 0;
    }
    return holding > 0 && holding < candidates_.size();
  }

  void add(std::optional<Case> c, std::vector<Case>& batch) {
    if (c && seen_.insert(text(*c)).second) {
      batch.push_back(std::move(*c));
    }
  }

  // Tries the cases, and again those that hold: what they hold may hide it.
  void take(std::vector<Case> batch) {
    const std::size_t room = options_.cases - std::min<std::size_t>(options_.cases, samples_.size());
    std::vector<Attempts> tries;
    for (std::size_t i = 0; i < std::min(room, batch.size()); ++i) {
      tries.push_back(attempts_of(std::move(batch[i])));
    }
    const std::vector<Trial> trials = try_all_(tries);
    for (std::size_t i = 0; i < tries.size(); ++i) {
      const Trial& trial = trials[i];
      if (trial.outcome == Outcome::fails && is_same_(trial.signature)) {
        const Case& failing = tries[i][trial.attempt];
        result_.hidden += trial.attempt > 0 ? 1 : 0;
        note_simpler(failing, result_.smallest);
        note(failing, true);
      } else if (trial.outcome == Outcome::fails) {
        ++result_.other_failures;
      } else if (trial.outcome == Outcome::holds) {
        note(tries[i].front(), false);
      } else {
        ++result_.refused;
      }
    }
    note_time();
    if (options_.progress) {
      options_.progress(samples_.size());
    }
  }

  Attempts attempts_of(Case c) const {
    const int count = elements_of(c.problem) < kSmallCase ? kSeedsOfSmallCases : kSeedsOfLargeCases;
    Attempts attempts{std::move(c)};
    for (int i = 1; i < count; ++i) {
      attempts.push_back(with_other_contents(attempts.front(), i));
    }
    return attempts;
  }

  // First the contents of the start, where those are plain, then other seeds. Where exact data cannot be, the case
  // keeps its own recipe.
  Case with_other_contents(const Case& c, int attempt) const {
    for (const bool own_recipe : {false, true}) {
      Case result = c;
      for (const Parameter& parameter : c.problem.operation().parameters()) {
        Value& value = result.problem.value(parameter.key);
        const Value& plain = near_.start().problem.value(parameter.key);
        if (!parameter.contents || is_held(parameter) || plain.number != parameter.fallback.number) {
          continue;
        }
        const bool tagged = parameter.kind == ParameterKind::tagged;
        value = tagged && own_recipe ? value : plain;
        value.second = tagged ? (value.second + attempt - 1 + (own_recipe ? 1 : 0)) % (parameter.max + 1) : 0;
      }
      if (is_legal(result.problem)) {
        return result;
      }
    }
    return c;
  }

  bool is_held(const Parameter& parameter) const {
    return std::any_of(options_.held.begin(), options_.held.end(),
                       [&](const Held& one) { return one.key == parameter.key; });
  }

  static void note_simpler(const Case& c, std::optional<Case>& simplest) {
    const auto rank = [](const Case& one) { return std::pair(simplicity(one), text(one)); };
    if (!simplest || rank(c) < rank(*simplest)) {
      simplest = c;
    }
  }

  void note_exceptions(const Condition& condition) {
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const auto& sites = samples_[i].sites;
      const bool inside =
          std::any_of(sites.begin(), sites.end(), [&](const auto& site) { return condition.holds(site); });
      if (inside != samples_[i].fails) {
        note_simpler(cases_[i], inside ? result_.holding_inside : result_.failing_outside);
      }
    }
  }

  void note(Case c, bool fails) {
    samples_.push_back({sites_of(c), fails});
    cases_.push_back(std::move(c));
    result_.failing += fails ? 1 : 0;
  }

  std::vector<Names::Facts> sites_of(const Case& c) const {
    std::vector<Names::Facts> sites;
    for (const Tiling& tiling : c.tilings) {
      sites.push_back(names_.facts(c.problem, tiling));
    }
    return sites;
  }

  const Names& names_;
  const Vocabulary vocabulary_;
  const TryCases& try_all_;
  const IsSame& is_same_;
  const ExplainOptions& options_;
  Neighbourhood near_;
  CounterStream draw_;
  std::set<std::string> seen_;  // cases that were drawn, as text
  std::vector<Case> cases_;     // parallel to samples_
  std::vector<Sample> samples_;
  std::vector<Separation> candidates_;
  Explanation result_;
};

}  // namespace

Explanation explain(const Names& names, const Subject& subject, const Case& start, const TryCases& try_all,
                    const IsSame& is_same, const ExplainOptions& options) {
  return Explainer(names, subject, start, try_all, is_same, options).run();
}

Explanation explain_failure(const Names& names, const Subject& subject, const Property& property, const Case& start,
                            const std::string& signature, const Isolation& isolation, const ExplainOptions& options) {
  const TryCases try_all = [&](std::span<const Attempts> cases) {
    return try_cases(subject, property, cases, isolation);
  };
  const IsSame is_same = [&](const std::string& other) { return same_cause(other, signature); };
  return explain(names, subject, start, try_all, is_same, options);
}

std::string text(const Names& names, const Explanation& explanation, const std::string& verb) {
  if (!explanation.separation) {
    return fmt::format("0 of {} sampled {}", explanation.samples, verb);
  }
  const Separation& s = *explanation.separation;
  const std::string condition = text(names, s.condition);
  if (s.condition.terms.empty()) {
    return fmt::format("{}s always: {} of {} sampled", verb, s.inside_failing, s.inside);
  }
  return fmt::format("{}{}s when {}: {} of {} sampled; otherwise {} of {}",
                     s.exact ? "" : fmt::format("no condition of at most {} terms is exact; the best: ", kMostTerms),
                     verb, condition, s.inside_failing, s.inside, s.outside_failing, s.outside);
}

}  // namespace tileproof
