// Registers operations and subjects before any test runs, and before tests with parameters are made of them.
#include <gtest/gtest.h>

#include "execute/subject.h"
#include "operations.h"

int main(int argc, char** argv) {
  tileproof::register_all_operations();
  tileproof::load_subjects();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
