// One case at a time in a process of its own, so that what a kernel does to that process is an answer like any other.
#ifndef TILEPROOF_SEARCH_PROBER_H
#define TILEPROOF_SEARCH_PROBER_H

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/engine.h"

namespace tileproof {

// The parts of a finding's signature, "property/tensor/where/kind".
struct Signature {
  std::string property;
  std::string tensor;
  std::string where;
  std::string kind;
};
Signature parse_signature(std::string_view text);

// Whether two signatures are the same failure: all but `where` agree. Where the same overrun lands, behind the last row
// or in a gap between rows, is decided by the strides alone, which are what minimising changes.
bool same_failure(const Signature& a, const Signature& b);

struct ProbedFailure {
  std::string signature;
  std::string message;
  std::vector<std::string> evidence;
};

struct Probe {
  bool judged = false;  // some property held or failed; false: refused, or none applies
  std::vector<ProbedFailure> failures;
  const ProbedFailure* find(const Signature& wanted) const;
};

// Owns a child process, started with the first probe and replaced when a kernel kills it. Not for use by two threads.
class Prober {
 public:
  // `timeout_seconds`: a case that takes longer hangs.
  Prober(const Subject& subject, std::vector<const Property*> properties, double timeout_seconds);
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // A child that dies is the failure launch_valid//launch/HOW, as it is in a check. Throws EnvironmentError when a
  // process cannot be had, HarnessError for one of the child's.
  Probe probe(const Case& c);
  // With further evidence (search/show.h), for which the reference runs again: the map of what is wrong, or whose value
  // the first wrong element holds.
  Probe look_closer(const Case& c);
  Probe look_for_owner(const Case& c);
  std::uint64_t probes() const { return probes_; }

 private:
  Probe ask(const std::string& request);
  void start();
  void stop();
  std::optional<std::string> answer();  // none: the child is gone or was killed for taking too long
  Probe lost();

  const Subject& subject_;
  std::vector<const Property*> properties_;
  double timeout_seconds_;
  std::uint64_t probes_ = 0;
  pid_t child_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
  bool timed_out_ = false;
  std::string buffer_;
};

}  // namespace tileproof

#endif
