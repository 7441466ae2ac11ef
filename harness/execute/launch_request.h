// What a subject is given for one launch through the plug-in ABI.
#ifndef TILEPROOF_EXECUTE_LAUNCH_REQUEST_H
#define TILEPROOF_EXECUTE_LAUNCH_REQUEST_H

#include <array>
#include <utility>
#include <vector>

#include "execute/subject.h"
#include "memory/arena.h"
#include "tileproof/property.h"

namespace tileproof {

class LaunchRequest {
 public:
  // `tensors` and what they point to outlive the request. `stream` and `device`: of a cuda subject.
  LaunchRequest(const Problem& problem, const Tiling& tiling, const std::vector<Placed>& tensors,
                void* stream = nullptr, int device = 0);
  LaunchRequest(const LaunchRequest&) = delete;
  LaunchRequest& operator=(const LaunchRequest&) = delete;

  // Launches, and writes status and message into `result`.
  void submit(const tileproof_subject& build, RunResult& result);

 private:
  std::vector<tileproof_tensor> tensors_;
  std::vector<tileproof_named_value> scalars_;
  std::vector<tileproof_named_value> tiling_;
  std::array<char, 512> message_{};
  tileproof_launch request_{};
};

// The guards of a run under this tiling hold as many rows as its largest tile.
std::int64_t overrun_rows(const Tiling& tiling);

}  // namespace tileproof

#endif
