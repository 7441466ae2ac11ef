// Registers operations and subjects once for a test binary.
#ifndef TILEPROOF_TESTS_MAIN_SETUP_H
#define TILEPROOF_TESTS_MAIN_SETUP_H

#include "execute/subject.h"
#include "operations.h"

namespace tileproof::testing {

inline void load_everything() {
  static const bool once = [] {
    register_all_operations();
    load_subjects();
    return true;
  }();
  (void)once;
}

}  // namespace tileproof::testing

#endif
