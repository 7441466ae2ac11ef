// Signals that ask the process to end. Long work ends early with what it has, and says so.
#ifndef TILEPROOF_SEARCH_INTERRUPT_H
#define TILEPROOF_SEARCH_INTERRUPT_H

#include <array>
#include <csignal>

namespace tileproof {

// While one lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process. Signals that the caller had
// ignored stay so. The outermost one starts and ends with nothing noted; inside it, others change nothing.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  bool outermost_;
  std::array<struct sigaction, kSignals.size()> old_{};
};

int interrupted_by();   // the last such signal inside the outermost scope; 0: none
int interrupt_count();  // how many there were

}  // namespace tileproof

#endif
