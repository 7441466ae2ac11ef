#include "search/corpus.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include <fmt/format.h>

#include "generate/generator.h"
#include "memory/layout.h"

namespace tileproof {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors put it in front
constexpr std::size_t kLongestLine = std::size_t{64} * 1024;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError(
      fmt::format("corpus '{}' cannot be read ({}), expected a text file with one case a line", path, why));
}

// False at the end. Neither a line without end nor what is no text gets further than here.
bool next_line(std::istream& stream, std::string& line) {
  line.clear();
  for (int c = stream.get(); c != std::istream::traits_type::eof(); c = stream.get()) {
    if (c == '\n') {
      return true;
    }
    if (c < ' ' && c != '\t' && c != '\r') {
      throw InputError(fmt::format("column {}: control byte 0x{:02x} given, expected text", line.size() + 1, c));
    }
    if (line.size() == kLongestLine) {
      throw InputError(fmt::format("the line is longer than {} bytes, expected one case", kLongestLine));
    }
    line.push_back(static_cast<char>(c));
  }
  return !line.empty();
}

std::vector<Case> read_stream(std::istream& stream, const std::string& path) {
  std::vector<Case> cases;
  std::size_t number = 1;
  try {
    for (std::string line; next_line(stream, line); ++number) {
      if (number == 1 && line.rfind(kByteOrderMark, 0) == 0) {
        line.erase(0, kByteOrderMark.size());
      }
      const std::size_t first = line.find_first_not_of(" \t\r");
      if (first != std::string::npos && line[first] != '#') {
        cases.push_back(read_case(line));
      }
    }
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}:{}: {}", path, number, error.what()));
  }
  if (stream.bad()) {
    refuse(path, "a read failed");
  }
  if (cases.empty()) {
    throw InputError(fmt::format("corpus '{}' holds no case, expected at least one line with a case", path));
  }
  return cases;
}

}  // namespace

Case read_case(std::string_view line) {
  Case result = parse_case(line);
  const std::int64_t elements = elements_of(result.problem);
  if (elements > kLargestCaseElements) {
    throw InputError(fmt::format(
        "the tensors of the case hold {} elements together, expected at most {}; use smaller shapes, or sparse= for "
        "wide offsets",
        elements, kLargestCaseElements));
  }
  for (const Layout& layout : lay_out(result.problem, Memory{})) {
    const std::int64_t bytes = layout.extent * static_cast<std::int64_t>(size_of(layout.shape.dtype));
    if (!layout.sparse && bytes > kLargestCaseExtent) {
      throw InputError(fmt::format(
          "{} spans {} bytes with its pads, expected at most {}; use smaller pads, or sparse= for wide offsets",
          layout.shape.spec->name, bytes, kLargestCaseExtent));
    }
  }
  return result;
}

std::vector<Case> read_corpus(const std::string& path) {
  if (path == "-") {
    return read_stream(std::cin, "standard input");
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    refuse(path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    refuse(path, S_ISDIR(info.st_mode) ? "a directory" : "a device");
  }
  std::ifstream file(path);
  if (!file.good()) {
    refuse(path, std::strerror(errno));
  }
  return read_stream(file, path);
}

std::vector<Case> read_corpus_text(std::string_view text, const std::string& name) {
  std::istringstream stream{std::string(text)};
  return read_stream(stream, name);
}

}  // namespace tileproof
