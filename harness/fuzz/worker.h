// A process of a campaign that judges cases. Each process has one; not for use by two threads.
#ifndef TILEPROOF_FUZZ_WORKER_H
#define TILEPROOF_FUZZ_WORKER_H

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "fuzz/campaign.h"
#include "fuzz/case_bytes.h"
#include "fuzz/cells.h"
#include "record/store.h"
#include "search/batch_judge.h"

namespace tileproof {

// Launches the traced builds of subjects, so that code coverage sees their kernels.
class TracedLauncher {
 public:
  // Once. Does nothing where there is no such build, as on a GPU.
  void launch(const Subject& subject, const Case& c);

 private:
  std::unique_ptr<BatchJudge> judge_;  // made when it is first needed
  std::vector<const Property*> launching_ = matching_properties({"launch_valid"});
};

class CampaignWorker {
 public:
  // Throws InputError and EnvironmentError.
  explicit CampaignWorker(const std::string& directory);
  ~CampaignWorker();

  const CaseBytes& bytes() const { return bytes_; }
  const Cells& cells() const { return cells_; }

  // As TracedLauncher.
  void launch_once(const SubjectCase& one);

  // Judges it, at once or, on a GPU, with those to come. A failure is in the store before this goes on. Counts what a
  // kernel does to the harness as one; a harness that fails is noted in harness_errors.txt and goes on. Throws
  // EnvironmentError when it cannot go on, and DeviceLost.
  void judge(SubjectCase one);
  // Judges what waits, and records what was counted.
  void flush();

 private:
  struct Told {
    std::int64_t elements = 0;  // of the smallest case that was recorded
    Finding waiting;            // counted, not recorded
  };
  using FieldKey = std::tuple<std::size_t, std::size_t, std::int64_t, std::int64_t>;  // subject, property, across, down
  void judge_waiting();
  void judge_of(std::size_t subject, const std::vector<SubjectCase>& cases, bool sanitize);
  void count(const SubjectCase& one, const std::vector<Judged>& judged);
  void record(const SubjectCase& one, std::size_t property, const Judged& judged);
  void note_fields(const SubjectCase& one, std::size_t property, const Judged& judged);
  void record_counts();
  void note_harness_error(const std::string& what) const;

  std::string directory_;
  CampaignSettings settings_;
  std::vector<const Subject*> subjects_;
  std::vector<const Property*> properties_;
  bool on_gpu_;
  CaseBytes bytes_;
  Cells cells_;
  CampaignBoard board_;
  Flight flight_;
  Store store_;
  // Made when they are first needed: libFuzzer starts processes that never judge.
  std::unique_ptr<BatchJudge> judge_;
  TracedLauncher launcher_;
  std::vector<SubjectCase> waiting_;
  std::map<std::pair<std::size_t, std::string>, Told> told_;
  std::map<FieldKey, std::pair<std::uint64_t, std::uint64_t>> fields_;  // passed, failed
  std::vector<std::string> head_keys_;                                  // of each subject; empty: none
  std::vector<std::uint32_t> covered_;
  std::int64_t recorded_at_;
};

// The parameter that counts the heads of an operation: the single term of a head axis. Empty: none does.
std::string head_parameter(const Operation& operation);

}  // namespace tileproof

#endif
