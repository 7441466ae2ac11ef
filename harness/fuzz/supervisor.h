// The one process that keeps a campaign going: it starts libFuzzer and starts it again, has what was met looked into,
// and writes down how the campaign stands. Everything that it needs to go on is in the directory, at any moment.
#ifndef TILEPROOF_FUZZ_SUPERVISOR_H
#define TILEPROOF_FUZZ_SUPERVISOR_H

#include <functional>
#include <string>

#include "fuzz/campaign.h"
#include "fuzz/status.h"

namespace tileproof {

// Held while it lives: nobody else runs this campaign. Makes the directory. Throws InputError where somebody does, or
// where the directory is no campaign's, and EnvironmentError.
class CampaignLock {
 public:
  explicit CampaignLock(const std::string& directory);
  ~CampaignLock();
  CampaignLock(const CampaignLock&) = delete;
  CampaignLock& operator=(const CampaignLock&) = delete;

 private:
  int file_ = -1;
};

struct CampaignOptions {
  std::string directory;                              // locked, with settings
  std::string program;                                // the fuzz target
  double seconds = 0;                                 // how long this run lasts
  int jobs = 1;                                       // processes that fuzz
  std::function<void(const CampaignStatus&)> status;  // once a second
  std::function<void(const std::string&)> closing;    // what is still done when the time is up
};

struct CampaignOutcome {
  CampaignStatus status;
  int interrupted_by = 0;     // the signal that ended it early; 0: none
  std::string gave_up;        // why it ended early for a reason that is no kernel's; empty: it did not
  std::string harness_error;  // the last one that this campaign noted; empty: none
};

// Throws EnvironmentError where it cannot even begin, and as Store does.
CampaignOutcome run_campaign(const CampaignOptions& options);

}  // namespace tileproof

#endif
