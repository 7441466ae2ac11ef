// Cases as the bytes that libFuzzer keeps and changes: the name of a subject and the canonical line of a case, so that
// an entry of a corpus can be read and replayed.
#ifndef TILEPROOF_FUZZ_CASE_BYTES_H
#define TILEPROOF_FUZZ_CASE_BYTES_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "execute/subject.h"
#include "memory/counter_random.h"

namespace tileproof {

// A case of one of some subjects, named by its place among them.
struct SubjectCase {
  std::size_t subject = 0;
  Case the_case;
  bool operator==(const SubjectCase&) const = default;
};

class CaseBytes {
 public:
  // The subjects, at least one of them, outlive it. `seed`: of the cases that it draws.
  CaseBytes(std::span<const Subject* const> subjects, std::uint64_t seed) : subjects_(subjects), seed_(seed) {}

  std::string encode(const SubjectCase& one) const;

  // Total: any bytes are a case that its subject takes and a run can afford (at most kMostElements). Bytes that
  // encode() made are that very case. Of others, every word that can be read counts, and a case drawn by the bytes as a
  // whole gives the rest; where no such case comes of that, it is the drawn one.
  SubjectCase decode(std::string_view bytes) const;

  // Pure functions of their arguments, like decode(). Half of what mutate() makes is drawn anew.
  SubjectCase mutate(const SubjectCase& from, std::uint64_t draw) const;
  SubjectCase cross(const SubjectCase& a, const SubjectCase& b, std::uint64_t draw) const;

  // Elements of all tensors of a case together. The largest that the generator draws are of this size.
  static constexpr std::int64_t kMostElements = 100'000;

 private:
  SubjectCase fresh(CounterStream& draw) const;
  bool takes(const SubjectCase& one) const;

  std::span<const Subject* const> subjects_;
  std::uint64_t seed_;
};

}  // namespace tileproof

#endif
