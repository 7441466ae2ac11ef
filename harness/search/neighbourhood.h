// Cases near a given one and far from it, built from what the generator draws.
#ifndef TILEPROOF_SEARCH_NEIGHBOURHOOD_H
#define TILEPROOF_SEARCH_NEIGHBOURHOOD_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "execute/subject.h"
#include "memory/counter_random.h"
#include "tileproof/model.h"

namespace tileproof {

// A parameter of the problem or of every tiling that keeps one value.
struct Held {
  std::string key;
  Value value;
};

// "num_warps=1": throws InputError naming what was given and what was expected.
Held parse_held(const Operation& operation, const std::string& text);

// Variants of a case take values of single parameters over from donors, which are generated cases: so they stay in the
// declared ranges and come up as often as there. Every one has as many tilings as the case, what is held has its value,
// no limit of the subject is passed, and there is some output.
class Neighbourhood {
 public:
  // Every argument outlives it. Throws HarnessError when what is held leaves no case.
  Neighbourhood(const Subject& subject, const Case& start, const std::vector<Held>& held, std::uint64_t seed);

  std::size_t parameters() const;  // of the problem and of a tiling together
  // `base` with `count` parameters changed: to the value of a donor, or a little or much within the declared range.
  // Parameter `first` is among them when given.
  std::optional<Case> vary(const Case& base, std::size_t count, std::optional<std::size_t> first = {});
  // Half of all parameters from one donor.
  std::optional<Case> cross(const Case& base);
  // A donor as it is.
  std::optional<Case> far();
  const Case& start() const { return start_; }  // with what is held

 private:
  const Case& donor(std::uint64_t index);
  bool complete(Case& c, const Case& was, const Case& from) const;  // false when it is no case of the subject

  const Subject& subject_;
  std::vector<Held> held_;
  std::uint64_t seed_;
  CounterStream draw_;
  std::size_t tilings_;
  std::int64_t most_elements_;
  std::vector<Case> donors_;
  Case start_;
};

}  // namespace tileproof

#endif
