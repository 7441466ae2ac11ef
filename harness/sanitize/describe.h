// From sightings to reports for a person.
#ifndef TILEPROOF_SANITIZE_DESCRIBE_H
#define TILEPROOF_SANITIZE_DESCRIBE_H

#include <vector>

#include "sanitize/sanitizer.h"

namespace tileproof::sanitize {

// One report per property, kind and pair of lines, in the order in which they were seen. `tensors` are those of the
// launch, still in place.
std::vector<HazardReport> describe(const std::vector<Sighting>& sightings, const std::vector<Placed>& tensors);

}  // namespace tileproof::sanitize

#endif
