// How a campaign stands: for the line on a terminal, for status.jsonl (harness/docs/json.md) and for its history.
#ifndef TILEPROOF_FUZZ_STATUS_H
#define TILEPROOF_FUZZ_STATUS_H

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "fuzz/campaign.h"
#include "fuzz/cells.h"
#include "record/store.h"

namespace tileproof {

struct CampaignStatus {
  Sample total;                 // over all runs of the campaign
  double left = 0;              // seconds of this run
  double cases_per_second = 0;  // over the last few seconds
  double launches_per_second = 0;
  double newest_cell_age = 0;  // seconds since a cell was first covered; negative: none was yet
  std::uint64_t waiting = 0;   // inputs whose process died, to be looked into
};

std::string status_line(const CampaignStatus& status);
std::string status_json(const CampaignStatus& status);  // one line, schema "tileproof.status/1"

// Reads the status of a running campaign, and writes its history. One process of it has one.
class CampaignHistory {
 public:
  // Continues what the store holds. `seconds`: how long this run is to last. Throws as Store does.
  CampaignHistory(const std::string& directory, std::vector<const Subject*> subjects, double seconds);

  CampaignStatus now();
  // Puts the status at the end of status.jsonl. Throws EnvironmentError.
  void append(const CampaignStatus& status) const;
  // Puts the status and the cells that are new into the store, when the corpus that it counts is on the disk.
  void record(const CampaignStatus& status);

  CampaignBoard& board() { return board_; }

 private:
  void restore(Store& store);
  std::string directory_;
  std::vector<const Subject*> subjects_;
  Cells cells_;
  CampaignBoard board_;
  std::vector<bool> reachable_;
  std::vector<bool> recorded_;  // cells whose time the store has
  std::uint64_t reachable_count_ = 0;
  double elapsed_before_ = 0;  // of earlier runs
  std::int64_t began_;         // ms
  double seconds_;
  std::deque<Sample> recent_;
};

}  // namespace tileproof

#endif
