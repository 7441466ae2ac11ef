// From the words of the command line to values. Everything here throws InputError with one line that says what was
// given, what was expected and what to do.
#ifndef TILEPROOF_APP_ARGUMENTS_H
#define TILEPROOF_APP_ARGUMENTS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/engine.h"

namespace tileproof {

std::uint64_t whole_number(std::string_view option, const std::string& text, std::uint64_t min, std::uint64_t max);

// "60s", "5m", "8h", "500ms" or plain seconds, at most 1000 hours. Returns seconds.
double duration(std::string_view option, const std::string& text);

// Every glob must match something: one that does not is a misspelling, and what it names would silently go unchecked.
// `device`: auto, cpu or cuda (subjects_on()).
std::vector<const Subject*> choose_subjects(const std::string& device, const std::vector<std::string>& globs);
std::vector<const Property*> choose_properties(const std::vector<std::string>& globs);

}  // namespace tileproof

#endif
