// The recorded outputs of public kernels (tests/golden/README.md), as problems and packed tensors, and a judge for
// them.
#ifndef TILEPROOF_TESTS_UNIT_GOLDEN_RECORDS_H
#define TILEPROOF_TESTS_UNIT_GOLDEN_RECORDS_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tileproof/operation.h"

namespace tileproof::golden {

using Json = nlohmann::json;

inline std::vector<std::byte> from_hex(const std::string& text) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10); };
  std::vector<std::byte> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  }
  return bytes;
}

// Visits every line of every recorded file that has `key`.
inline void for_each_record(const char* key, const std::function<void(const Json&, const std::string& where)>& visit) {
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

inline Problem problem_of(const Json& record) {
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
inline HostTensors tensors_of(const Problem& problem, const Json& record, const char* side) {
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

}  // namespace tileproof::golden

#endif
