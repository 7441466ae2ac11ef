// tileproof bench: how many checks a second the harness does on the peer mix.
#ifndef TILEPROOF_APP_BENCH_H
#define TILEPROOF_APP_BENCH_H

#include <string>

namespace tileproof {

struct BenchArguments {
  std::string json;
  int jobs = 2;
  double seconds = 5;
};

int bench(const BenchArguments& arguments);

}  // namespace tileproof

#endif
