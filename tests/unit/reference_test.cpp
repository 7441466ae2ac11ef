// The references of the rope operations: positions, adjointness, bounds against rounded arithmetic, exactness.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "memory/counter_random.h"
#include "memory/float_bits.h"
#include "memory/recipes.h"
#include "mla_rope/bounds.h"
#include "mla_rope/rope_operation.h"

namespace tileproof {
namespace {

constexpr tileproof_arithmetic kF32 = {TILEPROOF_PRECISION_F32, 1, TILEPROOF_PRECISION_F32, 1, 0, 0};
constexpr tileproof_arithmetic kStorage = {TILEPROOF_PRECISION_STORAGE, 1, TILEPROOF_PRECISION_STORAGE, 1, 1, 0};

constexpr const char* kOperations[] = {"mla_rope_q_fwd",        "mla_rope_q_bwd",      "mla_rope_kv_split_fwd",
                                       "mla_rope_kv_split_bwd", "mla_rope_concat_fwd", "mla_rope_concat_bwd"};

Problem problem_from(const std::string& line) { return parse_case(line + " | block_h=1").problem; }

// What a reference reports, element by element.
class Collector : public ReferenceSink {
 public:
  struct Element {
    double value = 0;
    double bound = -1;  // -1: never reported; 0 with `copied`
    int times = 0;
  };

  explicit Collector(const Problem& problem, const tileproof_arithmetic& arithmetic = kF32) {
    make_inputs(problem, inputs);
    run(problem, arithmetic);
  }
  Collector(const Problem& problem, const tileproof_arithmetic& arithmetic, HostTensors given)
      : inputs(std::move(given)) {
    run(problem, arithmetic);
  }

  void copied(std::size_t tensor, std::int64_t row, std::int64_t dim, std::size_t source, std::int64_t source_element,
              std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) {
      put(tensor, row, dim + i, inputs[source].at(source_element + i), 0);
    }
  }
  void computed(std::size_t tensor, std::int64_t row, std::int64_t dim, std::int64_t step, const double* value,
                const double* bound, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) {
      put(tensor, row, dim + i * step, value[i], bound[i]);
    }
  }
  void inexact(std::size_t, std::int64_t, const std::string& what) override { inexact_reports.push_back(what); }

  HostTensors inputs;
  std::map<std::size_t, std::vector<Element>> outputs;
  std::vector<std::string> inexact_reports;

 private:
  void run(const Problem& problem, const tileproof_arithmetic& arithmetic) {
    for (const TensorShape& shape : problem.operation().shapes(problem)) {
      if (shape.spec->role != Role::in) {
        outputs[shape.index].resize(static_cast<std::size_t>(shape.elements()));
        widths_[shape.index] = shape.row_length();
      }
    }
    problem.operation().reference(problem, arithmetic, inputs, *this);
  }
  void put(std::size_t tensor, std::int64_t row, std::int64_t dim, double value, double bound) {
    Element& element = outputs.at(tensor).at(static_cast<std::size_t>(row * widths_.at(tensor) + dim));
    element = {value, bound, element.times + 1};
  }
  std::map<std::size_t, std::int64_t> widths_;
};

std::string shape_text(std::string_view operation, int variant) {
  const bool q = operation.find("_q_") != std::string_view::npos;
  const bool kv = operation.find("_kv_") != std::string_view::npos;
  std::string line = std::string(operation) + " dtype=" +
                     (variant % 3 == 0   ? "f32"
                      : variant % 3 == 1 ? "f16"
                                         : "bf16");
  line += variant % 2 == 0 ? " layout=sbhd seq=3 batch=2" : " layout=thd seqlens=6,0,14 cp=1/2 pad_tokens=2";
  line += kv ? " head_num=5 k_dim=3 v_dim=2 emb_dim=12" : " head_num=5 nope_dim=3 emb_dim=12";
  line += q ? (variant & 4 ? " inverse=1" : " inverse=0") : "";
  line += q || kv ? (variant & 8 ? " remove_interleaving=1" : " remove_interleaving=0") : "";
  return line + (q && (variant & 16) ? " rope_first=1" : "");
}

TEST(ReferenceTest, EveryOperationReportsEveryOutputElementOnce) {
  for (const char* operation : kOperations) {
    for (int variant = 0; variant < 32; ++variant) {
      // Exact data are exact in the narrowest arithmetic that a subject may declare, too.
      const Collector all(problem_from(shape_text(operation, variant) + " data=exact:5"),
                          variant & 1 ? kStorage : kF32);
      EXPECT_TRUE(all.inexact_reports.empty()) << all.inexact_reports.front();
      for (const auto& [tensor, elements] : all.outputs) {
        EXPECT_FALSE(elements.empty());
        for (const Collector::Element& element : elements) {
          ASSERT_EQ(element.times, 1) << shape_text(operation, variant);
          ASSERT_EQ(element.bound, 0);
        }
      }
    }
  }
}

