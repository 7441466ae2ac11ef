// Recorded outputs of public kernels (tests/golden/README.md) against the references, within the derived bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "mla_rope/yarn.h"
#include "tileproof/operation.h"

namespace tileproof {
namespace {

using Json = nlohmann::json;

// What the recorded kernels do, as the records themselves show (TheDeclaredArithmeticIsTheNarrowestThatFits): products
// and their sum in the data type where the tables have it too and in f32 otherwise, contracted where the compiler
// likes; heads are summed in f32, and the sum is rounded to the data type before it is rotated.
constexpr tileproof_arithmetic kPublicArithmetic = {TILEPROOF_PRECISION_STORAGE_IF_TABLES_MATCH,
                                                    /*contraction_free=*/1,
                                                    TILEPROOF_PRECISION_F32,
                                                    /*order_free=*/1,
                                                    /*sum_rounded_to_storage=*/1,
                                                    /*flush_to_zero=*/0};

std::vector<std::byte> from_hex(const std::string& text) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10); };
  std::vector<std::byte> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  }
  return bytes;
}

// Visits every line of every recorded file that has `key`.
void for_each_record(const char* key, const std::function<void(const Json&, const std::string& where)>& visit) {
  const char* given = std::getenv("TILEPROOF_GOLDEN_DIR");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(given != nullptr ? given : TILEPROOF_GOLDEN_DIR)) {
    if (entry.path().extension() == ".jsonl") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::ifstream in(file);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      const Json record = Json::parse(line);
      if (record.contains(key)) {
        visit(record, file.filename().string() + ":" + std::to_string(number));
      }
    }
  }
}

Problem problem_of(const Json& record) {
  const auto name = record.at("operation").get<std::string>();
  const Operation* operation = find_operation(name);
  if (operation == nullptr) {
    throw std::runtime_error("no operation " + name);
  }
  Problem problem(*operation);
  const std::string dtype = record.at("dtype");
  problem.set("dtype", dtype == "f32" ? 0 : dtype == "f16" ? 1 : 2);
  problem.set("table_dtype", record.at("table_dtype") == dtype ? 0 : 1);
  problem.set("layout", record.at("layout") == "thd" ? 1 : 0);
  for (const char* key : {"seq", "batch", "head_num", "emb_dim", "nope_dim", "k_dim", "v_dim"}) {
    if (record.contains(key) && problem.has(key)) {
      problem.set(key, record.at(key).get<std::int64_t>());
    }
  }
  for (const char* key : {"inverse", "remove_interleaving", "rope_first"}) {
    if (record.contains(key) && problem.has(key)) {
      problem.set(key, record.at(key).get<bool>() ? 1 : 0);
    }
  }
  if (record.contains("cu_seqlens")) {
    Value lengths;
    const auto boundaries = record.at("cu_seqlens").get<std::vector<std::int64_t>>();
    for (std::size_t i = 1; i < boundaries.size(); ++i) {
      lengths.items.push_back(boundaries[i] - boundaries[i - 1]);
    }
    problem.set("seqlens", std::move(lengths));
    problem.set("cp", Value{.number = record.at("cp_rank"), .second = record.at("cp_size"), .items = {}});
    problem.set("pad_tokens", record.at("pad").get<std::int64_t>());
  }
  if (record.contains("position_ids")) {
    problem.set("position_ids", 1);
  }
  problem.set("data", Value{.number = 1, .second = 0, .items = {}});
  return problem;
}

// The recorded tensors; tables have the rows that were recorded.
HostTensors tensors_of(const Problem& problem, const Json& record, const char* side) {
  HostTensors tensors(problem.operation().tensors().size());
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    HostTensor& tensor = tensors[shape.index];
    tensor.shape = shape;
    if (record.at(side).contains(shape.spec->name)) {
      tensor.bytes = from_hex(record.at(side).at(shape.spec->name));
      if (shape.spec->axes[0].kind == AxisKind::row) {
        tensor.shape.shape[0] = record.at("max_seq");
      }
      if (static_cast<std::int64_t>(tensor.bytes.size()) !=
          tensor.shape.elements() * static_cast<std::int64_t>(size_of(shape.dtype))) {
        throw std::runtime_error("the size of " + shape.spec->name + " is not what the problem says");
      }
    } else if (shape.spec->element == ElementType::i32 && side == std::string_view("inputs")) {
      const auto values = record.at(shape.spec->name).get<std::vector<std::int32_t>>();
      tensor.bytes.resize(values.size() * sizeof(std::int32_t));
      std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    }
  }
  return tensors;
}

// Holds recorded outputs against the reference and counts what it saw.
class Judge : public ReferenceSink {
 public:
  Judge(const HostTensors& inputs, const HostTensors& outputs) : inputs_(inputs), outputs_(outputs) {
    for (const HostTensor& output : outputs_) {
      seen_.emplace_back(output.bytes.empty() ? 0 : static_cast<std::size_t>(output.shape.elements()), 0);
    }
  }

  void copied(std::size_t tensor, std::int64_t row, std::int64_t dim, std::size_t source, std::int64_t source_element,
              std::int64_t count) override {
    const HostTensor& out = outputs_[tensor];
    const auto size = static_cast<std::int64_t>(size_of(out.shape.dtype));
    const std::int64_t element = row * out.shape.row_length() + dim;
    for (std::int64_t i = 0; i < count; ++i) {
      ++seen_[tensor][static_cast<std::size_t>(element + i)];
      misses +=
          std::memcmp(out.bytes.data() + (element + i) * size,
                      inputs_[source].bytes.data() + (source_element + i) * size, static_cast<std::size_t>(size)) != 0
              ? 1
              : 0;
    }
  }

  void computed(std::size_t tensor, std::int64_t row, std::int64_t dim, std::int64_t step, const double* value,
                const double* bound, std::int64_t count) override {
    const HostTensor& out = outputs_[tensor];
    const std::int64_t element = row * out.shape.row_length() + dim;
    for (std::int64_t i = 0; i < count; ++i) {
      ++seen_[tensor][static_cast<std::size_t>(element + i * step)];
      const double ratio = std::abs(out.at(element + i * step) - value[i]) / bound[i];
      largest = std::max(largest, ratio);
      misses += ratio <= 1 ? 0 : 1;
    }
  }

  void inexact(std::size_t, std::int64_t, const std::string& what) override { ADD_FAILURE() << what; }

  // Whether the reference spoke of every recorded output element, once.
  bool complete() const {
    return std::all_of(seen_.begin(), seen_.end(), [](const std::vector<int>& tensor) {
      return std::all_of(tensor.begin(), tensor.end(), [](int times) { return times == 1; });
    });
  }

  std::int64_t misses = 0;
  double largest = 0;  // error / bound

 private:
  const HostTensors& inputs_;
  const HostTensors& outputs_;
  std::vector<std::vector<int>> seen_;
};

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
