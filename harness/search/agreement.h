// Whether the two devices agree: the same cases on both, property by property, and bit by bit for clean subjects.
#ifndef TILEPROOF_SEARCH_AGREEMENT_H
#define TILEPROOF_SEARCH_AGREEMENT_H

#include <cstdint>
#include <string>
#include <vector>

#include "search/check.h"

namespace tileproof {

struct Agreement {
  std::string subject;  // without its device
  bool fault = false;
  std::uint64_t cases = 0;
  std::vector<std::string> found_on_both;  // properties that failed
  std::vector<std::string> only_on_cpu;
  std::vector<std::string> only_on_cuda;
  bool same_counts = false;  // every property that both can hold failed and held in as many cases on both
  // Of a clean subject: outputs compared bit by bit over all cases and tilings (NaN equals NaN), and how many differed.
  std::uint64_t outputs = 0;
  std::uint64_t different = 0;
  // Whether what must find the fault first is a property that only the cpu can hold it to: the order of threads and
  // blocks is part of the case there and the GPU's own on cuda, and the sanitizing build is the cpu's.
  bool shown_by_cpu = false;
  // Of a fault with other counts, all cases and those of its findings launched again and again on cuda as they are: how
  // many launches there were, and in how many something was other than after the clean kernel.
  std::uint64_t launches = 0;
  std::uint64_t shown = 0;
};

// `options.subjects`: of cuda; each is held against the cpu subject of the same name. The caller has made sure that
// cuda is usable. Throws EnvironmentError.
std::vector<Agreement> find_agreement(const CheckOptions& options);

}  // namespace tileproof

#endif
