#include "app/arguments.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "execute/device.h"

namespace tileproof {

std::uint64_t whole_number(std::string_view option, const std::string& text, std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    throw InputError(fmt::format("{} '{}' given, expected a whole number {}..{}", option, text, min, max));
  }
  return value;
}

double duration(std::string_view option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = std::string_view(text).substr(static_cast<std::size_t>(end - text.data()));
  const double factor = unit == "ms"                  ? 1e-3
                        : unit == "s" || unit.empty() ? 1
                        : unit == "m"                 ? 60
                        : unit == "h"                 ? 3600
                                                      : 0;
  const double seconds = value * factor;
  if (error != std::errc() || !(seconds > 0) || seconds > 3.6e6) {
    throw InputError(fmt::format("{} '{}' given, expected a time above 0 and up to 1000h, such as 500ms, 30s, 5m or 8h",
                                 option, text));
  }
  return seconds;
}

std::vector<const Subject*> choose_subjects(const std::string& device, const std::vector<std::string>& globs) {
  for (const std::string& glob : globs) {
    if (matching_subjects({glob}).empty()) {
      throw InputError(fmt::format(
          "no subject matches '{}', expected a name or glob such as '{}', '*{}' or, for known faults, '*@*' "
          "(tileproof list subjects; tileproof list faults)",
          glob, subjects().front().name, subjects().front().operation->name()));
    }
  }
  std::vector<const Subject*> chosen = subjects_on(device, globs);
  if (chosen.empty()) {
    throw InputError(fmt::format("--device '{}' given, but no subject that matches '{}' is one of that device", device,
                                 fmt::join(globs, "' '")));
  }
  return chosen;
}

std::vector<const Property*> choose_properties(const std::vector<std::string>& globs) {
  for (const std::string& glob : globs) {
    if (matching_properties({glob}).empty()) {
      throw InputError(
          fmt::format("no property matches '{}', expected a name or glob such as '{}' (tileproof list "
                      "properties)",
                      glob, all_properties().front()->name()));
    }
  }
  return matching_properties(globs);
}

}  // namespace tileproof
