// A CPU's engines to convolve (conv2d_engines_cpu.h): each of them, and which one the rule takes.
#include <doctest/doctest.h>

#include "conv2d_problem.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
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
      for (const CpuEngine way : p.engines()) {
        CAPTURE(static_cast<int>(way));
        const bool winograd = cpu::winograd_tile(way).has_value() ||
                              (way == CpuEngine::kByLibrary && cpu::onednn_info().winograd);
        CHECK(relative_error(p.by(way, pass), expected) <= (winograd ? 2e-5 : 1e-5));
      }
    }
  }
}

}  // namespace

TEST_CASE("conv2d engines: each computes the convolution, in every pass and order") {
  for (const Conv2dCase& c : kConv2dCases) check_every_engine(c);
  for (const Conv2dCase& c : kLargeCases) check_every_engine(c);
}

TEST_CASE("conv2d engines: the rule goes by sizes and order of the images") {
  const auto rule = [](const Conv2dCase& c, MemoryFormat format) {
    return Problem(c, format).rule();
  };
  CHECK(rule(kBlock, kChannelsLast) == CpuEngine::kWinograd4);
  CHECK(rule(kLargeCases[4], kChannelsLast) == CpuEngine::kProducts);
  CHECK(rule(kLargeCases[6], kChannelsLast) == CpuEngine::kByLibrary);  // the stem
  CHECK(rule(kBlock, kContiguous) == CpuEngine::kByLibrary);
  const ExactScope exact(true);
  CHECK(rule(kBlock, kChannelsLast) == CpuEngine::kByLibrary);
}

TEST_CASE("conv2d engines: the op computes by the rule, in every pass") {
  for (const Conv2dCase& c : kLargeCases) {
    CAPTURE(c.name);
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Problem p(c, format);
      for (const ConvPass pass : kPasses) CHECK(bits(p.by_ops(pass)) == bits(p.by(p.rule(), pass)));
    }
  }
}
