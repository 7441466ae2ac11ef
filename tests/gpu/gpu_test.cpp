// What needs a GPU. Without one every test here is skipped and says why.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "execute/device.h"
#include "generate/generator.h"
#include "gpu/hostile.h"
#include "made_data.h"
#include "memory/recipes.h"
#include "search/check.h"

namespace tileproof {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_report().usable()) {
      GTEST_SKIP() << "no GPU: " << cuda_report().reason;
    }
  }
};

CheckReport check(const std::vector<const Subject*>& subjects, std::uint64_t cases, double timeout = 60) {
  CheckOptions options;
  options.subjects = subjects;
  options.properties = matching_properties({});
  options.seed = 3;
  options.cases = cases;
  options.timeout_seconds = timeout;
  return run_check(options);
}

struct Hostile {
  const char* name;
  int32_t (*launch)(const tileproof_launch*);
  const char* error;  // part of each finding's signature or message
  std::uint64_t cases;
  double timeout = 60;  // seconds
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

class Survival : public Gpu, public ::testing::WithParamInterface<Hostile> {};

// Exactly the hostile cases are findings of launch_valid that name the error, and every other case is judged and holds.
TEST_P(Survival, CostsTheHostileCasesAndNothingElse) {
  const Subject& honest = *clean_subject("mla_rope_q_fwd", "cuda");
  tileproof_subject raw = *honest.raw;
  raw.launch = GetParam().launch;
  Subject subject = honest;
  subject.raw = &raw;
  std::uint64_t hostile = 0;
  for (std::uint64_t unit = 0; unit < GetParam().cases; ++unit) {
    const Problem problem = generate_case(subject, 3, unit).problem;
    hostile += is_hostile(problem.integer("head_num")) && problem.operation().quantity(problem, "token") > 0 ? 1 : 0;
  }
  ASSERT_GT(hostile, 0U);
  ASSERT_LT(hostile, GetParam().cases);
  const SubjectReport report = check({&subject}, GetParam().cases, GetParam().timeout).subjects.front();
  EXPECT_EQ(report.cases, GetParam().cases);
  std::uint64_t counted = 0;
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.property, "launch_valid") << finding.signature << " " << finding.case_text;
    EXPECT_NE((finding.signature + finding.message).find(GetParam().error), std::string::npos)
        << finding.signature << ": " << finding.message;
    EXPECT_TRUE(is_hostile(parse_case(finding.case_text).problem.integer("head_num"))) << finding.case_text;
    counted += finding.count;
  }
  EXPECT_EQ(counted, hostile);
}

INSTANTIATE_TEST_SUITE_P(Errors, Survival,
                         ::testing::Values(Hostile{"read_unmapped", hostile_read_unmapped, "cudaErrorIllegalAddress",
                                                   60},
                                           Hostile{"trap", hostile_trap, "cudaErrorLaunchFailure", 60},
                                           Hostile{"assert", hostile_assert, "cudaErrorAssert", 60},
                                           Hostile{"hang", hostile_hang, "timeout", 12, 3},
                                           Hostile{"exhaust", hostile_exhaust, "cudaErrorMemoryAllocation", 60},
                                           Hostile{"grid", hostile_grid, "the grid exceeds", 60},
                                           Hostile{"killed", hostile_killed, "SIGKILL", 60}),
                         [](const auto& info) { return std::string(info.param.name); });

struct GraphFault {
  const char* name;
  int32_t (*launch)(const tileproof_launch*);
  const char* property;
  const char* says;  // part of each finding's message or evidence
};

void PrintTo(const GraphFault& fault, std::ostream* out) { *out << fault.name; }

class Graphs : public Gpu, public ::testing::WithParamInterface<GraphFault> {};

TEST_P(Graphs, FindWhatOrdinaryLaunchesDoNotShow) {
  const Subject& honest = *clean_subject("mla_rope_q_fwd", "cuda");
  tileproof_subject raw = *honest.raw;
  raw.launch = GetParam().launch;
  Subject subject = honest;
  subject.raw = &raw;
  const SubjectReport report = check({&subject}, 40).subjects.front();
  ASSERT_FALSE(report.findings.empty());
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.property, GetParam().property) << finding.signature << " " << finding.case_text;
    const std::string text = fmt::format("{} {}", finding.message, fmt::join(finding.evidence, " "));
    EXPECT_NE(text.find(GetParam().says), std::string::npos) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, Graphs,
                         ::testing::Values(GraphFault{"lost", lost_in_graphs, "call_order", "captured with"},
                                           GraphFault{"unfit", unfit_for_graphs, "launch_valid",
                                                      "cannot be captured in a CUDA graph"}),
                         [](const auto& info) { return std::string(info.param.name); });

bool same_bits(const HostTensor& a, const HostTensor& b) {
  if (a.bytes == b.bytes) {
    return true;
  }
  // Sign and payload of a computed NaN are nobody's promise.
  for (std::int64_t i = 0; i < a.shape.elements(); ++i) {
    const std::size_t size = size_of(a.shape.dtype);
    const auto at = static_cast<std::size_t>(i) * size;
    if (!std::equal(a.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    a.bytes.begin() + static_cast<std::ptrdiff_t>(at + size),
                    b.bytes.begin() + static_cast<std::ptrdiff_t>(at)) &&
        !(a.at(i) != a.at(i) && b.at(i) != b.at(i))) {
      return false;
    }
  }
  return true;
}

