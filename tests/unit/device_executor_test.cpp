// The device side of the harness (execute/cuda) against the CPU's, run by run: the same outputs, damage and changes.
// It runs here over tests/unit/fake_cuda, with the cpu subjects in the place of kernels for a GPU.
#include <gtest/gtest.h>

#include <set>

#include "execute/cuda/device_executor.h"
#include "execute/device.h"
#include "generate/generator.h"
#include "memory/recipes.h"
#include "search/engine.h"
#include "search/results.h"

namespace tileproof {
namespace {

// All but those that show what memory or a register happened to hold: they give other values in every run.
std::vector<const Subject*> all_subjects() {
  std::vector<const Subject*> all = subjects_on("cpu", {"*", "*@*"});
  std::erase_if(all, [](const Subject* subject) {
    return subject->name.find("@masked_lane") != std::string::npos ||
           subject->name.find("@missing_barrier_kv_bwd") != std::string::npos;
  });
  return all;
}

// A wrapped offset faults, as it must: no process survives that fault on sparse cases.
bool may_fault(const Subject& subject) { return subject.name.find("offset32") != std::string::npos; }

// The last is sparse.
std::vector<Case> some_cases(const Subject& subject, std::uint64_t count) {
  std::vector<Case> cases;
  for (std::uint64_t unit = 0; cases.size() < count; ++unit) {
    Case c = generate_case(subject, 5, unit);
    const bool sparse = c.problem.value("sparse").number != 0;
    if (sparse == (cases.size() + 1 == count && !may_fault(subject))) {
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

std::string text_of(const std::vector<GuardDamage>& all) {
  std::string text;
  for (const GuardDamage& damage : all) {
    text += damage.where + ": " + damage.text + "\n";
  }
  return text;
}

TEST(DeviceExecutor, GivesWhatTheCpuGivesRunByRun) {
  std::size_t damaged = 0;
  std::size_t compared = 0;
  for (const Subject* subject : all_subjects()) {
    const std::vector<Case> cases = some_cases(*subject, 12);
    std::vector<HostTensors> inputs(cases.size());
    std::vector<Memory> memories;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      make_inputs(cases[i].problem, inputs[i]);
      memories.push_back({.guard = i % 2 == 0 ? GuardFill::finite : GuardFill::nan,
                          .prefill = i % 3 == 0 ? GuardFill::finite : GuardFill::nan,
                          .strides = static_cast<Strides>(i % 5),
                          .extra_shift = static_cast<std::int64_t>(i % 2)});
    }
    std::vector<RunResult> expected(cases.size());
    std::vector<RunResult> actual(cases.size());
    std::vector<RunOrder> orders;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      orders.push_back(
          {subject, &cases[i].problem, &cases[i].tilings[0], &memories[i], &inputs[i], i % 2 == 0, &expected[i]});
    }
    const auto cpu = make_cpu_executor();
    cpu->execute(orders);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      orders[i].result = &actual[i];
    }
    fake_cuda::DeviceExecutor device(0);
    device.begin();
    device.execute(orders);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(subject->name + ": " + text(cases[i]));
      ASSERT_EQ(actual[i].status, expected[i].status);
      if (actual[i].status != RunResult::Status::ok) {
        EXPECT_EQ(actual[i].message, expected[i].message);
        continue;
      }
      EXPECT_EQ(actual[i].outputs.empty(), i % 2 != 0);
      if (actual[i].outputs.empty()) {
        device.fetch(actual[i]);
      }
      ASSERT_EQ(actual[i].outputs.size(), expected[i].outputs.size());
      for (std::size_t tensor = 0; tensor < expected[i].outputs.size(); ++tensor) {
        EXPECT_EQ(actual[i].outputs[tensor].bytes, expected[i].outputs[tensor].bytes) << tensor;
        compared += expected[i].outputs[tensor].bytes.size();
      }
      EXPECT_EQ(text_of(actual[i].damage), text_of(expected[i].damage));
      damaged += expected[i].damage.empty() ? 0 : 1;
      ASSERT_EQ(actual[i].changes.size(), expected[i].changes.size());
      for (std::size_t change = 0; change < actual[i].changes.size(); ++change) {
        EXPECT_EQ(actual[i].changes[change].tensor, expected[i].changes[change].tensor);
        EXPECT_EQ(actual[i].changes[change].element, expected[i].changes[change].element);
      }
    }
  }
  EXPECT_GT(damaged, 10U);
  EXPECT_GT(compared, 1000000U);
}

TEST(DeviceExecutor, DigestsAreEqualWhereOutputsAre) {
  const Subject& subject = *find_subject("cpu/mla_rope_q_fwd");
  const Case c = parse_case(
      "mla_rope_q_fwd dtype=f32 layout=sbhd seq=3 batch=1 head_num=4 nope_dim=8 emb_dim=8 data=normal:1 | block_h=4");
  HostTensors inputs;
  make_inputs(c.problem, inputs);
  HostTensors changed = inputs;
  changed[0].as<float>()[17] += 1;
  const Memory plain;
  const Memory padded{.guard = GuardFill::nan, .strides = Strides::padded};
  std::vector<RunResult> results(3);
  const std::vector<RunOrder> orders{{&subject, &c.problem, &c.tilings[0], &plain, &inputs, false, &results[0]},
                                     {&subject, &c.problem, &c.tilings[0], &padded, &inputs, false, &results[1]},
                                     {&subject, &c.problem, &c.tilings[0], &plain, &changed, false, &results[2]}};
  fake_cuda::DeviceExecutor device(0);
  device.begin();
  device.execute(orders);
  EXPECT_EQ(results[0].digests, results[1].digests);
  EXPECT_NE(results[0].digests, results[2].digests);
}

// A batch of cases, with all that properties ask for, judged as the cpu judges them one by one.
TEST(DeviceExecutor, BatchesAreJudgedAsCasesAloneAreOnTheCpu) {
  std::set<Verdict> seen;
  for (const Subject* subject : all_subjects()) {
    const std::vector<Case> cases = some_cases(*subject, 8);
    Engine cpu(make_cpu_executor());
    Engine device(std::make_unique<fake_cuda::DeviceExecutor>(0));
    const auto batch = device.check(*subject, cases, all_properties(), false);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto alone = cpu.check(*subject, {&cases[i], 1}, all_properties(), false).front();
      for (std::size_t p = 0; p < alone.size(); ++p) {
        SCOPED_TRACE(subject->name + " " + std::string(all_properties()[p]->name()) + ": " + text(cases[i]));
        EXPECT_EQ(batch[i][p].verdict, alone[p].verdict);
        EXPECT_EQ(batch[i][p].reason, alone[p].reason);
        EXPECT_EQ(batch[i][p].failure ? batch[i][p].failure->message : "",
                  alone[p].failure ? alone[p].failure->message : "");
        seen.insert(alone[p].verdict);
      }
    }
  }
  EXPECT_TRUE(seen.count(Verdict::held) == 1 && seen.count(Verdict::failed) == 1);
}

}  // namespace
}  // namespace tileproof
