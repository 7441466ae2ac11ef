// JSON documents against harness/docs/json.md, both ways, and JUnit through a strict XML parser.
#include <expat.h>

#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace tileproof::e2e {
namespace {

using nlohmann::json;
using Fields = std::map<std::string, std::string>;  // path to type

// The table of a schema in the document.
Fields documented(const std::string& schema) {
  Fields fields;
  const std::string text = read_file(TILEPROOF_JSON_DOCUMENT);
  const std::size_t from = text.find("## " + schema + "\n");
  EXPECT_NE(from, std::string::npos) << schema;
  const std::string section = text.substr(from, text.find("\n## ", from) - from);
  const std::regex row(R"(\| `([^`]+)` \| (\w+) \| [^|]+ \|)");
  for (std::sregex_iterator it(section.begin(), section.end(), row), end; it != end; ++it) {
    EXPECT_TRUE(fields.emplace((*it)[1], (*it)[2]).second) << (*it)[1] << " is there twice";
  }
  return fields;
}

std::string type_of(const json& value) {
  return value.is_number_integer() ? "integer" : value.is_number() ? "number" : value.type_name();
}

// Every path of a document with its type.
void collect(const json& value, const std::string& path, Fields& fields) {
  if (!path.empty()) {
    const auto [known, fresh] = fields.emplace(path, type_of(value));
    const std::set<std::string> both{known->second, type_of(value)};
    if (both == std::set<std::string>{"integer", "number"}) {
      known->second = "number";
    } else {
      EXPECT_EQ(known->second, type_of(value)) << path;
    }
  }
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      collect(member, path.empty() ? key : fmt::format("{}.{}", path, key), fields);
    }
  }
  if (value.is_array()) {
    for (const json& element : value) {
      collect(element, path + "[]", fields);
    }
  }
}

// Arrays of objects are shown by their fields, not by an entry of their own.
void expect_documented(const json& document, const std::string& schema) {
  EXPECT_EQ(document.at("schema"), schema);
  EXPECT_EQ(document.at("version"), TILEPROOF_VERSION);
  Fields fields;
  collect(document, "", fields);
  const Fields expected = documented(schema);
  EXPECT_GT(expected.size(), 5U);
  for (const auto& [path, type] : fields) {
    if (type == "object" && path.size() > 2 && path.substr(path.size() - 2) == "[]") {
      continue;
    }
    const auto found = expected.find(path);
    ASSERT_NE(found, expected.end()) << schema << ": " << path << " is not documented";
    EXPECT_TRUE(found->second == type || (found->second == "number" && type == "integer")) << path << " is " << type;
  }
  for (const auto& [path, type] : expected) {
    EXPECT_TRUE(fields.count(path) == 1) << schema << ": " << path << " is documented, but not there";
  }
}

void expect_every_entry_has(const json& entries, const std::string& schema, const std::string& prefix) {
  const std::size_t start = prefix.size();
  for (const auto& [path, type] : documented(schema)) {
    const bool own = path.rfind(prefix, 0) == 0 && path.find_first_of(".[", start) == std::string::npos;
    for (const json& entry : own ? entries : json::array()) {
      EXPECT_TRUE(entry.contains(path.substr(start))) << path << " is missing in " << entry.dump();
    }
  }
}

TEST(Documents, CheckIsAsDocumented) {
  const Outcome outcome = tileproof({"check", "cpu/mla_rope_q_fwd", "cpu/mla_rope_q_fwd@head_mask_q_fwd", "--cases",
                                     "60", "--seed", "1", "--json", "-"});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  const json document = json::parse(outcome.out);
  expect_documented(document, "tileproof.check/1");
  EXPECT_EQ(document.at("seed"), 1);
  for (const json& subject : document.at("subjects")) {
    expect_every_entry_has(subject.at("findings"), "tileproof.check/1", "subjects[].findings[].");
    expect_every_entry_has(subject.at("properties"), "tileproof.check/1", "subjects[].properties[].");
    EXPECT_EQ(subject.at("cases"), 60);
    for (const json& property : subject.at("properties")) {
      EXPECT_EQ(property.at("cases"), property.at("held").get<int>() + property.at("failed").get<int>());
      EXPECT_LE(property.at("power"), property.at("cases"));
    }
  }
}

TEST(Documents, MinimizeIsAsDocumented) {
  const std::string failing =
      "mla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=5 nope_dim=0 emb_dim=4 inverse=0 "
      "remove_interleaving=0 data=exact:0 | block_h=2";
  const Outcome outcome =
      tileproof({"minimize", failing, "--subject", "cpu/mla_rope_q_fwd@head_mask_q_fwd", "--json", "-"});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  expect_documented(json::parse(outcome.out), "tileproof.minimize/1");
}

