// Fibers for the CPU executor: stacks that are kept for the life of the process, and jumps between them that the
// address sanitizer follows.
#ifndef TILEPROOF_EXECUTE_FIBER_H
#define TILEPROOF_EXECUTE_FIBER_H

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "execute/launch_limits.h"

#if defined(__SANITIZE_ADDRESS__)
#define TILEPROOF_ASAN_FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TILEPROOF_ASAN_FIBERS 1
#endif
#endif
#ifdef TILEPROOF_ASAN_FIBERS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tileproof::cpu {

struct Fiber {
  boost::context::detail::fcontext_t resume = nullptr;  // where it goes on; null: at its beginning
  const void* low = nullptr;                            // its stack, as the address sanitizer wants it
  std::size_t size = 0;
  char* top = nullptr;
};

// The fibers of one launch: the stack that launched, and any number of others that all begin with `entry`.
class Fibers {
 public:
  using Entry = void (*)(boost::context::detail::transfer_t);

  explicit Fibers(Entry entry) : entry_(entry) {}

  // A fiber at the beginning of `entry`, or parked inside it; null when there is no memory for one more.
  Fiber* take() {
    if (pool_.empty()) {
      return create();
    }
    Fiber* fiber = pool_.back();
    pool_.pop_back();
    return fiber;
  }

  // The running fiber may be taken from now on. It must switch away before anybody takes it.
  void park() { pool_.push_back(current_); }

  // A suspended fiber that nobody will resume: it begins anew.
  void abandon(Fiber* fiber) {
    fiber->resume = nullptr;
#ifdef TILEPROOF_ASAN_FIBERS
    __asan_unpoison_memory_region(fiber->low, fiber->size);
#endif
    pool_.push_back(fiber);
  }

  // Goes on in `to`; returns when somebody goes on here.
  void switch_to(Fiber* to) {
    Fiber* from = std::exchange(current_, to);
    if (to->resume == nullptr) {
      to->resume = boost::context::detail::make_fcontext(to->top, to->size, entry_);
    }
    void* fake_stack = nullptr;
#ifdef TILEPROOF_ASAN_FIBERS
    __sanitizer_start_switch_fiber(&fake_stack, to->low, to->size);
#endif
    arrive(boost::context::detail::jump_fcontext(to->resume, from), fake_stack);
  }

  // First thing in `entry`.
  static void arrive(boost::context::detail::transfer_t transfer, [[maybe_unused]] void* fake_stack = nullptr) {
    auto* from = static_cast<Fiber*>(transfer.data);
    from->resume = transfer.fctx;
#ifdef TILEPROOF_ASAN_FIBERS
    __sanitizer_finish_switch_fiber(fake_stack, &from->low, &from->size);
#endif
  }

  Fiber* current() const { return current_; }
  Fiber* launcher() { return &launcher_; }
  std::size_t created() const { return all_.size(); }

 private:
  Fiber* create() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return nullptr;
    }
    mprotect(memory, page, PROT_NONE);  // an overflowing stack faults
    Fiber* fiber = &all_.emplace_back();
    char* low = static_cast<char*>(memory) + page;
    // Tops at different offsets in a page, so that they do not all compete for one set of the first-level cache.
    fiber->top = low + kStackBytes - (all_.size() % 64) * 64;
    fiber->low = low;
    fiber->size = static_cast<std::size_t>(fiber->top - low);
    return fiber;
  }

  Entry entry_;
  Fiber launcher_;
  Fiber* current_ = &launcher_;
  std::deque<Fiber> all_;
  std::vector<Fiber*> pool_;
};

}  // namespace tileproof::cpu

#endif
