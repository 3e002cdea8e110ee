// Prints random programs with the library's numbers, for random_programs_torch_test.py:
//     random_programs FIRST_SEED COUNT
// A program is its lines, then "= " and the numbers of each entry of its log, then an empty line.
#include <cstdio>
#include <cstdlib>

#include "programs/generator.h"
#include "programs/interpreter.h"

using namespace lathe::programs;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: random_programs FIRST_SEED COUNT\n", stderr);
    return 2;
  }
  uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  for (int left = std::atoi(argv[2]); left > 0; ++seed) {
    const auto program = generate(seed, {.torch = true});
    if (!program) continue;
    --left;
    const Log log = run_lathe(*program);
    std::printf("# seed %llu\n%s", static_cast<unsigned long long>(seed), source(*program).c_str());
    for (const auto& entry : log.entries) {
      std::fputs("=", stdout);
      for (const double value : entry) std::printf(" %.17g", value);
      std::fputs("\n", stdout);
    }
    std::printf("%s\n", log.error.empty() ? "" : ("! " + log.error + "\n").c_str());
  }
}