// Returns what differs first; empty when nothing does. In a process of its own, since it initialises CUDA.
std::string first_difference_of_bits(std::uint64_t cases) {
  const auto cpu = make_executor("cpu");
  const auto cuda = make_executor("cuda");
  for (const Subject* subject : subjects_on("cuda", {})) {
    const Subject& twin = *clean_subject(subject->operation->name(), "cpu");
    for (std::uint64_t unit = 0; unit < cases; ++unit) {
      const Case c = generate_case(*subject, 11, unit);
      HostTensors inputs;
      make_inputs(c.problem, inputs);
      const Memory memory;
      RunResult a;
      RunResult b;
      const RunOrder on_cpu{&twin, &c.problem, &c.tilings[0], &memory, &inputs, true, &a};
      const RunOrder on_cuda{subject, &c.problem, &c.tilings[0], &memory, &inputs, true, &b};
      cpu->execute({&on_cpu, 1});
      cuda->begin();
      cuda->execute({&on_cuda, 1});
      for (std::size_t tensor = 0; tensor < a.outputs.size(); ++tensor) {
        if (a.status != b.status || !same_bits(a.outputs[tensor], b.outputs[tensor])) {
          return fmt::format("{} tensor {}: {}", subject->name, tensor, text(c));
        }
      }
    }
  }
  return {};
}

TEST_F(Gpu, CleanKernelsGiveTheBitsThatTheyGiveOnTheCpu) {
  EXPECT_EXIT(
      {
        const std::string difference = first_difference_of_bits(300);
        fmt::print(stderr, "difference: {}\n", difference);
        _exit(difference.empty() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "difference: \n");
}

// Exits with 0 when they do, and says where they do not. In a process of its own too.
[[noreturn]] void compare_made_data() {
  const auto cuda = make_executor("cuda");
  std::size_t compared = 0;
  for (const Subject* subject : subjects_on("cuda", {})) {
    const std::string difference = first_difference_of_made_data(*cuda, *subject, compared);
    if (!difference.empty()) {
      fmt::print(stderr, "difference: {}\n", difference);
      _exit(1);
    }
  }
  fmt::print(stderr, "same in {} bytes\n", compared);
  _exit(compared > 1000000 ? 0 : 1);
}

TEST_F(Gpu, MakesTheDataOfEveryRecipeAsTheHostDoes) {
  EXPECT_EXIT(compare_made_data(), ::testing::ExitedWithCode(0), "same in");
}

TEST_F(Gpu, CleanKernelsHold) {
  for (const SubjectReport& report : check(subjects_on("cuda", {}), 200).subjects) {
    EXPECT_EQ(report.cases, 200U);
    EXPECT_TRUE(report.findings.empty()) << report.findings.front().signature << " "
                                         << report.findings.front().case_text;
  }
}

TEST_F(Gpu, AWrappedOffsetIsCaught) {
  const Subject* subject = find_subject("cuda/mla_rope_q_fwd@offset32_q_fwd");
  ASSERT_NE(subject, nullptr);
  CheckOptions options;
  options.subjects = {subject};
  options.properties = matching_properties({});
  options.cases = 0;
  options.corpus = {
      parse_case("mla_rope_q_fwd dtype=bf16 layout=sbhd seq=3 batch=1 head_num=2 nope_dim=8 emb_dim=8 "
                 "inverse=0 remove_interleaving=0 sparse=token:31 data=normal:1 | block_h=2")};
  const SubjectReport report = run_check(options).subjects.front();
  ASSERT_FALSE(report.findings.empty());
  EXPECT_TRUE(report.findings.front().property == "launch_valid" || report.findings.front().property == "guards")
      << report.findings.front().signature;
}

// Runs a case whose offsets pass 2^31 elements, and exits with 0 when that took less than 1 GiB of the GPU.
[[noreturn]] void measure_sparse_memory() {
  const std::int64_t before = device_bytes_in_use();
  const auto cuda = make_executor("cuda");
  const Case c = parse_case(
      "mla_rope_q_fwd dtype=bf16 layout=sbhd seq=3 batch=1 head_num=2 nope_dim=8 emb_dim=8 inverse=0 "
      "remove_interleaving=0 sparse=token:31 data=normal:1 | block_h=2");
  HostTensors inputs;
  make_inputs(c.problem, inputs);
  const Memory memory;
  RunResult result;
  const RunOrder order{
      clean_subject("mla_rope_q_fwd", "cuda"), &c.problem, &c.tilings[0], &memory, &inputs, true, &result};
  cuda->begin();
  cuda->execute({&order, 1});
  const std::int64_t used = device_bytes_in_use() - before;
  fmt::print(stderr, "{} MiB\n", used >> 20);
  _exit(result.status == RunResult::Status::ok && before > 0 && used > 0 && used < (std::int64_t{1} << 30) ? 0 : 1);
}

TEST_F(Gpu, ASparseRunTakesLessThanAGibibyteOfTheDevice) {
  EXPECT_EXIT(measure_sparse_memory(), ::testing::ExitedWithCode(0), "MiB");
}

}  // namespace
}  // namespace tileproof
