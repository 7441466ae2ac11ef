// Which source lines an access comes from.
#ifndef TILEPROOF_SANITIZE_SOURCE_LINES_H
#define TILEPROOF_SANITIZE_SOURCE_LINES_H

#include <string>
#include <vector>

#include "sanitize/sanitizer.h"

namespace tileproof::sanitize {

struct Place {
  std::string file;  // without its directory
  int line = 0;
  std::string function;
};

// The calls from the access out to the kernel, innermost first, inlined ones too; empty where the build has no debug
// information or no libbacktrace (TILEPROOF_HAVE_BACKTRACE). Reads the running program; starts no other.
std::vector<Place> places_of(const Calls& calls);

// "q_fwd.cu:37", the line of the kernel's own source; "an unknown line" when there is none.
std::string kernel_line(const std::vector<Place>& places);
// "q_fwd.cu:37, through store_pairs (rotation.cuh:92), store (elements.cuh:68)".
std::string line_text(const std::vector<Place>& places);

}  // namespace tileproof::sanitize

#endif
