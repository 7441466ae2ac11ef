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
  std::string signature;  // of a failure
  std::string message;    // of a failure or refusal, one line
};

// What becomes of each case; parallel to the cases.
using TryCases = std::function<std::vector<Trial>(std::span<const Case>)>;

// Runs one property of a subject on each case, in worker processes. A crash or hang fails the property that judges
// launches and is skipped by any other. Throws EnvironmentError.
std::vector<Trial> try_cases(const Subject& subject, const Property& property, std::span<const Case> cases,
                             const Isolation& isolation);

// Whether two failures are one, as far as another shape can tell: property and tensor are the same. Place and kind may
// differ: padding turns an overrun behind the last token into one between rows, and the row of another token that an
// overrun hits first may hold copies or values.
bool same_cause(const std::string& signature, const std::string& other);

}  // namespace tileproof

#endif
