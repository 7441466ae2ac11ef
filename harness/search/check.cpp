#include "search/check.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <new>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "execute/device.h"
#include "generate/generator.h"
#include "search/results.h"
#include "search/worker_pool.h"

namespace tileproof {

namespace {

using nlohmann::json;

constexpr std::uint64_t kChunk = 4;

std::atomic<int> interrupted_by{0};

void on_interrupt(int signal) { interrupted_by = signal; }

// What asks a process to end, ends the check instead, with what it has. Signals that the caller had ignored stay so.
class InterruptScope {
 public:
  InterruptScope() {
    interrupted_by = 0;
    for (std::size_t i = 0; i < old_.size(); ++i) {
      sigaction(kSignals[i], nullptr, &old_[i]);
      if (old_[i].sa_handler != SIG_IGN) {
        struct sigaction action {};
        action.sa_handler = on_interrupt;
        sigaction(kSignals[i], &action, nullptr);
      }
    }
  }
  ~InterruptScope() {
    for (std::size_t i = 0; i < old_.size(); ++i) {
      sigaction(kSignals[i], &old_[i], nullptr);
    }
  }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> old_{};
};

struct SharedTally {
  std::atomic<std::uint64_t> power{0}, held{0}, failed{0}, refused{0}, not_applicable{0};
};

struct SharedSubject {
  std::atomic<std::uint64_t> next{0};  // next unit to claim
  std::atomic<std::uint64_t> cases{0}, launches{0};
  std::atomic<bool> done{false};
};

// Counters that every worker adds to; they survive the worker.
class Board {
 public:
  Board(std::size_t subjects, std::size_t properties)
      : properties_(properties),
        size_(subjects * (sizeof(SharedSubject) + properties * sizeof(SharedTally)) + sizeof(std::atomic<double>)) {
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw EnvironmentError("cannot map shared memory for the counters of the check");
    }
    largest_ = new (memory) std::atomic<double>(0);
    subjects_ = reinterpret_cast<SharedSubject*>(largest_ + 1);
    std::uninitialized_default_construct_n(subjects_, subjects);
    tallies_ = reinterpret_cast<SharedTally*>(subjects_ + subjects);
    std::uninitialized_default_construct_n(tallies_, subjects * properties);
  }
  ~Board() { munmap(static_cast<void*>(largest_), size_); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  SharedSubject& subject(std::size_t index) { return subjects_[index]; }
  SharedTally& tally(std::size_t subject, std::size_t property) { return tallies_[subject * properties_ + property]; }
  double largest() const { return *largest_; }
  void raise_largest(double value) {
    double seen = *largest_;
    while (value > seen && !largest_->compare_exchange_weak(seen, value)) {
    }
  }

 private:
  std::size_t properties_;
  std::size_t size_;
  std::atomic<double>* largest_ = nullptr;
  SharedSubject* subjects_ = nullptr;
  SharedTally* tallies_ = nullptr;
};

// What is to be done, fixed before the workers start: units of a subject are its corpus cases, then generated ones.
class Work {
 public:
  explicit Work(const CheckOptions& options) : options_(options), start_ns_(steady_ns()) {
    for (const Subject* subject : options.subjects) {
      std::vector<const Case*> own;
      for (const Case& c : options.corpus) {
        if (&c.problem.operation() == subject->operation) {
          own.push_back(&c);
        }
      }
      corpus_.push_back(std::move(own));
    }
  }
  Case at(std::size_t subject, std::uint64_t unit) const {
    const auto& own = corpus_[subject];
    return unit < own.size() ? *own[unit]
                             : generate_case(*options_.subjects[subject], options_.seed, unit - own.size());
  }
  bool has(std::size_t subject, std::uint64_t unit) const {
    const std::uint64_t own = corpus_[subject].size();
    return unit < own || (options_.cases ? unit - own < *options_.cases : steady_ns() < deadline(subject));
  }

 private:
  std::int64_t deadline(std::size_t subject) const {
    const double share = options_.seconds * static_cast<double>(subject + 1) / static_cast<double>(corpus_.size());
    return start_ns_ + static_cast<std::int64_t>(share * 1e9);
  }
  const CheckOptions& options_;
  std::int64_t start_ns_;
  std::vector<std::vector<const Case*>> corpus_;  // per subject
};

class Worker {
 public:
  Worker(const CheckOptions& options, const Work& work, Board& board, Slot& slot,
         const std::function<void(const std::string&)>& send)
      : options_(options),
        work_(work),
        board_(board),
        slot_(slot),
        send_(send),
        engine_(make_executor(options.subjects.front()->raw->device)) {}

  void run(const Resume& resume) {
    launch_stage() = &slot_.stage;
    run_units(resume.subject, resume.from, resume.to);
    for (std::size_t subject = resume.subject; subject < options_.subjects.size(); ++subject) {
      SharedSubject& shared = board_.subject(subject);
      while (!shared.done) {
        const std::uint64_t from = shared.next.fetch_add(kChunk);
        if (!work_.has(subject, from)) {
          break;
        }
        run_units(subject, from, from + kChunk);
      }
    }
  }

