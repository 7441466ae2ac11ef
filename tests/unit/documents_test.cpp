// What a message holds must not break the documents that quote it.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "execute/subject.h"
#include "record/record.h"

namespace tileproof {
namespace {

CheckReport report_with(const std::string& message) {
  CheckReport report;
  SubjectReport subject;
  subject.subject = &subjects().front();
  subject.cases = 1;
  Finding finding;
  finding.subject = subject.subject->name;
  finding.property = "crash";
  finding.signature = "crash//launch/it's";
  finding.case_text = "a 'quoted' case";
  finding.message = message;
  finding.count = 1;
  subject.findings.push_back(finding);
  report.subjects.push_back(subject);
  return report;
}

TEST(DocumentsOfAnyMessage, JunitEscapesMarkupAndControlCharacters) {
  const std::string text = junit_text(report_with("a<b> & \"c\" \x1b[31m \x01 \xff end"));
  EXPECT_NE(text.find("a&lt;b&gt; &amp; &quot;c&quot; ?[31m ? ? end"), std::string::npos) << text;
}

TEST(DocumentsOfAnyMessage, JsonStaysValid) {
  const auto document = nlohmann::json::parse(json_text(report_with("\xff\x01 end")));
  const auto& finding = document.at("subjects").at(0).at("findings").at(0);
  EXPECT_NE(finding.at("message").get<std::string>().find(" end"), std::string::npos);
  EXPECT_EQ(finding.at("replay"), "tileproof replay 'a '\\''quoted'\\'' case' --subject " + subjects().front().name);
}

}  // namespace
}  // namespace tileproof
