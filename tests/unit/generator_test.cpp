#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "execute/device.h"
#include "generate/rapidcheck.h"
#include "memory/recipes.h"

namespace tileproof {
namespace {

class GeneratorTest : public ::testing::Test {};

TEST_F(GeneratorTest, TheSameSeedAndIndexGiveTheSameCase) {
  const Subject& subject = *subjects_on("cpu", {}).front();
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(text(generate_case(subject, 7, i)), text(generate_case(subject, 7, i)));
  }
  EXPECT_NE(text(generate_case(subject, 7, 0)), text(generate_case(subject, 8, 0)));
}

RC_GTEST_FIXTURE_PROP(GeneratorTest, EveryCaseIsValid, ()) {
  const Case c = *arbitrary_case();
  RC_ASSERT(!c.problem.operation().invalid(c.problem).has_value());
  RC_ASSERT(!c.tilings.empty());
  RC_ASSERT(elements_of(c.problem) <= 200000);
}

// What the reports of real faults call for must come up in a thousand cases.
TEST_F(GeneratorTest, AThousandCasesHoldTheShapesOfTheReports) {
  for (const Subject* subject : subjects_on("cpu", {})) {
    std::set<std::string> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const Case c = generate_case(*subject, 3, i);
      seen.insert(c.problem.choice("layout"));
      seen.insert(c.problem.choice("dtype"));
      seen.insert("data=" + c.problem.choice("data"));
      const std::int64_t heads = c.problem.integer("head_num");
      seen.insert((heads & (heads - 1)) == 0 ? "power of two" : "odd heads");
      seen.insert(c.problem.list("pad_head") == std::vector<std::int64_t>{0} ? "contiguous" : "padded");
      seen.insert(c.problem.integer("sparse") != 0 ? "sparse" : "dense");
      for (const Tiling& tiling : c.tilings) {
        const std::int64_t block = tiling.values[0];
        seen.insert(heads % block == 0 ? "whole blocks" : heads > block ? "partial block" : "one block");
      }
    }
    for (const char* wanted : {"sbhd", "thd", "f32", "f16", "bf16", "data=exact", "data=normal", "data=index",
                               "data=special", "power of two", "odd heads", "contiguous", "padded", "sparse", "dense",
                               "whole blocks", "partial block", "one block"}) {
      EXPECT_TRUE(seen.contains(wanted)) << subject->name << " never saw " << wanted;
    }
  }
}

TEST_F(GeneratorTest, NormalDataHasMeanNearZeroAndVarianceNearOne) {
  const Problem problem =
      parse_case(
          "mla_rope_q_fwd dtype=f32 layout=sbhd seq=64 batch=2 head_num=16 nope_dim=32 emb_dim=64 inverse=0 "
          "remove_interleaving=0 data=normal:5 | block_h=1")
          .problem;
  HostTensors inputs;
  make_inputs(problem, inputs);
  const auto q = inputs[problem.operation().tensor_index("q")].as<const float>();
  double sum = 0;
  double squares = 0;
  std::set<float> distinct;
  for (const float value : q) {
    sum += value;
    squares += static_cast<double>(value) * value;
    distinct.insert(value);
  }
  const auto n = static_cast<double>(q.size());
  // Values come from a pool of 131072: the standard error of the mean is 0.0028, of the variance 0.0036 (kurtosis 2.7):
  // five of each. A run of 64 values begins in 1 of 131072 places, so 3072 runs find about half of them.
  EXPECT_NEAR(sum / n, 0, 0.0138);
  EXPECT_NEAR(squares / n, 1, 0.0180);
  EXPECT_GT(distinct.size(), q.size() / 3);
}

}  // namespace
}  // namespace tileproof
