// The bytes of a packed tensor: their own, or borrowed from memory of somebody else who keeps it while they are read.
// Copies own what they hold, and what is borrowed is copied before it is written.
#ifndef TILEPROOF_BYTES_H
#define TILEPROOF_BYTES_H

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tileproof {

class Bytes {
 public:
  Bytes() = default;
  Bytes(const std::vector<std::byte>& from) {
    assign(from.data(), from.size());
  }  // NOLINT(google-explicit-constructor)
  static Bytes borrow(const std::byte* from, std::size_t count) {
    Bytes bytes;
    bytes.borrowed_ = from;
    bytes.size_ = count;
    return bytes;
  }
  Bytes(const Bytes& other) { assign(other.data(), other.size()); }
  Bytes(Bytes&& other) noexcept { swap(other); }
  Bytes& operator=(const Bytes& other) {
    if (this != &other) {
      assign(other.data(), other.size());
    }
    return *this;
  }
  Bytes& operator=(Bytes&& other) noexcept {
    Bytes taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Bytes() = default;
  void swap(Bytes& other) noexcept {
    std::swap(own_, other.own_);
    std::swap(capacity_, other.capacity_);
    std::swap(size_, other.size_);
    std::swap(borrowed_, other.borrowed_);
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::byte* data() const { return borrowed_ != nullptr ? borrowed_ : own_.get(); }
  const std::byte* begin() const { return data(); }
  const std::byte* end() const { return data() + size_; }
  std::byte* data() {
    if (borrowed_ != nullptr) {
      assign(borrowed_, size_);
    }
    return own_.get();
  }
  std::byte* begin() { return data(); }
  std::byte* end() { return data() + size_; }
  std::byte& operator[](std::size_t index) { return data()[index]; }

  void clear() {
    borrowed_ = nullptr;
    size_ = 0;
  }
  // Keeps allocations, and what was there; bytes that are new hold anything.
  void resize(std::size_t count) {
    const std::byte* const old = data();
    if (count > capacity_) {
      std::unique_ptr<std::byte[]> grown(new std::byte[count]);  // not make_unique, which would clear it
      if (size_ > 0) {
        std::memcpy(grown.get(), old, size_);
      }
      own_ = std::move(grown);
      capacity_ = count;
    }
    size_ = count;
  }
  void assign(const std::byte* from, std::size_t count) {
    clear();
    resize(count);
    if (count > 0) {
      std::memcpy(own_.get(), from, count);
    }
  }

  friend bool operator==(const Bytes& a, const Bytes& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
  }

 private:
  std::unique_ptr<std::byte[]> own_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  const std::byte* borrowed_ = nullptr;
};

}  // namespace tileproof

#endif
