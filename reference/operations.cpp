#include "operations.h"

#include "mla_rope/register.h"

namespace tileproof {

void register_all_operations() { register_mla_rope(); }

}  // namespace tileproof
