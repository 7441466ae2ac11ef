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

// A helper in a header is not where a person looks first: the innermost line of a .cu file, else the outermost of all.
std::size_t first_own(const std::vector<Place>& places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string& file = places[i].file;
    if (file.size() > 3 && file.compare(file.size() - 3, 3, ".cu") == 0) {
      return i;
    }
  }
  return places.size() - 1;
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
  if (places.empty()) {
    return "an unknown line";
  }
  const Place& own = places[first_own(places)];
  return fmt::format("{}:{}", own.file, own.line);
}

std::string line_text(const std::vector<Place>& places) {
  std::string text = kernel_line(places);
  std::string through;
  for (std::size_t i = places.empty() ? 0 : first_own(places); i-- > 0;) {
    const std::string& function = places[i].function;
    through += fmt::format("{}{} ({}:{})", through.empty() ? ", through " : ", ",
                           function.substr(0, function.find('<')), places[i].file, places[i].line);
  }
  std::string from;
  for (std::size_t i = places.empty() ? 0 : first_own(places) + 1; i < places.size(); ++i) {
    from += fmt::format("{}{}:{}", from.empty() ? ", called from " : ", ", places[i].file, places[i].line);
  }
  return text + through + from;
}

}  // namespace tileproof::sanitize
