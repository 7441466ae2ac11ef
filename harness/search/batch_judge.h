// Cases judged together, as if each had been alone.
#ifndef TILEPROOF_SEARCH_BATCH_JUDGE_H
#define TILEPROOF_SEARCH_BATCH_JUDGE_H

#include <memory>
#include <span>
#include <vector>

#include "search/engine.h"

namespace tileproof {

class BatchJudge {
 public:
  // The properties outlive it.
  BatchJudge(std::unique_ptr<Executor> executor, const std::vector<const Property*>& properties);

  // One verdict per property for every case. A case for which the memory cannot be had is refused, and no other one
  // with it. Throws HarnessError, naming the case, and DeviceLost.
  std::vector<std::vector<Judged>> judge(const Subject& subject, std::span<const Case> cases, bool sanitize);

  // In a batch a stray write of one case can land in another's memory. So what failed there is judged by a run of its
  // own, unless that held: then it depends on timing or on the others, and stays failed.
  void judge_alone(const Subject& subject, const Case& c, std::vector<Judged>& in_batch, bool sanitize);

  std::uint64_t launches() const { return engine_.launches(); }

 private:
  const std::vector<const Property*>& properties_;
  Engine engine_;
};

}  // namespace tileproof

#endif
