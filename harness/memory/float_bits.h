// Storage types on the host as bit patterns: conversion to and from float, without Eigen and without a toolkit.
// Rounding is to nearest, ties to even; subnormals are kept; any NaN stays a NaN.
#ifndef TILEPROOF_MEMORY_FLOAT_BITS_H
#define TILEPROOF_MEMORY_FLOAT_BITS_H

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tileproof/model.h"

namespace tileproof {

inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // quiet, sign kept
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1f) {
    return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  }
  if (exponent == 0) {  // subnormal: mantissa * 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<std::uint16_t>(sign | 0x7e00U);
  }
  if (magnitude >= 0x477ff000U) {  // rounds to 65536 or more
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 aligns the subnormal grid 2^-24 with float's last bit
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

inline double load_element(Dtype dtype, const void* base, std::int64_t index) {
  const auto* bytes = static_cast<const std::byte*>(base) + static_cast<std::size_t>(index) * size_of(dtype);
  if (dtype == Dtype::f32) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  if (dtype == Dtype::i32) {
    std::int32_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return dtype == Dtype::bf16 ? bf16_to_float(bits) : half_to_float(bits);
}

// `value` must be a float value or is rounded to float first (double rounding does not matter to data recipes).
inline void store_element(Dtype dtype, void* base, std::int64_t index, double value) {
  auto* bytes = static_cast<std::byte*>(base) + static_cast<std::size_t>(index) * size_of(dtype);
  if (dtype == Dtype::f32) {
    const auto stored = static_cast<float>(value);
    std::memcpy(bytes, &stored, sizeof stored);
  } else if (dtype == Dtype::i32) {
    const auto stored = static_cast<std::int32_t>(value);
    std::memcpy(bytes, &stored, sizeof stored);
  } else {
    const auto narrow = static_cast<float>(value);
    const std::uint16_t stored = dtype == Dtype::bf16 ? float_to_bf16(narrow) : float_to_half(narrow);
    std::memcpy(bytes, &stored, sizeof stored);
  }
}

}  // namespace tileproof

#endif
