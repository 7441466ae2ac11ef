#include "search/corpus.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

namespace tileproof {

std::vector<Case> read_corpus(const std::string& path) {
  struct stat info {};
  const bool there = stat(path.c_str(), &info) == 0;
  std::ifstream file(path);
  if (!there || !S_ISREG(info.st_mode) || !file.good()) {
    throw InputError(fmt::format("corpus '{}' cannot be read ({}), expected a file with one case a line", path,
                                 there && S_ISDIR(info.st_mode) ? "a directory" : std::strerror(errno)));
  }
  std::vector<Case> cases;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') {
      continue;
    }
    try {
      cases.push_back(parse_case(line));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
  return cases;
}

}  // namespace tileproof
