// Cases and subjects that are named together on a command line. Everything here throws InputError.
#ifndef TILEPROOF_APP_CASE_WORDS_H
#define TILEPROOF_APP_CASE_WORDS_H

#include <optional>
#include <string>
#include <vector>

#include "execute/subject.h"

namespace tileproof {

// The cases that a word of the command line means: a case line, a file of them, or "-" for standard input.
std::vector<Case> read_cases(const std::string& word);

// The subject of that name, or the clean cpu subject of the case's operation. It implements that operation and the case
// is inside its limits.
const Subject& subject_of(const Case& c, const std::optional<std::string>& wanted);

}  // namespace tileproof

#endif
