// Files of cases: one a line, '#' starts a comment line, empty lines are skipped.
#ifndef TILEPROOF_SEARCH_CORPUS_H
#define TILEPROOF_SEARCH_CORPUS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tileproof/model.h"

namespace tileproof {

// What a case from outside may ask for, so that no worker runs out of memory or time: elements of all its tensors
// together, and bytes from the first to the last element of each that is not sparse. Generated cases are far smaller.
inline constexpr std::int64_t kLargestCaseElements = std::int64_t{1} << 25;
inline constexpr std::int64_t kLargestCaseExtent = std::int64_t{1} << 30;

// parse_case, and the limits above. Throws InputError.
Case read_case(std::string_view line);

// The cases of a file or pipe; "-" is standard input. Throws InputError naming file and line; a file without a single
// case is refused too.
std::vector<Case> read_corpus(const std::string& path);

// The same from text; `name` stands for the file in messages.
std::vector<Case> read_corpus_text(std::string_view text, const std::string& name);

}  // namespace tileproof

#endif
