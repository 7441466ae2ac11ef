// Under which condition does a subject fail? Inferred from samples around a failing case and from everywhere.
//
// Samples come in three shares: the neighbourhood of the case (one parameter changed, then two), the way from there to
// generated cases (half of the parameters), and generated cases themselves. Then, round by round, those on which the
// best conditions so far disagree.
//
// What tensors hold can hide a fault (an overrun that writes back what was there, a rotation by nothing). So a case
// that holds is tried again with the contents of the starting case, where these are plain, and under other seeds of the
// data; when it then fails, that is the sample.
#ifndef TILEPROOF_SEARCH_EXPLAIN_H
#define TILEPROOF_SEARCH_EXPLAIN_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/inference.h"
#include "search/neighbourhood.h"
#include "search/trial.h"

namespace tileproof {

struct ExplainOptions {
  std::vector<Held> held;
  std::uint64_t seed = 1;
  std::uint64_t cases = 2000;                           // samples at most
  std::int64_t deadline_ns = INT64_MAX;                 // steady_ns()
  std::function<void(std::uint64_t samples)> progress;  // after every batch; may be empty
};

// Which outcomes of a trial are failures of the kind that is to be explained.
using IsSame = std::function<bool(const std::string& signature)>;

struct Explanation {
  std::optional<Separation> separation;  // none: no sample failed
  std::vector<Separation> others;        // conditions that separate the samples as well, in other words
  std::uint64_t samples = 0;
  std::uint64_t failing = 0;
  std::uint64_t hidden = 0;          // failing samples that held until their contents were changed
  std::uint64_t refused = 0;         // no sample: the subject or the machine refused, or the property does not apply
  std::uint64_t other_failures = 0;  // no sample: fails in another way
  bool out_of_time = false;          // the deadline or a signal ended it early
  // The simplest (search/simplicity.h) of the failing samples; of those that fulfil the condition and hold; of those
  // that do not and fail.
  std::optional<Case> smallest;
  std::optional<Case> holding_inside;
  std::optional<Case> failing_outside;
};

// `start` need not fail under what is held. Throws InputError when what is held leaves no case, and what `try_all`
// throws.
Explanation explain(const Names& names, const Subject& subject, const Case& start, const TryCases& try_all,
                    const IsSame& is_same, const ExplainOptions& options);

// The same of one property on one subject, in worker processes: samples that fail it on the tensor of `signature`.
Explanation explain_failure(const Names& names, const Subject& subject, const Property& property, const Case& start,
                            const std::string& signature, const Isolation& isolation, const ExplainOptions& options);

// "fails when head_num mod block_h != 0 and head_num > block_h: 412 of 412 sampled; otherwise 0 of 930"; `verb`: fail,
// differ. Where no condition is exact: a line that says so, then the best one.
std::string text(const Names& names, const Explanation& explanation, const std::string& verb);

}  // namespace tileproof

#endif
