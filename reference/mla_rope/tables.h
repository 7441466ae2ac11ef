// What the cos and sin tables of a problem hold.
#ifndef TILEPROOF_REFERENCE_MLA_ROPE_TABLES_H
#define TILEPROOF_REFERENCE_MLA_ROPE_TABLES_H

#include "tileproof/operation.h"

namespace tileproof {

// Fills cos (or sin) [rows, emb_dim], packed and already of its size, by the parameter `tables` of the problem:
//
//   free   every entry on its own, so that the two halves of a row differ: whole numbers -2..2 on exact data, else
//          uniform in [-1.5, 1.5) with 24 bits before they are rounded to the table's type
//   yarn   real YaRN tables, rounded from double (the one recipe that rests on the math library of the machine)
//   turns  quarter turns, entries from {-1, 0, 1}, the halves of a row equal
//
// A row depends on the seed and its number only, not on how many rows there are.
void fill_table(const Problem& problem, bool is_cos, HostTensor& out);

}  // namespace tileproof

#endif
