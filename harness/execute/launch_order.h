// In which order the CPU executor takes the threads of a block and the blocks of a grid.
#ifndef TILEPROOF_EXECUTE_LAUNCH_ORDER_H
#define TILEPROOF_EXECUTE_LAUNCH_ORDER_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/counter_random.h"
#include "tileproof/cuda_on_cpu.h"

namespace tileproof::cpu {

constexpr unsigned kMaxThreads = 1024;
constexpr std::uint64_t kMaxShuffledBlocks = std::uint64_t{1} << 24;  // a shuffled order is held in memory

struct Order {
  int kind = TILEPROOF_FORWARD;
  std::uint64_t seed = 0;  // 0 unless shuffled

  Order() = default;
  Order(int kind_, std::uint64_t seed_) : kind(kind_), seed(kind_ == TILEPROOF_SHUFFLED ? seed_ : 0) {}
  bool operator==(const Order&) const = default;
};

// Puts begin[0, count) into a random order that depends on seed and stream alone.
template <typename Iterator>
void shuffle(Iterator begin, std::uint64_t count, std::uint64_t seed, std::uint64_t stream) {
  CounterStream random(seed, stream);
  for (std::uint64_t i = count; i > 1; --i) {
    std::swap(begin[i - 1], begin[random.below(i)]);
  }
}

// The threads of a block in the order of their turns. Kept from launch to launch while nothing changes.
class ThreadOrder {
 public:
  struct Turn {
    uint3 index;
    std::uint32_t thread;  // linear index in the block
  };

  void prepare(dim3 block, Order order) {
    if (block.x == block_.x && block.y == block_.y && block.z == block_.z && order == order_) {
      return;
    }
    block_ = block;
    order_ = order;
    std::uint32_t count = 0;
    for (unsigned z = 0; z < block.z; ++z) {
      for (unsigned y = 0; y < block.y; ++y) {
        for (unsigned x = 0; x < block.x; ++x, ++count) {
          turns_[count] = {{x, y, z}, count};
        }
      }
    }
    if (order.kind == TILEPROOF_REVERSE) {
      std::reverse(turns_.begin(), turns_.begin() + count);
    } else if (order.kind == TILEPROOF_SHUFFLED) {
      shuffle(turns_.begin(), count, order.seed, 0);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      position_[turns_[i].thread] = i;
    }
  }

  const Turn& operator[](std::uint32_t position) const { return turns_[position]; }
  std::uint32_t position(std::uint32_t thread) const { return position_[thread]; }
  int kind() const { return order_.kind; }

 private:
  dim3 block_{0, 0, 0};
  Order order_;
  std::array<Turn, kMaxThreads> turns_{};
  std::array<std::uint32_t, kMaxThreads> position_{};
};

// The blocks of a grid, one after another.
class BlockOrder {
 public:
  // A shuffled order takes at most kMaxShuffledBlocks.
  void prepare(dim3 grid, Order order) {
    grid_ = grid;
    kind_ = order.kind;
    count_ = std::uint64_t{grid.x} * grid.y * grid.z;
    next_ = 0;
    if (kind_ != TILEPROOF_SHUFFLED) {
      return;
    }
    shuffled_.resize(count_);
    for (std::uint64_t i = 0; i < count_; ++i) {
      shuffled_[i] = static_cast<std::uint32_t>(i);
    }
    shuffle(shuffled_.begin(), count_, order.seed, 1);
  }

  // Sets blockIdx; false when none is left.
  bool advance() {
    if (next_ == count_) {
      return false;
    }
    std::uint64_t index = next_++;
    if (kind_ == TILEPROOF_REVERSE) {
      index = count_ - next_;
    } else if (kind_ == TILEPROOF_SHUFFLED) {
      index = shuffled_[index];
    }
    if (index < grid_.x) {  // divisions would be a good part of a short launch
      blockIdx = {static_cast<unsigned>(index), 0, 0};
    } else {
      blockIdx = {static_cast<unsigned>(index % grid_.x), static_cast<unsigned>(index / grid_.x % grid_.y),
                  static_cast<unsigned>(index / grid_.x / grid_.y)};
    }
    return true;
  }

 private:
  dim3 grid_;
  int kind_ = TILEPROOF_FORWARD;
  std::uint64_t count_ = 0;
  std::uint64_t next_ = 0;
  std::vector<std::uint32_t> shuffled_;
};

}  // namespace tileproof::cpu

#endif
