#include "app/case_words.h"

#include <filesystem>

#include <fmt/format.h>

#include "search/corpus.h"

namespace tileproof {

std::vector<Case> read_cases(const std::string& word) {
  std::error_code error;
  if (word == "-" || std::filesystem::exists(word, error)) {
    return read_corpus(word);
  }
  if (word.find_first_of(" \t=") == std::string::npos && find_operation(word) == nullptr) {
    throw InputError(
        fmt::format("'{}' given, which is no file, expected a file of cases or a case such as '{} KEY=VALUE "
                    "... | KEY=VALUE ...' (tileproof list operations)",
                    word, operations().front()->name()));
  }
  return {read_case(word)};
}

const Subject& subject_of(const Case& c, const std::optional<std::string>& wanted) {
  const Operation& operation = c.problem.operation();
  const std::string name = wanted.value_or(fmt::format("cpu/{}", operation.name()));
  const Subject* subject = find_subject(name);
  if (subject == nullptr) {
    throw InputError(
        fmt::format("subject '{}' is unknown, expected one that implements {} (tileproof list subjects; "
                    "tileproof list faults)",
                    name, operation.name()));
  }
  if (subject->operation != &operation) {
    throw InputError(fmt::format("subject '{}' implements {}, expected one that implements {} as the case asks", name,
                                 subject->operation->name(), operation.name()));
  }
  if (const std::optional<std::string> limit = outside_limits(*subject, c)) {
    throw InputError(
        fmt::format("subject '{}' takes only '{}', which '{}' is not; change the case", name, *limit, text(c)));
  }
  return *subject;
}

}  // namespace tileproof
