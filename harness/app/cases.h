// From the words of the command line to cases and the subject that is to run them.
#ifndef TILEPROOF_APP_CASES_H
#define TILEPROOF_APP_CASES_H

#include <optional>
#include <string>
#include <vector>

#include "execute/subject.h"

namespace tileproof {

// A case line, a file of them, or "-" for standard input. Throws InputError.
std::vector<Case> read_cases(const std::string& word);

// The subject named, or the clean cpu subject of the case's operation. Throws InputError when it is unknown, implements
// another operation, or does not take the case.
const Subject& subject_of(const Case& c, const std::optional<std::string>& wanted);

}  // namespace tileproof

#endif
