// A failing case as a GoogleTest file for somebody's own repository.
#ifndef TILEPROOF_RECORD_GTEST_SOURCE_H
#define TILEPROOF_RECORD_GTEST_SOURCE_H

#include <optional>
#include <string>

#include "execute/subject.h"

namespace tileproof {

struct RegressionTest {
  const Subject* subject = nullptr;
  Case the_case;                  // its tilings are pinned, in the order of the case
  std::optional<Tiling> control;  // one that passes; none: none was found
  std::string signature;          // under which it failed
};

// A file that needs GoogleTest and tileproof/plugin.h: inputs as bits, what is right with its bounds, guards around and
// inside every tensor, the failing tilings pinned beside the control. The adjoint of the operation is tested likewise
// where the reader has one. Throws InputError for a case that is too large for a source file.
std::string gtest_source(const RegressionTest& test);

}  // namespace tileproof

#endif
