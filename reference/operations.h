// Every operation this project ships.
#ifndef TILEPROOF_REFERENCE_OPERATIONS_H
#define TILEPROOF_REFERENCE_OPERATIONS_H

namespace tileproof {

// Registers all operations; call once.
void register_all_operations();

}  // namespace tileproof

#endif
