// The peer mix: the shapes on which other harnesses were measured. A check is two launches under two block sizes, the
// oracle on one of them, the guards of both (one pattern each), and block_invariance.
#ifndef TILEPROOF_APP_PEER_MIX_H
#define TILEPROOF_APP_PEER_MIX_H

#include <vector>

#include "execute/subject.h"
#include "memory/arena.h"
#include "memory/counter_random.h"

namespace tileproof {

inline constexpr char kPeerOperation[] = "mla_rope_q_fwd";

// The next case of the mix.
Case peer_case(const Operation& operation, CounterStream& draw);

struct PeerTimes {
  double inputs = 0;     // seconds spent generating them
  double reference = 0;  // seconds spent in the reference and in judging against it
};

// Whether everything held. `inputs`: one element, reused from check to check.
bool peer_check_holds(Arena& arena, const Subject& subject, const Case& c, std::vector<HostTensors>& inputs,
                      PeerTimes& times);

}  // namespace tileproof

#endif
