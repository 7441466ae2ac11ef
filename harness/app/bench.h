// tileproof bench: how many checks a second the harness does on the peer mix.
#ifndef TILEPROOF_APP_BENCH_H
#define TILEPROOF_APP_BENCH_H

#include <string>

namespace tileproof {

struct BenchArguments {
  std::string json;
  std::string device = "cpu";
  int jobs = 0;  // processes, on a GPU threads; 0: 2, on a GPU two per core
  double seconds = 5;
};

int bench(const BenchArguments& arguments);

}  // namespace tileproof

#endif
