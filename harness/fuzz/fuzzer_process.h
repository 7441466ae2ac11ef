// libFuzzer in its fork mode, as a tree of processes of one process group.
#ifndef TILEPROOF_FUZZ_FUZZER_PROCESS_H
#define TILEPROOF_FUZZ_FUZZER_PROCESS_H

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace tileproof {

class FuzzerProcess {
 public:
  // `program`: the fuzz target. Nothing runs yet.
  FuzzerProcess(std::string program, std::string directory, int jobs, std::uint64_t seed, double timeout_seconds);
  ~FuzzerProcess();  // stops
  FuzzerProcess(const FuzzerProcess&) = delete;
  FuzzerProcess& operator=(const FuzzerProcess&) = delete;

  void start();  // throws EnvironmentError
  // Ends all its processes, and puts what they had found since they last told into the corpus.
  void stop();
  // False when it has ended; then `was_killed` says whether by somebody else.
  bool is_running();
  bool was_killed() const { return was_killed_; }

 private:
  [[noreturn]] void become() const;

  std::string program_;
  std::string directory_;
  int jobs_;
  std::uint64_t seed_;
  double timeout_seconds_;
  pid_t child_ = -1;
  int lifeline_[2] = {-1, -1};  // closed with this process: then the others end too
  std::uint64_t starts_ = 0;
  bool was_killed_ = false;
};

// What this process and those that it starts write from now on goes to libfuzzer.log.
void redirect_output(const std::string& directory);

// Moves what a run that was ended had found into the corpus, and throws away libFuzzer's own files.
void rescue_inputs(const std::string& directory);

}  // namespace tileproof

#endif
