// The same bits on every compiler and machine: cases, inputs of every recipe, and outputs of every shipped kernel. The
// digests below were recorded once, with g++ 12 and with clang 14; whoever changes a recipe, the generator or the
// arithmetic of a kernel records them anew and says so.
#include <gtest/gtest.h>

#include <map>

#include <fmt/format.h>

#include "execute/runner.h"
#include "generate/generator.h"
#include "memory/arena.h"
#include "memory/recipes.h"

namespace tileproof {
namespace {

// FNV-1a, 64 bits.
class Digest {
 public:
  void add(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; ++i) {
      value_ = (value_ ^ bytes[i]) * 0x100000001b3ULL;
    }
  }
  void add(const HostTensors& tensors) {
    for (const HostTensor& tensor : tensors) {
      add(tensor.bytes.data(), tensor.bytes.size());
    }
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

// YaRN tables come from the math library, whose last bits may differ; NaNs of arithmetic have the bits they like.
bool is_portable(const Problem& problem) {
  return problem.choice("tables") != "yarn" && problem.choice("data") != "special" && problem.integer("sparse") == 0;
}

TEST(SameBits, OfGeneratedCasesAndTheirInputs) {
  Digest cases;
  std::map<std::string, Digest> inputs;
  for (std::uint64_t index = 0; index < 2000; ++index) {
    const Case c = generate_case(*clean_subject("mla_rope_kv_split_fwd", "cpu"), 11, index);
    const std::string line = text(c);
    cases.add(line.data(), line.size());
    if (c.problem.choice("tables") != "yarn") {
      HostTensors tensors;
      make_inputs(c.problem, tensors);
      inputs[c.problem.choice("data")].add(tensors);
    }
  }
  EXPECT_EQ(cases.text(), "5a9986b5ee614ee7");
  EXPECT_EQ(inputs["exact"].text(), "d7db0c218d8875b8");
  EXPECT_EQ(inputs["normal"].text(), "11c38b62e6d3e63c");
  EXPECT_EQ(inputs["index"].text(), "c9dc3b30c61e3fe1");
  EXPECT_EQ(inputs["special"].text(), "18333b9ab81e77de");
}

TEST(SameBits, OfEveryCleanKernel) {
  const std::map<std::string, std::string> recorded = {
      {"cpu/mla_rope_concat_bwd", "cc2abe7c00141d59"},   {"cpu/mla_rope_concat_fwd", "4ae81b3a6958b627"},
      {"cpu/mla_rope_kv_split_bwd", "b77785b113e85f63"}, {"cpu/mla_rope_kv_split_fwd", "e004d1d04f6658b6"},
      {"cpu/mla_rope_q_bwd", "be340a50249ab269"},        {"cpu/mla_rope_q_fwd", "2287180c34785616"}};
  Arena arena;
  for (const Subject* subject : matching_subjects({"cpu/*"})) {
    Digest outputs;
    for (std::uint64_t index = 0; index < 500; ++index) {
      const Case c = generate_case(*subject, 12, index);
      if (is_portable(c.problem)) {
        HostTensors inputs;
        make_inputs(c.problem, inputs);
        outputs.add(execute_run(arena, *subject, c.problem, c.tilings[0], {}, inputs).outputs);
      }
    }
    const auto found = recorded.find(subject->name);
    ASSERT_NE(found, recorded.end()) << subject->name << " has no recorded digest";
    EXPECT_EQ(outputs.text(), found->second) << subject->name;
  }
}

}  // namespace
}  // namespace tileproof
