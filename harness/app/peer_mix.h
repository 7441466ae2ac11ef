// The peer mix: the shapes on which other harnesses were measured. A check is two launches under two block sizes, the
// oracle on one of them, the guards of both (one pattern each), and block_invariance.
#ifndef TILEPROOF_APP_PEER_MIX_H
#define TILEPROOF_APP_PEER_MIX_H

#include "memory/counter_random.h"
#include "tileproof/property.h"

namespace tileproof {

inline constexpr char kPeerOperation[] = "mla_rope_q_fwd";

// The next case of the mix.
Case peer_case(const Operation& operation, CounterStream& draw);

// Two launches under the case's two tilings, each over guards of its own pattern; the reference against the first.
const Property& peer_check();
// The same with both launches in the sanitizing build, and nothing reported.
const Property& sanitizing_peer_check();

}  // namespace tileproof

#endif