TEST(ReferenceTest, TheLineOfTheDesignParses) {
  const std::string line =
      "mla_rope_q_fwd dtype=bf16 layout=thd seqlens=27,27,45,29 head_num=12 nope_dim=128 emb_dim=64 inverse=0 "
      "remove_interleaving=1 cp=1/2 pad_seq=3 data=exact:7 | block_h=8 num_warps=1 ; block_h=4";
  EXPECT_EQ(text(parse_case(line)), line);
}

// On exact data both sides of <F e, y> = <e, F' y> are sums of whole numbers, so they agree to the bit in every group.
TEST(ReferenceTest, BackwardIsTheTransposeOfForwardInEveryGroup) {
  for (const char* operation : kOperations) {
    for (int variant = 0; variant < 32; ++variant) {
      const Problem problem = problem_from(shape_text(operation, variant) + " data=exact:11");
      const Operation& mine = problem.operation();
      const Operation& other = *find_operation(mine.algebra().adjoint);
      const Collector here(problem);
      const Collector there(problem.under(other));
      std::map<std::int64_t, double> sums;
      std::map<std::int64_t, int> sides;
      for (const auto& [own, partner] : mine.algebra().adjoint_tensors) {
        const std::size_t a = mine.tensor_index(own);
        const std::size_t b = other.tensor_index(partner);
        if (mine.tensors()[a].role != Role::in) {
          for (std::size_t i = 0; i < here.outputs.at(a).size(); ++i) {
            const std::int64_t group = mine.groups(problem, a, true)(static_cast<std::int64_t>(i));
            sums[group] += here.outputs.at(a)[i].value * there.inputs[b].at(static_cast<std::int64_t>(i));
            sides[group] |= 1;
          }
        }
        if (mine.tensors()[a].role != Role::out) {
          for (std::size_t i = 0; i < there.outputs.at(b).size(); ++i) {
            const std::int64_t group = mine.groups(problem, a, false)(static_cast<std::int64_t>(i));
            sums[group] -= there.outputs.at(b)[i].value * here.inputs[a].at(static_cast<std::int64_t>(i));
            sides[group] |= 2;
          }
        }
      }
      EXPECT_GT(sums.size(), 10U);
      for (const auto& [group, sum] : sums) {
        ASSERT_EQ(sum, 0) << shape_text(operation, variant) << " group " << group;
        ASSERT_EQ(sides[group], 3) << group;
        ASSERT_GE(group, 0);
      }
    }
  }
}

// Over the ranks each position comes exactly once when all local lengths agree, odd ones too.
TEST(ReferenceTest, RanksOfContextParallelismShareOutEveryPosition) {
  for (std::int64_t size = 1; size <= 5; ++size) {
    for (std::int64_t local = 1; local <= 7; ++local) {
      std::multiset<std::int64_t> seen;
      for (std::int64_t rank = 0; rank < size; ++rank) {
        Problem problem(*find_operation("mla_rope_q_fwd"));
        problem.set("layout", 1).set("seqlens", Value{.number = 0, .second = 0, .items = {local * size}});
        problem.set("cp", Value{.number = rank, .second = size, .items = {}});
        const auto positions = rope_positions(problem);
        ASSERT_EQ(std::ssize(positions), local);
        EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
        seen.insert(positions.begin(), positions.end());
      }
      std::multiset<std::int64_t> wanted;
      for (std::int64_t position = 0; position < local * size; ++position) {
        wanted.insert(position);
      }
      EXPECT_EQ(seen, wanted) << size << " ranks, " << local << " tokens each";
    }
  }
}

TEST(ReferenceTest, TablesHaveARowForEveryPositionAndNoMore) {
  CounterStream draw(3, 4);
  for (int trial = 0; trial < 500; ++trial) {
    Problem problem(*find_operation("mla_rope_q_fwd"));
    Value lengths;
    for (std::uint64_t i = draw.below(5); i > 0; --i) {
      lengths.items.push_back(static_cast<std::int64_t>(draw.below(12)));
    }
    const auto size = static_cast<std::int64_t>(1 + draw.below(5));
    const auto rank = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(size)));
    problem.set("layout", 1).set("seqlens", lengths).set("pad_tokens", 2);
    problem.set("cp", Value{.number = rank, .second = size, .items = {}});
    const auto positions = rope_positions(problem);
    EXPECT_EQ(problem.operation().quantity(problem, "max_seq"),
              *std::max_element(positions.begin(), positions.end()) + 1);
    problem.set("position_ids", 1);
    for (const std::int64_t position : rope_positions(problem)) {
      EXPECT_GE(position, 0);
      EXPECT_LT(position, problem.operation().quantity(problem, "max_seq"));
    }
  }
}

