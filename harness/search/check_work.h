// What a check's worker processes do, and what they share with their supervisor.
#ifndef TILEPROOF_SEARCH_CHECK_WORK_H
#define TILEPROOF_SEARCH_CHECK_WORK_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "search/check.h"
#include "search/worker_pool.h"

namespace tileproof {

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
  Board(std::size_t subjects, std::size_t properties);  // throws EnvironmentError
  ~Board();
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
  explicit Work(const CheckOptions& options);
  Case at(std::size_t subject, std::uint64_t unit) const;
  bool has(std::size_t subject, std::uint64_t unit) const {
    const std::uint64_t own = corpus_[subject].size();
    return unit < own || (options_.cases ? unit - own < *options_.cases : steady_ns() < deadline(subject));
  }

  // Whether the unit is of the share that is judged by the sanitizing build too.
  bool sanitizes(std::size_t subject, std::uint64_t unit) const {
    const std::uint64_t own = corpus_[subject].size();
    return options_.sanitize_every > 0 && (unit < own || (unit - own) % options_.sanitize_every == 0);
  }

 private:
  std::int64_t deadline(std::size_t subject) const {
    const double share = options_.seconds * static_cast<double>(subject + 1) / static_cast<double>(corpus_.size());
    return start_ns_ + static_cast<std::int64_t>(share * 1e9);
  }
  const CheckOptions& options_;
  std::int64_t start_ns_;
  std::vector<std::vector<const Case*>> corpus_;  // per subject
  mutable std::mutex generating_;                 // RapidCheck keeps state of its own
};

// How many lanes the workers of a check of these subjects have, and how many workers there are.
struct Crew {
  int workers = 1;
  int lanes = 1;
};
Crew crew_for(const CheckOptions& options);

// In a worker process: everything it can claim.
void do_work(const CheckOptions& options, const Work& work, Board& board, const WorkerSide& side);

}  // namespace tileproof

#endif
