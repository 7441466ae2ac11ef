// Recorded outputs of public kernels (tests/golden/README.md) against the references, within the derived bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "execute/subject.h"
#include "mla_rope/yarn.h"
#include "unit/golden_records.h"

namespace tileproof {
namespace {

using namespace golden;

// What the recorded kernels do, as the records themselves show (TheDeclaredArithmeticIsTheNarrowestThatFits): products
// and their sum in the data type where the tables have it too and in f32 otherwise, contracted where the compiler
// likes; heads are summed in f32, and the sum is rounded to the data type before it is rotated.
constexpr tileproof_arithmetic kPublicArithmetic = {TILEPROOF_PRECISION_STORAGE_IF_TABLES_MATCH,
                                                    /*contraction_free=*/1,
                                                    TILEPROOF_PRECISION_F32,
                                                    /*order_free=*/1,
                                                    /*sum_rounded_to_storage=*/1,
                                                    /*flush_to_zero=*/0};

struct Outcome {
  int records = 0;
  int failing = 0;
  double largest = 0;
};

Outcome judge_all(const tileproof_arithmetic& arithmetic, const std::function<bool(const Json&)>& wanted) {
  Outcome outcome;
  for_each_record("operation", [&](const Json& record, const std::string& where) {
    SCOPED_TRACE(where);
    if (!wanted(record)) {
      return;
    }
    const Problem problem = problem_of(record);
    const HostTensors inputs = tensors_of(problem, record, "inputs");
    const HostTensors outputs = tensors_of(problem, record, "outputs");
    Judge judge(inputs, outputs);
    problem.operation().reference(problem, arithmetic, inputs, judge);
    EXPECT_TRUE(judge.complete()) << where;
    ++outcome.records;
    outcome.failing += judge.misses > 0 ? 1 : 0;
    outcome.largest = std::max(outcome.largest, judge.largest);
  });
  return outcome;
}

bool any(const Json&) { return true; }
bool is_narrow(const Json& record) { return record.at("dtype") != "f32"; }
bool tables_match(const Json& record) { return is_narrow(record) && record.at("dtype") == record.at("table_dtype"); }
bool rounds_a_sum(const Json& record) {
  return is_narrow(record) && !tables_match(record) && record.at("operation") == "mla_rope_kv_split_bwd";
}

TEST(GoldenTest, EveryRecordedOutputIsWithinItsBound) {
  const Outcome all = judge_all(kPublicArithmetic, any);
  std::printf("%d records, largest error / bound %.3f\n", all.records, all.largest);
  EXPECT_GT(all.records, 0);
  EXPECT_EQ(all.failing, 0);
  EXPECT_LE(all.largest, 1.0);
}

// Each claim of kPublicArithmetic is forced by the records: with the finer arithmetic instead, they are past its
// bounds.
TEST(GoldenTest, TheDeclaredArithmeticIsTheNarrowestThatFits) {
  if (std::getenv("TILEPROOF_GOLDEN_DIR") != nullptr) {
    GTEST_SKIP() << "a claim about the records that are shipped";
  }
  tileproof_arithmetic wide_products = kPublicArithmetic;
  wide_products.products = TILEPROOF_PRECISION_F32;
  EXPECT_GT(judge_all(wide_products, tables_match).failing, 0);
  tileproof_arithmetic unrounded_sum = kPublicArithmetic;
  unrounded_sum.sum_rounded_to_storage = 0;
  EXPECT_GT(judge_all(unrounded_sum, rounds_a_sum).failing, 0);
}

// One wrong sign among the recorded outputs is one miss.
TEST(GoldenTest, AnOutputPastItsBoundIsSeen) {
  int records = 0;
  for_each_record("operation", [&](const Json& record, const std::string& where) {
    if (record.at("operation") != "mla_rope_q_fwd") {
      return;
    }
    const Problem problem = problem_of(record);
    const HostTensors inputs = tensors_of(problem, record, "inputs");
    HostTensors outputs = tensors_of(problem, record, "outputs");
    // Of a rotated element that is not so small that its bound covers both signs.
    HostTensor& q = outputs[0];
    const auto size = static_cast<std::int64_t>(size_of(q.shape.dtype));
    std::int64_t element = problem.integer("nope_dim");
    while (std::abs(q.at(element)) < 0.1) {
      ++element;
    }
    q.bytes[static_cast<std::size_t>((element + 1) * size - 1)] ^= std::byte{0x80};
    Judge judge(inputs, outputs);
    problem.operation().reference(problem, kPublicArithmetic, inputs, judge);
    EXPECT_EQ(judge.misses, 1) << where;
    ++records;
  });
  EXPECT_GT(records, 0);
}

// Launches a subject on packed copies of the record's tensors, through the plug-in ABI alone.
HostTensors launch_on(const tileproof_subject& subject, const Problem& problem, const HostTensors& inputs,
                      std::int64_t block_h) {
  HostTensors memory = inputs;
  std::vector<tileproof_tensor> tensors;
  for (const TensorShape& declared : problem.operation().shapes(problem)) {
    HostTensor& tensor = memory[declared.index];
    const std::size_t given = tensor.bytes.size();
    tensor.bytes.resize(static_cast<std::size_t>(tensor.shape.elements()) * size_of(declared.dtype));
    std::fill(tensor.bytes.begin() + given, tensor.bytes.end(), std::byte{0xff});
    tileproof_tensor bound{};
    bound.name = declared.spec->name.c_str();
    bound.data = tensor.bytes.data();
    bound.dtype = static_cast<std::int32_t>(declared.dtype);
    bound.rank = declared.rank;
    std::int64_t stride = 1;
    for (int axis = declared.rank - 1; axis >= 0; --axis) {
      bound.shape[axis] = tensor.shape.shape[static_cast<std::size_t>(axis)];
      bound.strides[axis] = stride;
      stride *= bound.shape[axis];
    }
    tensors.push_back(bound);
  }
  std::vector<tileproof_named_value> scalars;
  for (const auto& [name, value] : problem.operation().scalars(problem)) {
    scalars.push_back({name, value});
  }
  const std::array<tileproof_named_value, 2> tiling{{{"block_h", block_h}, {"num_warps", 2}}};
  std::array<char, 512> message{};
  tileproof_launch launch{};
  launch.struct_size = sizeof launch;
  launch.tensors = tensors.data();
  launch.tensor_count = tensors.size();
  launch.scalars = scalars.data();
  launch.scalar_count = scalars.size();
  launch.tiling = tiling.data();
  launch.tiling_count = tiling.size();
  launch.message = message.data();
  launch.message_size = message.size();
  EXPECT_EQ(subject.launch(&launch), TILEPROOF_LAUNCHED) << message.data();
  return memory;
}

TEST(GoldenTest, OurKernelsAreWithinTheirOwnBoundsOnTheRecordedInputs) {
  int launches = 0;
  double largest = 0;
  for_each_record("operation", [&](const Json& record, const std::string& where) {
    const Problem problem = problem_of(record);
    const HostTensors inputs = tensors_of(problem, record, "inputs");
    const Subject* subject = clean_subject(problem.operation().name(), "cpu");
    ASSERT_NE(subject, nullptr) << where;
    for (const std::int64_t block_h :
         {std::int64_t{1}, std::int64_t{3}, problem.integer("head_num"), std::int64_t{64}}) {
      HostTensors outputs = launch_on(*subject->raw, problem, inputs, block_h);
      for (const TensorShape& shape : problem.operation().shapes(problem)) {
        if (shape.spec->role == Role::in) {
          EXPECT_EQ(outputs[shape.index].bytes, inputs[shape.index].bytes) << where << " wrote to " << shape.spec->name;
          outputs[shape.index].bytes.clear();
        }
      }
      Judge judge(inputs, outputs);
      problem.operation().reference(problem, subject->raw->arithmetic, inputs, judge);
      EXPECT_TRUE(judge.complete()) << where;
      EXPECT_EQ(judge.misses, 0) << where << " block_h=" << block_h;
      largest = std::max(largest, judge.largest);
      ++launches;
    }
  });
  std::printf("%d launches of our kernels, largest error / bound %.3f\n", launches, largest);
  EXPECT_GT(launches, 0);
}

double ulp(double value) {
  const auto narrow = static_cast<float>(std::abs(value));
  return static_cast<double>(std::nextafter(narrow, 1e30F)) - static_cast<double>(narrow);
}

TEST(GoldenTest, YarnTablesAgreeUpToTheAnglesOfTheRecordedClass) {
  int records = 0;
  for_each_record("kv_channels", [&](const Json& record, const std::string& where) {
    YarnParameters p;
    p.kv_channels = record.at("kv_channels");
    p.rotary_base = record.value("rotary_base", p.rotary_base);
    p.scaling_factor = record.value("scaling_factor", p.scaling_factor);
    p.original_max_position_embeddings =
        record.value("original_max_position_embeddings", p.original_max_position_embeddings);
    p.beta_fast = record.value("beta_fast", p.beta_fast);
    p.beta_slow = record.value("beta_slow", p.beta_slow);
    p.mscale = record.value("mscale", p.mscale);
    p.mscale_all_dim = record.value("mscale_all_dim", p.mscale_all_dim);
    p.correction_range_round_to_int = record.value("correction_range_round_to_int", p.correction_range_round_to_int);
    EXPECT_NEAR(yarn_mscale(p), record.at("mscale_factor").get<double>(), 1e-14) << where;
    const auto width = static_cast<std::size_t>(p.kv_channels);
    const std::vector<std::byte> recorded[] = {from_hex(record.at("cos")), from_hex(record.at("sin"))};
    const auto frequencies = yarn_frequencies(p);
    std::vector<double> rows[] = {std::vector<double>(width), std::vector<double>(width)};
    for (std::size_t row = 0; row < record.at("rows").get<std::size_t>(); ++row) {
      const std::int64_t position = record.at("offset").get<std::int64_t>() + static_cast<std::int64_t>(row);
      yarn_row(p, frequencies, position, rows[0].data(), rows[1].data());
      for (std::size_t i = 0; i < 2 * width; ++i) {
        float given = 0;
        std::memcpy(&given, recorded[i / width].data() + (row * width + i % width) * sizeof given, sizeof given);
        const double value = rows[i / width][i % width];
        const double allowed = static_cast<double>(position) * 0x1p-24 * yarn_mscale(p) + 2 * ulp(value);
        ASSERT_LE(std::abs(given - value), allowed) << where << " row " << row << " column " << i;
      }
    }
    ++records;
  });
  std::printf("%d YaRN records\n", records);
  EXPECT_TRUE(records > 0 || std::getenv("TILEPROOF_GOLDEN_DIR") != nullptr);
}

}  // namespace
}  // namespace tileproof