TEST(Documents, ListIsAsDocumented) {
  const json document = json::parse(tileproof({"list", "--json"}).out);
  expect_documented(document, "tileproof.list/1");
  // What every tiling has, beside what its operation declares.
  const json& tiling = document.at("operations")[0].at("tiling");
  EXPECT_EQ(tiling.at(tiling.size() - 2).at("key"), "threads");
  EXPECT_EQ(tiling.back().at("key"), "blocks");
  for (const char* section : {"operations", "subjects", "properties", "faults"}) {
    expect_every_entry_has(document.at(section), "tileproof.list/1", std::string(section) + "[].");
    json one = json::parse(tileproof({"list", section, "--json"}).out);
    EXPECT_EQ(one.at(section), document.at(section));
    EXPECT_EQ(one.size(), 3U) << "schema, version and what was asked for";
  }
}

TEST(Documents, BenchIsAsDocumented) {
  const TemporaryDirectory directory;
  const Outcome outcome =
      tileproof({"bench", "--jobs", "1", "--time", "200ms", "--json", directory.file("bench.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json document = json::parse(read_file(directory.file("bench.json")));
  expect_documented(document, "tileproof.bench/1");
  EXPECT_GT(document.at("checks"), 0);
  EXPECT_EQ(directory.names(), std::vector<std::string>{"bench.json"});
}

constexpr char kMask[] = "cpu/mla_rope_q_fwd@head_mask_q_fwd";

TEST(Documents, ExplainIsAsDocumented) {
  const TemporaryDirectory directory;
  const std::string the_case =
      "mla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=3 nope_dim=0 emb_dim=4 inverse=0 "
      "remove_interleaving=0 data=exact:1 | block_h=2";
  const std::string file = directory.file("explain.json");
  ASSERT_EQ(
      tileproof({"explain", kMask, the_case, "--property", "guards", "--hold", "num_warps=1", "--json", file}).status,
      1);
  const json document = json::parse(read_file(file));
  expect_documented(document, "tileproof.explain/1");
  EXPECT_EQ(document.at("found").at("condition"), "head_num mod block_h != 0 and head_num > block_h");
  EXPECT_EQ(document.at("found").at("exact"), true);
  EXPECT_EQ(document.at("found").at("inside").get<int>() + document.at("found").at("outside").get<int>(),
            document.at("samples"));
  EXPECT_EQ(document.at("failing"), document.at("found").at("inside_failing"));
  EXPECT_EQ(document.at("held"), json{"num_warps"});
  EXPECT_EQ(directory.names(), std::vector<std::string>{"explain.json"});
}

TEST(Documents, CompareIsAsDocumented) {
  const Outcome outcome = tileproof({"compare", kMask, "cpu/mla_rope_q_fwd", "--cases", "200", "--allow",
                                     "head_num > block_h and layout == thd", "--json", "-"});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  const json document = json::parse(outcome.out);
  expect_documented(document, "tileproof.compare/1");
  EXPECT_EQ(document.at("identical").get<int>() + document.at("different").get<int>(), 200);
  EXPECT_EQ(document.at("condition"), "head_num mod block_h != 0 and head_num > block_h");
  EXPECT_GT(document.at("outside"), 0);
}

TEST(Documents, ExposureIsAsDocumented) {
  const Outcome outcome =
      tileproof({"exposure", kMask, "--config", "num_attention_heads=24", "--config", "qk_nope_head_dim=8", "--config",
                 "qk_rope_head_dim=8", "--tp", "2", "--tiling", "block_h=4,8", "--json", "-"});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  const json document = json::parse(outcome.out);
  expect_documented(document, "tileproof.exposure/1");
  const json& subject = document.at("subjects")[0];
  ASSERT_EQ(subject.at("model").size(), 1U);
  EXPECT_EQ(subject.at("model")[0].at("tilings")[0].at("failing"), 0);
  EXPECT_GT(subject.at("model")[0].at("tilings")[1].at("failing"), 0);
  EXPECT_EQ(subject.at("safe"), json{"block_h=4"});
}

// Elements as "suite/case" with what is in them.
struct Junit {
  std::vector<std::string> path;
  std::map<std::string, int> elements;  // by path
  std::map<std::string, std::string> attributes;
  std::map<std::string, std::string> failures;  // text, by classname/name
  std::string testcase;
};

void begin(void* data, const XML_Char* name, const XML_Char** attributes) {
  auto& junit = *static_cast<Junit*>(data);
  junit.path.emplace_back(name);
  std::string path;
  for (const std::string& part : junit.path) {
    path += "/" + part;
  }
  ++junit.elements[path];
  std::map<std::string, std::string> own;
  for (; *attributes != nullptr; attributes += 2) {
    own[attributes[0]] = attributes[1];
    if (junit.path.size() <= 2) {
      junit.attributes[path + "@" + attributes[0]] = attributes[1];
    }
  }
  if (std::string(name) == "testcase") {
    junit.testcase = own["classname"] + " " + own["name"];
  }
}

void finish(void* data, const XML_Char*) { static_cast<Junit*>(data)->path.pop_back(); }

void content(void* data, const XML_Char* text, int length) {
  auto& junit = *static_cast<Junit*>(data);
  if (junit.path.back() == "failure") {
    junit.failures[junit.testcase].append(text, static_cast<std::size_t>(length));
  }
}

Junit parse_junit(const std::string& text) {
  Junit junit;
  XML_Parser parser = XML_ParserCreate(nullptr);
  XML_SetUserData(parser, &junit);
  XML_SetElementHandler(parser, begin, finish);
  XML_SetCharacterDataHandler(parser, content);
  EXPECT_EQ(XML_Parse(parser, text.data(), static_cast<int>(text.size()), 1), XML_STATUS_OK)
      << XML_ErrorString(XML_GetErrorCode(parser)) << " in line " << XML_GetCurrentLineNumber(parser);
  XML_ParserFree(parser);
  return junit;
}

TEST(Documents, JunitIsWellFormedAndAgreesWithJson) {
  const TemporaryDirectory directory;
  const Outcome outcome =
      tileproof({"check", "*q_fwd@head_mask_q_fwd", "*kv_split_fwd@cp_half*", "--cases", "100", "--seed", "1",
                 "--junit", directory.file("r.xml"), "--json", directory.file("r.json")});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"r.json", "r.xml"})) << "no temporary file stays";
  Junit junit = parse_junit(read_file(directory.file("r.xml")));
  int tests = 0;
  int failed = 0;
  int skipped = 0;
  const json document = json::parse(read_file(directory.file("r.json")));
  for (const json& subject : document.at("subjects")) {
    for (const json& property : subject.at("properties")) {
      ++tests;
      failed += property.at("verdict") == "FAILED" ? 1 : 0;
      skipped += property.at("verdict") != "FAILED" && property.at("verdict") != "held" ? 1 : 0;
    }
    for (const json& finding : subject.at("findings")) {
      const std::string& text =
          junit.failures[subject.at("subject").get<std::string>() + " " + finding.at("property").get<std::string>()];
      EXPECT_NE(text.find(finding.at("signature").get<std::string>()), std::string::npos) << text;
      const json& shown = finding.contains("minimal") ? finding.at("minimal") : finding;
      EXPECT_NE(text.find(shown.at("replay").get<std::string>()), std::string::npos) << text;
    }
  }
  EXPECT_GT(failed, 1);
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(junit.elements["/testsuites"], 1);
  EXPECT_EQ(junit.elements["/testsuites/testsuite"], 2);
  EXPECT_EQ(junit.elements["/testsuites/testsuite/testcase"], tests);
  EXPECT_EQ(junit.elements["/testsuites/testsuite/testcase/failure"], failed);
  EXPECT_EQ(junit.elements["/testsuites/testsuite/testcase/skipped"], skipped);
  EXPECT_EQ(junit.attributes["/testsuites@tests"], std::to_string(tests));
  EXPECT_EQ(junit.attributes["/testsuites@failures"], std::to_string(failed));
  EXPECT_EQ(junit.attributes["/testsuites@skipped"], std::to_string(skipped));
}

// A crash is a failure for a CI server even where the property that reports it was not asked for.
TEST(Documents, JunitShowsACrashThatNoPropertyWasAskedFor) {
  const TemporaryDirectory directory;
  const Outcome outcome = tileproof({"check", "cpu/mla_rope_q_fwd@offset32_q_fwd", "--cases", "300", "--seed", "1",
                                     "--property", "inputs_preserved", "--junit", directory.file("r.xml")});
  ASSERT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  Junit junit = parse_junit(read_file(directory.file("r.xml")));
  EXPECT_NE(junit.failures["cpu/mla_rope_q_fwd@offset32_q_fwd launch_valid"].find("SIGSEGV"), std::string::npos);
  EXPECT_EQ(junit.attributes["/testsuites@failures"], "1");
}

}  // namespace
}  // namespace tileproof::e2e
