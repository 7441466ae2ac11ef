#include "fuzz/counters.h"

#include <array>

namespace {

constexpr std::size_t kCells = std::size_t{1} << 16;
constexpr std::size_t kEdges = std::size_t{1} << 14;

// The section's name is a promise of libFuzzer's: it takes what lies there for 8-bit counters, and clears them before
// every input.
__attribute__((section("__libfuzzer_extra_counters"), used)) std::array<std::uint8_t, kCells> cell_counters;
__attribute__((section("__libfuzzer_extra_counters"), used)) std::array<std::uint8_t, kEdges> edge_counters;

bool tracing = false;

}  // namespace

namespace tileproof {

void count_cell(std::uint32_t cell) { cell_counters[cell % kCells] = 1; }

TraceScope::TraceScope() { tracing = true; }
TraceScope::~TraceScope() { tracing = false; }

}  // namespace tileproof

// Called by instrumented code at every edge. The linker sends the calls here (--wrap), since libFuzzer has a function
// of this name too. Whether an edge was passed counts, not how often: a kernel that loops over more heads is no news.
extern "C" void __wrap___sanitizer_cov_trace_pc() {
  if (tracing) {
    auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    place ^= place >> 14;
    edge_counters[place % kEdges] = 1;
  }
}
