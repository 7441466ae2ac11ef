// The fuzz target: what libFuzzer calls. In a campaign (TILEPROOF_CAMPAIGN, set by `tileproof fuzz`) a failure is
// recorded and the target returns: only a lost process is a crash. Alone, as OSS-Fuzz and ClusterFuzzLite run it and as
// a replay, a failure is told and ends the process. TILEPROOF_SUBJECTS names subjects as globs; default: clean ones of
// the CPU.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "execute/device.h"
#include "fuzz/counters.h"
#include "fuzz/worker.h"
#include "operations.h"
#include "record/record.h"

namespace tileproof {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The campaign's supervisor holds the other end: when it is gone, so is this process, whatever it is doing.
void end_with_supervisor() {
  const std::string lifeline = variable("TILEPROOF_LIFELINE");
  if (!lifeline.empty()) {
    std::thread([file = std::atoi(lifeline.c_str())] {
      char byte;
      while (read(file, &byte, 1) < 0 && errno == EINTR) {
      }
      _exit(0);
    }).detach();
  }
}

// Without a campaign: the first failure of a case ends the process.
class Alone {
 public:
  explicit Alone(const std::string& globs)
      : subjects_(subjects_on("cpu", words_of(globs))),
        properties_(matching_properties({})),
        bytes_(subjects_, 0),
        cells_(subjects_),
        judge_(make_executor("cpu"), properties_) {}
  const CaseBytes& bytes() const { return bytes_; }
  const Cells& cells() const { return cells_; }

  void judge(const SubjectCase& one) {
    const Subject& subject = *subjects_[one.subject];
    {
      const TraceScope scope;
      launcher_.launch(subject, one.the_case);
    }
    const std::vector<Judged> judged = judge_.judge(subject, {&one.the_case, 1}, true).front();
    for (std::size_t i = 0; i < judged.size(); ++i) {
      if (judged[i].failure) {
        tell(subject, one.the_case, signature(properties_[i]->name(), *judged[i].failure), *judged[i].failure);
        std::abort();
      }
    }
  }

 private:
  static std::vector<std::string> words_of(const std::string& globs) {
    std::istringstream stream(globs);
    return {std::istream_iterator<std::string>(stream), {}};
  }
  static void tell(const Subject& subject, const Case& c, const std::string& signature, const Failure& failure) {
    fmt::print(stderr, "tileproof: {} fails {}: {}\n", subject.name, signature, failure.message);
    for (const std::string& line : failure.evidence) {
      fmt::print(stderr, "tileproof:   {}\n", line);
    }
    fmt::print(stderr, "tileproof: {}\n", replay_line(text(c), subject.name));
  }

  std::vector<const Subject*> subjects_;
  std::vector<const Property*> properties_;
  CaseBytes bytes_;
  Cells cells_;
  BatchJudge judge_;
  TracedLauncher launcher_;
};

// Neither is destroyed: libFuzzer leaves by _Exit as often as not, and what must be kept is kept before.
CampaignWorker* in_campaign = nullptr;
Alone* alone = nullptr;
// Inputs that libFuzzer reads from a corpus were judged when they were found. So a process judges what it makes itself.
bool has_mutated = false;
std::vector<std::uint32_t> covered;

const CaseBytes& bytes() { return in_campaign != nullptr ? in_campaign->bytes() : alone->bytes(); }
const Cells& cells() { return in_campaign != nullptr ? in_campaign->cells() : alone->cells(); }

[[noreturn]] void give_up(const std::string& directory, const char* why) {
  CampaignBoard(directory, cells().size()).give_up(why);
  _exit(3);
}

void flush_at_exit() {
  try {
    in_campaign->flush();
  } catch (const DeviceLost&) {
    _exit(77);
  } catch (const std::exception& error) {
    give_up(variable("TILEPROOF_CAMPAIGN"), error.what());
  }
}

// Asked for after the device was first used: its runtime ends at exit too, and what was asked for last comes first.
void flush_before_exit() {
  static const int asked = std::atexit(flush_at_exit);
  static_cast<void>(asked);
}

void run_in_campaign(const SubjectCase& one) {
  try {
    {
      const TraceScope scope;
      in_campaign->launch_once(one);
    }
    if (has_mutated) {
      in_campaign->judge(one);
      flush_before_exit();
    }
  } catch (const DeviceLost& error) {
    fmt::print(stderr, "tileproof: the device is lost: {}\n", error.what());
    _exit(77);  // what was in flight is looked into by the supervisor
  } catch (const std::exception& error) {
    give_up(variable("TILEPROOF_CAMPAIGN"), error.what());
  }
}

std::size_t put(const SubjectCase& one, std::uint8_t* out, std::size_t room) {
  const std::string encoded = bytes().encode(one);
  const std::size_t count = std::min(encoded.size(), room);
  std::copy_n(encoded.data(), count, out);
  return count;
}

std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

int initialise() {
  try {
    end_with_supervisor();
    register_all_operations();
    load_subjects();
    const std::string directory = variable("TILEPROOF_CAMPAIGN");
    if (directory.empty()) {
      alone = new Alone(variable("TILEPROOF_SUBJECTS"));
    } else {
      in_campaign = new CampaignWorker(directory);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tileproof: {}\n", error.what());
    _exit(3);
  }
}

}  // namespace

}  // namespace tileproof

extern "C" {

int LLVMFuzzerInitialize(int*, char***) { return tileproof::initialise(); }

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tileproof;
  const SubjectCase one = [&] {
    const TraceScope scope;
    return bytes().decode(view(data, size));
  }();
  cells().covered(one.subject, one.the_case, covered);
  for (const std::uint32_t cell : covered) {
    count_cell(cell);
  }
  if (in_campaign != nullptr) {
    run_in_campaign(one);
  } else {
    alone->judge(one);
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  using namespace tileproof;
  has_mutated = true;
  return put(bytes().mutate(bytes().decode(view(data, size)), seed), data, max_size);
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size, const std::uint8_t* second,
                                      std::size_t second_size, std::uint8_t* out, std::size_t max_size, unsigned seed) {
  using namespace tileproof;
  has_mutated = true;
  return put(bytes().cross(bytes().decode(view(first, first_size)), bytes().decode(view(second, second_size)), seed),
             out, max_size);
}

}  // extern "C"