 private:
  void run_units(std::size_t subject, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t unit = from; unit < to && !board_.subject(subject).done && work_.has(subject, unit); ++unit) {
      slot_.subject = static_cast<std::uint32_t>(subject);
      slot_.unit = unit;
      slot_.claimed_to = to;
      slot_.started_ns = steady_ns();
      slot_.stage = 1;
      run_unit(subject, unit);
      board_.raise_largest(largest_error_over_bound());  // now: the next unit may cost this process
      slot_.stage = 0;
    }
  }

  void run_unit(std::size_t subject, std::uint64_t unit) {
    const Case c = work_.at(subject, unit);
    std::vector<Judged> judged;
    const std::uint64_t launches = engine_.launches();
    try {
      judged = engine_.check(*options_.subjects[subject], {&c, 1}, options_.properties).front();
    } catch (const EnvironmentError& error) {
      judged.assign(options_.properties.size(), Judged{Verdict::refused, false, error.what(), std::nullopt});
    } catch (const HarnessError& error) {
      throw HarnessError(fmt::format("{} (case: {})", error.what(), text(c)));
    }
    SharedSubject& shared = board_.subject(subject);
    shared.launches += engine_.launches() - launches;
    ++shared.cases;
    for (std::size_t i = 0; i < judged.size(); ++i) {
      record(subject, unit, i, judged[i], c);
    }
  }

  void record(std::size_t subject, std::uint64_t unit, std::size_t property, const Judged& judged, const Case& c) {
    SharedTally& tally = board_.tally(subject, property);
    switch (judged.verdict) {
      case Verdict::held: ++tally.held; break;
      case Verdict::failed: ++tally.failed; break;
      case Verdict::refused: ++tally.refused; return;
      case Verdict::not_applicable: ++tally.not_applicable; return;
    }
    // A case that did fail could have failed, whatever the property foresaw.
    tally.power += judged.power || judged.verdict == Verdict::failed ? 1 : 0;
    if (!judged.failure) {
      return;
    }
    board_.subject(subject).done = options_.stop_on_failure;
    const std::string sign = signature(options_.properties[property]->name(), *judged.failure);
    json message{{"subject", subject}, {"property", property}, {"unit", unit}, {"signature", sign}};
    const std::pair<std::int64_t, std::uint64_t> size{elements_of(c.problem), unit};
    const auto [known, fresh] = told_.try_emplace({subject, sign}, size);
    if (fresh || size < known->second) {
      known->second = size;
      message["elements"] = size.first;
      message["case"] = text(c);
      message["message"] = judged.failure->message;
      message["evidence"] = judged.failure->evidence;
    }
    send_(message.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  const CheckOptions& options_;
  const Work& work_;
  Board& board_;
  Slot& slot_;
  const std::function<void(const std::string&)>& send_;
  Engine engine_;
  // Per subject and signature, elements and number of the smallest case whose evidence this worker has told.
  std::map<std::pair<std::size_t, std::string>, std::pair<std::int64_t, std::uint64_t>> told_;
};

// Findings as they arrive, one per subject and signature. The case shown is the smallest, so that a person can follow
// it; of equally small ones the first, so that it does not depend on which worker was faster.
class Ledger {
 public:
  Ledger(const CheckOptions& options, const Work& work, Board& board) : options_(options), work_(work), board_(board) {}

  void message(const std::string& line) {
    const json parsed = json::parse(line);
    const auto subject = parsed.at("subject").get<std::size_t>();
    const auto property = parsed.at("property").get<std::size_t>();
    const auto unit = parsed.at("unit").get<std::uint64_t>();
    Finding& finding = count(subject, property, unit, parsed.at("signature"));
    if (parsed.contains("case") && is_smaller(finding, parsed.at("elements"), unit)) {
      finding.case_text = parsed.at("case");
      finding.message = parsed.at("message");
      finding.evidence = parsed.at("evidence").get<std::vector<std::string>>();
    }
  }

  // A lost worker is one finding of the property that judges launches.
  void death(const Death& death) {
    const std::size_t subject = death.slot->subject;
    const std::uint64_t unit = death.slot->unit;
    std::size_t property = 0;
    while (property < options_.properties.size() && !options_.properties[property]->judges_failed_launches()) {
      ++property;
    }
    ++board_.subject(subject).cases;
    if (property < options_.properties.size()) {
      ++board_.tally(subject, property).failed;
      ++board_.tally(subject, property).power;
    }
    board_.subject(subject).done = options_.stop_on_failure;
    const std::string name = property < options_.properties.size() ? std::string(options_.properties[property]->name())
                                                                   : std::string("launch_valid");
    Finding& finding = count(subject, property, unit, fmt::format("{}//launch/{}", name, death.how));
    const Case c = work_.at(subject, unit);
    if (is_smaller(finding, elements_of(c.problem), unit)) {
      finding.case_text = text(c);
      finding.evidence.clear();
      finding.message = death.how == "timeout" ? "the launch did not end in time and was killed"
                                               : fmt::format("the process that launched it died with {}", death.how);
      if (!death.inside_launch) {
        finding.evidence = {"it died after a launch had returned: the kernel damaged memory outside its tensors"};
      }
    }
  }

  std::uint64_t size() const { return findings_.size(); }

  std::vector<Finding> take(std::size_t subject) {
    std::vector<std::pair<std::size_t, Finding>> own;
    for (auto& [key, entry] : findings_) {
      if (key.first == subject) {
        own.emplace_back(entry.first, entry.second);
      }
    }
    std::sort(own.begin(), own.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second.first_case, a.second.signature) <
             std::tie(b.first, b.second.first_case, b.second.signature);
    });
    std::vector<Finding> result;
    for (auto& [property, finding] : own) {
      result.push_back(std::move(finding));
    }
    return result;
  }

