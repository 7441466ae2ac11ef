// One property on many cases: which fail, and in the same way?
#ifndef TILEPROOF_SEARCH_TRIAL_H
#define TILEPROOF_SEARCH_TRIAL_H

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "search/engine.h"
#include "search/isolated.h"

namespace tileproof {

struct Trial {
  enum class Outcome { fails, holds, refused, skipped };  // skipped: does not apply, or the deadline came first
  Outcome outcome = Outcome::skipped;
  std::string signature;    // of a failure
  std::string message;      // of a failure or refusal, one line
  std::size_t attempt = 0;  // which of the attempts it is of
};

// A case, and behind it the same with other contents. They are tried in turn for as long as they hold.
using Attempts = std::vector<Case>;

// What becomes of each; parallel to them.
using TryCases = std::function<std::vector<Trial>(std::span<const Attempts>)>;

// Runs one property of a subject on each, in worker processes. A crash or hang fails the property that judges launches
// and is skipped by any other. Throws EnvironmentError.
std::vector<Trial> try_cases(const Subject& subject, const Property& property, std::span<const Attempts> cases,
                             const Isolation& isolation);
Trial try_case(const Subject& subject, const Property& property, const Case& c, const Isolation& isolation);

// What a worker makes of attempts, each tried by `try_one`, as a line for answer_units(), and the way back. A death is
// for the caller to judge: `of_death`.
std::string answer_attempts(const Attempts& attempts, const std::function<Trial(const Case&)>& try_one);
Trial trial_of(const UnitAnswer& answer, const std::function<Trial(const std::string& how)>& of_death);

// Whether two failures are one, as far as another shape can tell: property and tensor are the same. Place and kind may
// differ: padding turns an overrun behind the last token into one between rows, and the row of another token that an
// overrun hits first may hold copies or values.
bool same_cause(const std::string& signature, const std::string& other);

}  // namespace tileproof

#endif
