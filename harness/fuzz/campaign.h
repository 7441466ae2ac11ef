// The directory of a campaign, and what its processes share there. All of it outlives every process, and any of them
// may be ended at any moment.
//
//   settings.json   what is fuzzed: written once, when the campaign begins
//   lock            held by the one supervisor
//   campaign.db     findings and history (record/store.h)
//   board           counters, mapped by every process
//   corpus/         libFuzzer's: inputs that covered something new, each the name of a subject and a case line
//   findings/       one file of cases for each finding, for `tileproof check --corpus`
//   flights/        of every process the inputs that it judges now
//   lost/           inputs that were in flight when their process died, until they are looked into
//   tmp/            libFuzzer's own, thrown away between runs
//   status.jsonl, libfuzzer.log
#ifndef TILEPROOF_FUZZ_CAMPAIGN_H
#define TILEPROOF_FUZZ_CAMPAIGN_H

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "execute/subject.h"
#include "tileproof/property.h"

namespace tileproof {

// What is fixed when a campaign begins.
struct CampaignSettings {
  std::vector<std::string> subjects;  // names, all of one device
  std::vector<std::string> properties;
  std::uint64_t seed = 0;
  std::uint64_t sanitize_every = 8;  // one case in so many is judged by the sanitizing build too; 0: none
  double timeout_seconds = 10;       // a case that takes longer hangs
  bool operator==(const CampaignSettings&) const = default;
};

bool has_settings(const std::string& directory);
// Throws InputError where there are none, or none that this tileproof wrote.
CampaignSettings read_settings(const std::string& directory);
void write_settings(const std::string& directory, const CampaignSettings& settings);  // throws EnvironmentError

// Those of the settings. Throw InputError for one that this build does not have.
std::vector<const Subject*> subjects_of(const CampaignSettings& settings);
std::vector<const Property*> properties_of(const CampaignSettings& settings);

std::int64_t milliseconds_now();  // since 1970 UTC

// A file that is mapped and shared. All of it is on the disk from the start, so that a full disk shows here and not as
// a SIGBUS later.
class SharedFile {
 public:
  SharedFile(const std::string& path, std::size_t size);  // made where it is not there or of another size
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

// Counters of a campaign, totals over all its runs.
class CampaignBoard {
 public:
  // Throws EnvironmentError. A board of other cells is begun anew.
  CampaignBoard(const std::string& directory, std::size_t cells);

  std::atomic<std::uint64_t>& cases() { return header().cases; }
  std::atomic<std::uint64_t>& launches() { return header().launches; }
  std::atomic<std::uint64_t>& refused() { return header().refused; }  // cases that no property judged
  std::atomic<std::int64_t>& newest() { return header().newest; }     // when a cell was last covered for the first time
  // When a cell was first covered, in milliseconds since 1970; 0: not yet.
  std::atomic<std::int64_t>& first_seen(std::size_t cell) { return cells()[cell]; }
  std::size_t size() const { return size_; }

  // What ends the campaign: the first of its processes that meets it says so here. Empty: nothing.
  void give_up(const std::string& why);
  std::string gave_up() const;
  void forget_giving_up();

 private:
  struct Header {
    std::uint64_t magic;
    std::uint64_t cell_count;
    std::atomic<std::uint64_t> cases, launches, refused;
    std::atomic<std::int64_t> newest;
    std::atomic<bool> gave_up;
    char why[512];
  };
  Header& header() const { return *static_cast<Header*>(file_.data()); }
  std::atomic<std::int64_t>* cells() const { return reinterpret_cast<std::atomic<std::int64_t>*>(&header() + 1); }
  std::size_t size_;
  SharedFile file_;
};

// The inputs that a process is judging.
class Flight {
 public:
  explicit Flight(const std::string& directory);  // of this process; throws EnvironmentError
  ~Flight();                                      // landed or not, it is no more
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  void take_off(const std::vector<std::string>& inputs);
  void land();

 private:
  std::string path_;
  SharedFile file_;
};

// What to do with the flights of processes.
enum class Flights {
  of_the_dead,  // moves what was in flight in those that have ended to lost/
  all,          // the same of every one: for a campaign that begins, when none of its processes is left
  discard,      // throws those of the dead away: it was this program that ended them
};
// Throws EnvironmentError; what could not be moved stays.
void collect_flights(const std::string& directory, Flights which);
struct LostInput {
  std::string path;  // to be removed when it was looked into
  std::string input;
};
std::vector<LostInput> lost_inputs(const std::string& directory);

}  // namespace tileproof

#endif
