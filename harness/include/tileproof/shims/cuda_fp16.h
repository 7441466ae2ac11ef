// __half on the host: 2 bytes, converted to and from float with rounding to nearest, ties to even.
#ifndef TILEPROOF_SHIMS_CUDA_FP16_H
#define TILEPROOF_SHIMS_CUDA_FP16_H

#include "tileproof/cuda_on_cpu.h"

inline namespace TILEPROOF_CPU_FLAVOUR {

struct __half {
  std::uint16_t bits;
  __half() = default;  // without a value, as on a GPU
  __half(float value);
  operator float() const;
};

inline float __half2float(__half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = value.bits & 0x3ffU;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xffU : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

inline __half __float2half_rn(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t result = 0;
  if (magnitude > 0x7f800000U) {
    result = 0x7fffU;  // the canonical NaN, as the hardware gives it
  } else if (magnitude >= 0x477ff000U) {
    result = sign | 0x7c00U;  // rounds to 65536 or more
  } else if (magnitude < 0x38800000U) {
    // Below 2^-14: adding 0.5 aligns the subnormal grid of 2^-24 with the last bit of a float.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    result = sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U);
  } else {
    result = sign | ((magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13);
  }
  __half half;
  half.bits = static_cast<std::uint16_t>(result);
  return half;
}
inline __half __float2half(float value) { return __float2half_rn(value); }
inline __half::__half(float value) : bits(__float2half_rn(value).bits) {}
inline __half::operator float() const { return __half2float(*this); }

// Of two values in float, rounded once more: the same as rounding the exact result once, since float has more than
// twice the digits.
inline __half operator+(__half a, __half b) { return __half(float(a) + float(b)); }
inline __half operator-(__half a, __half b) { return __half(float(a) - float(b)); }
inline __half operator*(__half a, __half b) { return __half(float(a) * float(b)); }
inline __half operator/(__half a, __half b) { return __half(float(a) / float(b)); }
inline __half& operator+=(__half& a, __half b) { return a = a + b; }
inline __half& operator-=(__half& a, __half b) { return a = a - b; }
inline __half& operator*=(__half& a, __half b) { return a = a * b; }
inline __half __hadd(__half a, __half b) { return a + b; }
inline __half __hsub(__half a, __half b) { return a - b; }
inline __half __hmul(__half a, __half b) { return a * b; }
inline __half __hneg(__half a) {
  a.bits ^= 0x8000U;
  return a;
}
inline __half operator-(__half a) { return __hneg(a); }

inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.bits = bits;
  return value;
}

struct alignas(4) __half2 {
  __half x, y;
};
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline float2 __half22float2(__half2 pair) { return {__half2float(pair.x), __half2float(pair.y)}; }

}  // namespace TILEPROOF_CPU_FLAVOUR

#endif
