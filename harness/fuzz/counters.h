// The counters that libFuzzer reads after every input: cells of the case, and code of the instrumented kernels.
#ifndef TILEPROOF_FUZZ_COUNTERS_H
#define TILEPROOF_FUZZ_COUNTERS_H

#include <cstdint>

namespace tileproof {

// What covers a cell for the first time is new to libFuzzer. Cells past the number of counters share them.
void count_cell(std::uint32_t cell);

// While one lives, code that was compiled with -fsanitize-coverage=trace-pc counts.
class TraceScope {
 public:
  TraceScope();
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
};

}  // namespace tileproof

#endif