 private:
  Finding& count(std::size_t subject, std::size_t property, std::uint64_t unit, const std::string& sign) {
    auto& [index, finding] = findings_[{subject, sign}];
    index = property;
    finding.first_case = finding.count == 0 ? unit : std::min(finding.first_case, unit);
    finding.subject = options_.subjects[subject]->name;
    finding.signature = sign;
    finding.property = sign.substr(0, sign.find('/'));
    ++finding.count;
    return finding;
  }

  // Whether this case replaces the one that the finding shows; notes its size when it does.
  static bool is_smaller(Finding& finding, std::int64_t elements, std::uint64_t unit) {
    const bool smaller =
        finding.case_text.empty() || std::tie(elements, unit) < std::tie(finding.elements, finding.case_number);
    if (smaller) {
      finding.elements = elements;
      finding.case_number = unit;
    }
    return smaller;
  }

  const CheckOptions& options_;
  const Work& work_;
  Board& board_;
  std::map<std::pair<std::size_t, std::string>, std::pair<std::size_t, Finding>> findings_;
};

Progress progress_of(const CheckOptions& options, Board& board, std::uint64_t findings, double elapsed) {
  Progress progress;
  progress.elapsed = elapsed;
  progress.total_seconds = options.cases ? 0 : options.seconds;
  progress.findings = findings;
  for (std::size_t i = 0; i < options.subjects.size(); ++i) {
    progress.cases += board.subject(i).cases;
    progress.launches += board.subject(i).launches;
    if (board.subject(i).cases > 0) {
      progress.subject = options.subjects[i]->name;
    }
  }
  return progress;
}

SubjectReport report_of(const CheckOptions& options, Board& board, std::size_t subject, Ledger& ledger) {
  SubjectReport report;
  report.subject = options.subjects[subject];
  report.cases = board.subject(subject).cases;
  report.launches = board.subject(subject).launches;
  for (std::size_t i = 0; i < options.properties.size(); ++i) {
    const SharedTally& shared = board.tally(subject, i);
    report.tallies.push_back(Tally{shared.held + shared.failed, shared.power, shared.held, shared.failed,
                                   shared.refused, shared.not_applicable});
  }
  report.findings = ledger.take(subject);
  return report;
}

}  // namespace

CheckReport run_check(const CheckOptions& options) {
  const int cores = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const int jobs = options.jobs > 0 ? options.jobs : cores;
  const InterruptScope scope;
  Board board(options.subjects.size(), options.properties.size());
  const Work work(options);
  Ledger ledger(options, work, board);
  const std::int64_t start = steady_ns();
  const auto elapsed = [start] { return static_cast<double>(steady_ns() - start) * 1e-9; };
  PoolCallbacks callbacks;
  callbacks.work = [&](Slot& slot, const Resume& resume, const std::function<void(const std::string&)>& send) {
    Worker(options, work, board, slot, send).run(resume);
  };
  callbacks.message = [&](const std::string& line) { ledger.message(line); };
  callbacks.death = [&](const Death& death) { ledger.death(death); };
  callbacks.stop = [] { return interrupted_by != 0; };
  callbacks.tick = [&] {
    if (options.progress) {
      options.progress(progress_of(options, board, ledger.size(), elapsed()));
    }
  };
  run_pool(jobs, options.timeout_seconds, callbacks);
  CheckReport report;
  report.seed = options.seed;
  report.seconds = elapsed();
  report.jobs = jobs;
  report.properties = options.properties;
  report.interrupted_by = interrupted_by;
  report.largest_error_over_bound = board.largest();
  for (std::size_t i = 0; i < options.subjects.size(); ++i) {
    report.subjects.push_back(report_of(options, board, i, ledger));
  }
  return report;
}

}  // namespace tileproof