// The subject reads position_ids from memory; so does the reference, or it would judge another problem.
TEST(ReferenceTest, PositionsAreThoseOfTheInputs) {
  const Problem problem = problem_from(
      "mla_rope_q_fwd dtype=f32 layout=thd seqlens=6 head_num=1 nope_dim=0 emb_dim=4 inverse=0 remove_interleaving=0 "
      "position_ids=1 data=normal:3");
  Collector given(problem);
  HostTensors inputs = given.inputs;
  const std::size_t ids = problem.operation().tensor_index("position_ids");
  for (std::int32_t& id : inputs[ids].as<std::int32_t>()) {
    id = (id + 1) % 8;
  }
  const Collector moved(problem, kF32, inputs);
  for (std::size_t i = 0; i < given.outputs.at(0).size(); ++i) {
    EXPECT_NE(moved.outputs.at(0)[i].value, given.outputs.at(0)[i].value) << i;
  }
}

TEST(ReferenceTest, APartGivesWhatTheWholeGivesForItsTokens) {
  for (const char* shape : {"layout=sbhd seq=4 batch=3", "layout=thd seqlens=5,0,3,1 pad_tokens=2",
                            "layout=thd seqlens=8,16,8 cp=1/2", "layout=thd seqlens=16,8 cp=3/4"}) {
    const Problem problem =
        problem_from(std::string("mla_rope_q_fwd dtype=f32 ") + shape +
                     " head_num=2 nope_dim=0 emb_dim=8 inverse=0 remove_interleaving=0 data=normal:9");
    const auto positions = rope_positions(problem);
    std::multiset<std::int64_t> tokens;
    for (const Operation::Part& part : problem.operation().parts(problem)) {
      const auto own = rope_positions(part.problem);
      ASSERT_EQ(own.size(), part.tokens.size()) << shape;
      for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_EQ(own[i], positions[static_cast<std::size_t>(part.tokens[i])]) << shape;
      }
      tokens.insert(part.tokens.begin(), part.tokens.end());
    }
    EXPECT_EQ(tokens.size(), positions.size() - static_cast<std::size_t>(problem.integer("pad_tokens"))) << shape;
    EXPECT_EQ(std::set<std::int64_t>(tokens.begin(), tokens.end()).size(), tokens.size());
  }
  EXPECT_TRUE(
      find_operation("mla_rope_q_fwd")
          ->parts(problem_from("mla_rope_q_fwd dtype=f32 layout=thd seqlens=8,6 head_num=2 nope_dim=0 emb_dim=8 "
                               "inverse=0 remove_interleaving=0 cp=1/2 data=normal:9"))
          .empty());
}

TEST(ReferenceTest, TablesAreWhatTheirRecipeSays) {
  const auto tables = [](const std::string& rest) {
    const Problem problem = problem_from("mla_rope_q_fwd dtype=f32 layout=sbhd " + rest);
    HostTensors inputs;
    make_inputs(problem, inputs);
    return std::pair{inputs[problem.operation().tensor_index("cos")], inputs[problem.operation().tensor_index("sin")]};
  };
  const std::string shape = " batch=1 head_num=1 nope_dim=0 emb_dim=16 inverse=0 remove_interleaving=0";
  const auto [free_cos, free_sin] = tables("seq=9" + shape + " data=normal:4");
  int different = 0;
  for (std::int64_t i = 0; i < std::int64_t{9} * 16; ++i) {
    EXPECT_LE(std::abs(free_cos.at(i)), 1.5);
    different += i % 16 < 8 && free_cos.at(i) != free_cos.at(i + 8) ? 1 : 0;
  }
  EXPECT_EQ(different, 9 * 8);
  EXPECT_NE(free_cos.bytes, free_sin.bytes);
  const auto shorter = tables("seq=3" + shape + " data=normal:4").first;
  EXPECT_TRUE(std::equal(shorter.bytes.begin(), shorter.bytes.end(), free_cos.bytes.begin()));
  for (const char* kind : {" tables=turns data=exact:4", " tables=yarn data=normal:4"}) {
    const auto [cos, sin] = tables("seq=9" + shape + kind);
    for (std::int64_t i = 0; i < std::int64_t{9} * 16; ++i) {
      const double norm = cos.at(i) * cos.at(i) + sin.at(i) * sin.at(i);
      EXPECT_NEAR(norm / (cos.at(0) * cos.at(0) + sin.at(0) * sin.at(0)), 1, 1e-6) << kind;
      EXPECT_EQ(cos.at(i), cos.at(i % 16 < 8 ? i + 8 : i - 8)) << kind;
    }
  }
}

TEST(ReferenceTest, ShapesThatNoMemoryHoldsAreInvalid) {
  Problem problem = problem_from(
      "mla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=256 nope_dim=128 emb_dim=64 inverse=0 "
      "remove_interleaving=0 data=normal:1");
  EXPECT_FALSE(problem.operation().invalid(problem).has_value());
  problem.set("seq", 60000).set("batch", 64);
  const auto reason = problem.operation().invalid(problem);
  ASSERT_TRUE(reason.has_value());
  EXPECT_NE(reason->find("q would hold"), std::string::npos) << *reason;
}

}  // namespace
}  // namespace tileproof
