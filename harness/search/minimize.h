// The simplest case that fails as a given one does.
#ifndef TILEPROOF_SEARCH_MINIMIZE_H
#define TILEPROOF_SEARCH_MINIMIZE_H

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "execute/subject.h"
#include "search/prober.h"

namespace tileproof {

struct MinimizeLimits {
  double seconds = 10;
  std::uint64_t probes = 20'000;  // bounds the work where the clock does not, the same on every machine
  std::function<void(std::uint64_t tried)> progress = {};  // with every case
};

struct Descent {
  Case the_case;         // the simplest found
  bool minimal = false;  // no step of harness/docs/minimize.md from it fails; false: the budget or a signal ended it
  std::uint64_t tried = 0;
};

// Goes down by single steps, simplest first, until none fails, then by double steps, until none of those does either.
// `fails` is asked once per case and only about valid ones inside the subject's limits; `start` is taken to fail. Ends
// early, with the best so far, when the limits are used up or a signal was noted (search/interrupt.h).
Descent descend(const Subject& subject, Case start, const std::function<bool(const Case&)>& fails,
                const MinimizeLimits& limits);

// How often a case fails: `failures` of `launches` tries.
struct Rate {
  int failures = 0;
  int launches = 0;
  bool always() const { return failures == launches; }
  double value() const { return launches == 0 ? 0 : static_cast<double>(failures) / launches; }
};

struct Minimum {
  Case the_case;
  ProbedFailure failure;  // of the_case, looked at closely; its signature may differ from the wanted one in `where`
  bool minimal = false;
  Rate rate;  // of the_case, counted anew after the descent
  std::uint64_t tried = 0;
  double seconds = 0;
};

// Minimises what fails in `start` under the signature `wanted`, among `properties`, in a process of its own. Its own
// property alone is asked where that shows the failure: others only plan runs that the failure does not need. A failure
// that comes and goes is tried several times, and a step counts when it fails at least half as often as the case did at
// first. None: `start` did not fail so in any of the tries. `timeout_seconds`: a case that takes longer hangs; what is
// known to hang is given a second at most. Throws EnvironmentError and HarnessError.
std::optional<Minimum> minimize(const Subject& subject, const Case& start, const Signature& wanted,
                                const std::vector<const Property*>& properties, double timeout_seconds,
                                const MinimizeLimits& limits);

// A tiling that differs from the first of the case in as little as can be and under which it passes as its only tiling,
// by the properties given. None: none of those tried does.
std::optional<Tiling> passing_tiling(const Subject& subject, const Case& c,
                                     const std::vector<const Property*>& properties, double timeout_seconds);

}  // namespace tileproof

#endif
