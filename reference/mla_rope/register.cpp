#include "mla_rope/register.h"

#include "mla_rope/rope_operation.h"

namespace tileproof {

void register_mla_rope() {
  register_operation(make_mla_rope_q_fwd());
  register_operation(make_mla_rope_q_bwd());
  register_operation(make_mla_rope_kv_split_fwd());
  register_operation(make_mla_rope_kv_split_bwd());
  register_operation(make_mla_rope_concat_fwd());
  register_operation(make_mla_rope_concat_bwd());
}

}  // namespace tileproof
