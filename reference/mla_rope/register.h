// The six operations of fused multi-latent attention rope.
#ifndef TILEPROOF_REFERENCE_MLA_ROPE_REGISTER_H
#define TILEPROOF_REFERENCE_MLA_ROPE_REGISTER_H

namespace tileproof {

// Registers them; call once.
void register_mla_rope();

}  // namespace tileproof

#endif
