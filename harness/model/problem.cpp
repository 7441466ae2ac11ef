#include <algorithm>
#include <stdexcept>

#include "tileproof/model.h"
#include "tileproof/operation.h"

namespace tileproof {

namespace {

[[noreturn]] void unknown_key(const Operation& operation, std::string_view key) {
  throw std::logic_error(std::string(operation.name()) + " declares no '" + std::string(key) + "'");
}

std::size_t index_of(const Operation& operation, std::string_view key) {
  const std::size_t index = operation.parameter_index(key);
  if (index == std::string_view::npos) {
    unknown_key(operation, key);
  }
  return index;
}

std::size_t tiling_index(const Operation& operation, std::string_view key) {
  const auto& declared = operation.tiling_parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].key == key) {
      return i;
    }
  }
  unknown_key(operation, key);
}

}  // namespace

std::size_t size_of(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::i32 ? 4 : 2; }

std::string_view name_of(Dtype dtype) {
  constexpr std::string_view names[] = {"f32", "f16", "bf16", "i32"};
  return names[static_cast<int>(dtype)];
}

Problem::Problem(const Operation& operation) : operation_(&operation) {
  values_.reserve(operation.parameters().size());
  for (const Parameter& parameter : operation.parameters()) {
    values_.push_back(parameter.fallback);
  }
}

const Value& Problem::value(std::string_view key) const { return values_[index_of(*operation_, key)]; }
Value& Problem::value(std::string_view key) { return values_[index_of(*operation_, key)]; }

bool Problem::has(std::string_view key) const { return operation_->parameter_index(key) != std::string_view::npos; }

const std::string& Problem::choice(std::string_view key) const {
  const std::size_t index = index_of(*operation_, key);
  return operation_->parameters()[index].choices[static_cast<std::size_t>(values_[index].number)];
}

Problem& Problem::set(std::string_view key, std::int64_t number) {
  value(key).number = number;
  return *this;
}

Problem& Problem::set(std::string_view key, Value new_value) {
  value(key) = std::move(new_value);
  return *this;
}

void Problem::normalise() {
  const auto& declared = operation_->parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (!applies(declared[i])) {
      values_[i] = declared[i].fallback;
    }
  }
}

Problem Problem::under(const Operation& other) const {
  Problem result(other);
  const auto& declared = operation_->parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (result.has(declared[i].key)) {
      result.value(declared[i].key) = values_[i];
    }
  }
  result.normalise();
  return result;
}

Tiling default_tiling(const Operation& operation) {
  Tiling tiling;
  for (const Parameter& parameter : operation.tiling_parameters()) {
    tiling.values.push_back(parameter.fallback.number);
  }
  return tiling;
}

std::int64_t tiling_value(const Operation& operation, const Tiling& tiling, std::string_view key) {
  return tiling.values[tiling_index(operation, key)];
}

void set_tiling_value(const Operation& operation, Tiling& tiling, std::string_view key, std::int64_t value) {
  tiling.values[tiling_index(operation, key)] = value;
}

}  // namespace tileproof
