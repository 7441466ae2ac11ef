// Cases as RapidCheck generators, for property tests of the harness itself.
//
// RapidCheck supplies the randomness (an index into the generator's stream); the case is drawn by generate_case, so
// tests and checks see the same distribution.
#ifndef TILEPROOF_GENERATE_RAPIDCHECK_H
#define TILEPROOF_GENERATE_RAPIDCHECK_H

#include <ostream>
#include <tuple>
#include <vector>

#include <rapidcheck.h>

#include "generate/generator.h"

namespace tileproof {

inline void showValue(const Case& c, std::ostream& out) { out << text(c); }

inline rc::Gen<Case> arbitrary_case() {
  return rc::gen::map(rc::gen::tuple(rc::gen::arbitrary<std::uint64_t>(), rc::gen::arbitrary<std::uint64_t>()),
                      [](const std::tuple<std::uint64_t, std::uint64_t>& draw) {
                        std::vector<const Subject*> clean = matching_subjects({});
                        const auto [pick, index] = draw;
                        return generate_case(*clean[pick % clean.size()], 1, index);
                      });
}

}  // namespace tileproof

#endif
