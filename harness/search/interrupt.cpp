#include "search/interrupt.h"

#include <atomic>

namespace tileproof {

namespace {

std::atomic<int> noted{0};
std::atomic<int> count{0};
int scopes = 0;

void on_interrupt(int signal) {
  noted = signal;
  ++count;
}

}  // namespace

InterruptScope::InterruptScope() : outermost_(scopes++ == 0) {
  if (!outermost_) {
    return;
  }
  noted = 0;
  count = 0;
  for (std::size_t i = 0; i < old_.size(); ++i) {
    sigaction(kSignals[i], nullptr, &old_[i]);
    if (old_[i].sa_handler != SIG_IGN) {
      struct sigaction action {};
      action.sa_handler = on_interrupt;
      sigaction(kSignals[i], &action, nullptr);
    }
  }
}

InterruptScope::~InterruptScope() {
  --scopes;
  noted = outermost_ ? 0 : noted.load();
  for (std::size_t i = 0; outermost_ && i < old_.size(); ++i) {
    sigaction(kSignals[i], &old_[i], nullptr);
  }
}

int interrupted_by() { return noted; }
int interrupt_count() { return count; }

}  // namespace tileproof
