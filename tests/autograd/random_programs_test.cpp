// Random programs of views, in-place writes, ops and gradients: the library's numbers against the
// same program without views and in-place writes (programs/reference.h), exactly.
// random_programs_torch_test.py holds some of them against PyTorch.
#include <doctest/doctest.h>

#include <cstdlib>

#include "lathe/core/config.h"
#include "programs/generator.h"

using namespace lathe::programs;

namespace {
#if defined(LATHE_ASAN) || defined(LATHE_TSAN)
constexpr uint64_t kPrograms = 1000;
#else
constexpr uint64_t kPrograms = 20000;
#endif
constexpr uint64_t kFirstSeed = 1;
}  // namespace

TEST_CASE("random programs: values and gradients are those of the program without views") {
  // LATHE_PROGRAMS=20000 asks for as many under a sanitizer too.
  const char* asked = std::getenv("LATHE_PROGRAMS");
  const uint64_t programs = asked == nullptr ? kPrograms : std::strtoull(asked, nullptr, 10);
  uint64_t checked = 0, refused = 0, failed = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + programs && failed < 3; ++seed) {
    const auto program = generate(seed);
    if (!program) continue;
    const Verdict verdict = check(*program);
    ++checked;
    refused += verdict.refused ? 1 : 0;
    if (verdict.wrong.empty()) continue;
    ++failed;
    const Program smallest = smallest_failing(*program);
    MESSAGE("seed ", seed, ": ", verdict.wrong, "\nthe smallest part that fails:\n",
            source(smallest), check(smallest).wrong);
  }
  MESSAGE(checked, " programs checked, ", refused, " refused");
  CHECK(failed == 0);
  // The rest grew too large, or had nothing to differentiate.
  CHECK(checked * 10 >= programs * 8);
  CHECK(refused * 10 <= checked);
}
