// Every shipped fault, from the first case that a check finds to the condition that the header of its patch states.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace tileproof::e2e {
namespace {

using nlohmann::json;

// "fails when" and, by operation, "fails when (OPERATION)".
std::map<std::string, std::string> header_of(const std::string& fault) {
  std::ifstream file(std::string(TILEPROOF_FAULTS_DIR) + "/" + fault + ".patch");
  EXPECT_TRUE(file.good()) << fault;
  std::map<std::string, std::string> header;
  for (std::string line; std::getline(file, line) && line.rfind("# ", 0) == 0;) {
    const std::size_t colon = line.find(": ");
    header[line.substr(2, colon - 2)] = line.substr(colon + 2);
  }
  return header;
}

// The terms of a condition, in one spelling and order.
std::vector<std::string> terms_of(std::string condition) {
  for (std::size_t at = condition.find('%'); at != std::string::npos; at = condition.find('%')) {
    condition.replace(at, 1, "mod");
  }
  std::vector<std::string> terms;
  constexpr char kAnd[] = " and ";
  for (std::size_t at = condition.find(kAnd); at != std::string::npos; at = condition.find(kAnd)) {
    terms.push_back(condition.substr(0, at));
    condition = condition.substr(at + sizeof kAnd - 1);
  }
  terms.push_back(condition);
  std::sort(terms.begin(), terms.end());
  return terms;
}

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TILEPROOF_FAULTS_DIR)) {
    names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string first_failing_case(const std::string& subject, const std::string& property) {
  const Outcome outcome = tileproof(
      {"check", subject, "--cases", "300", "--seed", "1", "--property", property, "--no-minimize", "--json", "-"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const json document = json::parse(outcome.out);
  for (const json& finding : document.at("subjects")[0].at("findings")) {
    if (finding.at("property") == property) {
      return finding.at("case");
    }
  }
  return {};
}

class ExplainFault : public ::testing::TestWithParam<std::string> {};

TEST_P(ExplainFault, ByTheConditionOfItsHeader) {
  std::map<std::string, std::string> header = header_of(GetParam());
  int subjects = 0;
  const json faults = json::parse(tileproof({"list", "faults", "--json"}).out).at("faults");
  for (const json& fault : faults) {
    const std::string subject = fault.at("name");
    if (subject.rfind("cpu/", 0) != 0 || subject.substr(subject.find('@') + 1) != GetParam()) {
      continue;
    }
    ++subjects;
    const std::string property = fault.at("expected")[0];
    const std::string failing = first_failing_case(subject, property);
    const Outcome outcome =
        tileproof({"explain", failing, "--subject", subject, "--property", property, "--json", "-"});
    ASSERT_EQ(outcome.status, 1) << outcome.err;
    const json document = json::parse(outcome.out);
    const json& found = document.at("found");
    const std::string said = subject + ": " + document.at("text").get<std::string>();
    EXPECT_GT(document.at("samples"), 500) << said;
    EXPECT_LE(document.at("case").get<std::string>().size(), failing.size()) << "minimised";
    EXPECT_NE(document.at("replay").get<std::string>().find(" --subject " + subject), std::string::npos);
    EXPECT_EQ(tileproof({"replay", document.at("smallest"), "--subject", subject}).status, 1) << said;
    if (header.contains("exceptions")) {
      EXPECT_EQ(found.at("exact"), false) << said;
      EXPECT_GT(found.at("inside_failing").get<int>() * 10, document.at("failing").get<int>() * 9) << said;
      EXPECT_GT(found.at("inside_failing").get<int>() * 10, found.at("inside").get<int>() * 9) << said;
      continue;
    }
    const std::string own = "fails when (" + fault.at("operation").get<std::string>() + ")";
    const std::string stated = header.contains(own) ? header[own] : header["fails when"];
    EXPECT_EQ(found.at("exact"), true) << said;
    EXPECT_EQ(terms_of(found.at("condition")), terms_of(stated)) << said;
  }
  EXPECT_GT(subjects, 0);
}

INSTANTIATE_TEST_SUITE_P(Faults, ExplainFault, ::testing::ValuesIn(fault_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tileproof::e2e
