// What every refusal must look like.
#ifndef TILEPROOF_TESTS_E2E_EXPECT_H
#define TILEPROOF_TESTS_E2E_EXPECT_H

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "process.h"

namespace tileproof::e2e {

// The process ended by itself with `status` and said one line on standard error that holds all `parts`.
inline void expect_refusal(const Outcome& outcome, int status, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.signal, 0) << outcome.err;
  EXPECT_EQ(outcome.status, status) << outcome.err << outcome.out;
  EXPECT_EQ(outcome.err.rfind("tileproof: ", 0), 0U) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_LT(outcome.err.size(), 1100U) << "longer than anybody reads";
  for (const char c : outcome.err) {
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 32 || c == '\n') << "a control character in: " << outcome.err;
  }
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << "no '" << part << "' in: " << outcome.err;
  }
}

}  // namespace tileproof::e2e

#endif
