// Registers operations and subjects before any test runs.
#include <gtest/gtest.h>

#include "execute/subject.h"
#include "operations.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  tileproof::register_all_operations();
  tileproof::load_subjects();
  return RUN_ALL_TESTS();
}
