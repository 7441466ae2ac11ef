// corpus/models.cases as it was when the program was built.
#ifndef TILEPROOF_APP_SHIPPED_RECIPES_H
#define TILEPROOF_APP_SHIPPED_RECIPES_H

#include <string_view>

namespace tileproof {

std::string_view shipped_recipes();

}  // namespace tileproof

#endif
