// A CPU's engines for convolutions (conv2d_engines_cpu.h): each of them, and that the op runs the one
// that is chosen. Which that is: conv2d_choice_test.cpp.
#include <doctest/doctest.h>

#include "conv2d_problem.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

void check_every_engine(const Conv2dCase& c) {
  CAPTURE(c.name);
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Problem p(c, format);
    if (p.g.is_trivial()) continue;
    for (const ConvPass pass : kPasses) {
      CAPTURE(static_cast<int>(pass));
      const Tensor expected = p.exact(pass);
      for (const CpuEngine engine : p.engines()) {
        CAPTURE(static_cast<int>(engine));
        const bool winograd =
            cpu::winograd_tile(engine).has_value() || engine == CpuEngine::kOneDnnWinograd;
        CHECK(relative_error(p.by(engine, pass), expected) <= (winograd ? 2e-5 : 1e-5));
      }
    }
  }
}

}  // namespace

TEST_CASE("conv2d engines: each computes the convolution, in every pass and order") {
  for (const Conv2dCase& c : kConv2dCases) check_every_engine(c);
  for (const Conv2dCase& c : kLargeCases) check_every_engine(c);
}

TEST_CASE("conv2d engines: the op runs the one that is chosen, in every pass") {
  for (const Conv2dCase& c : kLargeCases) {
    CAPTURE(c.name);
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Problem p(c, format);
      for (const ConvPass pass : kPasses)
        CHECK(bits(p.by_ops(pass)) == bits(p.by(p.chosen(pass), pass)));
    }
  }
}
