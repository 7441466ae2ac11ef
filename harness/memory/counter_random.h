// A counter-based generator: value i of stream s under seed k is a pure function of (k, s, i), the same bits on
// every compiler and machine. Integer arithmetic only; the mixing steps are those of splitmix64 (Steele, Lea, Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014).
#ifndef TILEPROOF_MEMORY_COUNTER_RANDOM_H
#define TILEPROOF_MEMORY_COUNTER_RANDOM_H

#include <cstdint>

namespace tileproof {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

constexpr std::uint64_t counter_hash(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix64(mix64(seed + 0x9e3779b97f4a7c15ULL * (stream + 1)) + 0x9e3779b97f4a7c15ULL * (index + 1));
}

// The 32-bit mixing step used per element where throughput counts (it vectorises without 64-bit multiplies).
// Constants found by hash prospecting (lowbias32, public domain).
constexpr std::uint32_t mix32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

// A stream of draws for generators: next() is counter_hash(seed, stream, 0), (.., 1), ...
class CounterStream {
 public:
  constexpr CounterStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  constexpr std::uint64_t next() { return counter_hash(seed_, stream_, index_++); }
  constexpr std::uint64_t below(std::uint64_t n) { return next() % n; }  // n > 0; bias below n / 2^64

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t index_ = 0;
};

}  // namespace tileproof

#endif
