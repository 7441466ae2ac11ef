// What several properties plan alike.
#ifndef TILEPROOF_PROPERTIES_PLANS_H
#define TILEPROOF_PROPERTIES_PLANS_H

#include "execute/subject.h"
#include "search/results.h"
#include "tileproof/property.h"

namespace tileproof {

// The run most properties compare with: the case's problem under its first tiling, memory as the case says.
RunId base_run(const CaseContext& context, Plan& plan);
// The same with another memory.
RunId base_run_in(const CaseContext& context, Plan& plan, const Memory& memory);
RunId run_with(const CaseContext& context, Plan& plan, const Tiling& tiling, const Memory& memory = {});

bool has_elements(const Problem& problem);
// Whether some tile of this tiling sticks out over the heads: some value of it cuts the head axis unevenly.
bool has_partial_block(const Problem& problem, const Tiling& tiling);
bool some_partial_block(const CaseContext& context);

// The tiling of a run and, in words, what else is not as usual: "block_h=5, NaN in the guards".
std::string describe(const Operation& operation, const RunRequest& request);

// Compares every later run with the first; the first failure, its message led by what the run was.
std::optional<Failure> same_as_first(const CaseContext& context, const Expectation& expectation,
                                     const Results& results);

// Runs of the sanitizing build of the subject, one for each tiling: the first in the memory of the case, the others
// with padded rows, so that what leaves a row leaves the tensor.
Expectation sanitized_runs(const CaseContext& context, Plan& plan, bool power);
// What a sanitizing build reported of a property: the first report whole, the others by their messages.
std::optional<Failure> first_hazard(const CaseContext& context, const Expectation& expectation, const Results& results,
                                    std::string_view property);

}  // namespace tileproof

#endif
