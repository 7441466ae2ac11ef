// Files of cases: one a line, '#' starts a comment line, empty lines are skipped.
#ifndef TILEPROOF_SEARCH_CORPUS_H
#define TILEPROOF_SEARCH_CORPUS_H

#include <string>
#include <vector>

#include "tileproof/model.h"

namespace tileproof {

// Throws InputError naming file and line.
std::vector<Case> read_corpus(const std::string& path);

}  // namespace tileproof

#endif
