// What code coverage cannot see of a case, least of all on a GPU: which combinations of its features were tried.
//
// A facet sorts the cases of a subject by one feature, derived from what its operation declares: the value of a flag or
// choice, the class of a number (zero, odd, a power of two ...), how head lengths lie against a tiling, alignment of
// rows, magnitude of offsets. A cell is a class of one facet together with a class of another: a case covers one cell
// of every pair of facets.
#ifndef TILEPROOF_FUZZ_CELLS_H
#define TILEPROOF_FUZZ_CELLS_H

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "execute/subject.h"

namespace tileproof {

struct Facet {
  std::string name;
  std::vector<std::string> classes;
  std::function<std::size_t(const Case&)> class_of;
  std::size_t parameter = std::string::npos;  // whose values the classes are one by one, where they are
};

class Cells {
 public:
  explicit Cells(std::span<const Subject* const> subjects);  // which outlive it

  std::size_t size() const { return size_; }
  std::string name(std::size_t cell) const;  // "cpu/mla_rope_q_fwd: layout=thd dtype=bf16"
  // One of every pair of facets of the subject, ascending.
  void covered(std::size_t subject, const Case& c, std::vector<std::uint32_t>& cells) const;
  // Whether some case can cover it. Two values of parameters that exclude each other, by the operation's declaration or
  // the subject's limits, cannot; of every other pair it is taken for granted. Takes a moment.
  std::vector<bool> reachable() const;

 private:
  struct Pair {
    std::size_t subject, first, second;  // facets
    std::size_t begin;                   // number of its first cell
  };
  const Pair& pair_of(std::size_t cell) const;
  std::span<const Subject* const> subjects_;
  std::vector<std::vector<Facet>> facets_;  // of each subject
  std::vector<Pair> pairs_;
  std::vector<std::size_t> first_pair_;  // of each subject
  std::size_t size_ = 0;
};

std::vector<Facet> facets_of(const Operation& operation);

}  // namespace tileproof

#endif
