#include "sanitize/source_lines.h"

#include <cstring>

#include <fmt/format.h>

#ifdef TILEPROOF_HAVE_BACKTRACE
#include <backtrace.h>
#endif

namespace tileproof::sanitize {

namespace {

#ifdef TILEPROOF_HAVE_BACKTRACE
int add_place(void* to, std::uintptr_t, const char* file, int line, const char* function) {
  if (file != nullptr && line > 0) {
    const char* slash = std::strrchr(file, '/');
    static_cast<std::vector<Place>*>(to)->push_back(
        {slash == nullptr ? file : slash + 1, line, function == nullptr ? "" : function});
  }
  return 0;
}

void ignore(void*, const char*, int) {}

// Of one call, innermost first.
std::vector<Place> inlined_at(const void* call) {
  static backtrace_state* const state = backtrace_create_state(nullptr, 0, ignore, nullptr);
  std::vector<Place> places;
  if (state != nullptr) {
    // A return address is behind the call.
    backtrace_pcinfo(state, reinterpret_cast<std::uintptr_t>(call) - 1, add_place, ignore, &places);
  }
  return places;
}
#else
std::vector<Place> inlined_at(const void*) { return {}; }
#endif

// The header through which every launch goes, and the helpers of kernels in it and beside it.
bool in_shims(const Place& place) {
  return place.file == "cuda_on_cpu.h" || place.file == "cuda_fp16.h" || place.file == "cuda_bf16.h";
}

// What a launch calls: a frame of it is outside the kernel.
bool is_launch(const std::vector<Place>& inlined) {
  if (inlined.empty()) {
    return true;
  }
  for (const Place& place : inlined) {
    const bool launcher = place.function.find("launcher") != std::string::npos ||
                          place.function.compare(0, 10, "operator()") == 0 || place.function == "_FUN";
    if (place.file == "cuda_on_cpu.h" && launcher) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Place> places_of(const Calls& calls) {
  std::vector<Place> places;
  for (const void* call : calls) {
    const std::vector<Place> inlined = call == nullptr ? std::vector<Place>() : inlined_at(call);
    if (is_launch(inlined)) {
      break;
    }
    places.insert(places.end(), inlined.begin(), inlined.end());
  }
  // __syncthreads and its like are no lines of the kernel.
  std::size_t own = 0;
  while (own < places.size() && in_shims(places[own])) {
    ++own;
  }
  if (own < places.size()) {
    places.erase(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(own));
  }
  return places;
}

std::string kernel_line(const std::vector<Place>& places) {
  return places.empty() ? "an unknown line" : fmt::format("{}:{}", places.back().file, places.back().line);
}

std::string line_text(const std::vector<Place>& places) {
  std::string text = kernel_line(places);
  for (std::size_t i = places.size(); i-- > 1;) {
    const std::string& callee = places[i - 1].function;
    text += fmt::format("{}{} ({}:{})", i + 1 == places.size() ? ", through " : ", ",
                        callee.substr(0, callee.find('<')), places[i - 1].file, places[i - 1].line);
  }
  return text;
}

}  // namespace tileproof::sanitize
