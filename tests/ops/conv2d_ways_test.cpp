// A CPU's ways to convolve (conv2d_ways_cpu.h): each of them by name, and the list of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "conv2d_problem.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv/channel_moments_cpu.h"
#include "lathe/ops/conv/conv2d_passes_cpu.h"
#include "moments_error.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

void check_every_way(const Conv2dCase& c) {
  CAPTURE(c.name);
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Problem p(c, format);
    if (p.g.is_trivial()) continue;
    for (const ConvPass pass : kPasses) {
      CAPTURE(concat(pass));
      const Tensor expected = p.exact(pass);
      for (const ConvWay way : p.ways(pass)) {
        CAPTURE(std::string(name_of(way)));
        CHECK(relative_error(p.by(way, pass), expected) <= (is_winograd(way) ? 2e-5 : 1e-5));
      }
    }
  }
}

}  // namespace

TEST_CASE("conv2d ways: each computes the convolution, in every pass and order") {
  for (const Conv2dCase& c : kConv2dCases) check_every_way(c);
  for (const Conv2dCase& c : kLargeCases) check_every_way(c);
}

TEST_CASE("conv2d ways: those that the sizes admit, the rule's first") {
  const auto ways = [](const Conv2dCase& c, ConvPass pass, MemoryFormat format) {
    return Problem(c, format).ways(pass);
  };
  const auto has = [](const std::vector<ConvWay>& all, ConvWay way) {
    return std::ranges::find(all, way) != all.end();
  };
  for (const ConvPass pass : kPasses) {
    const auto block = ways(kBlock, pass, kChannelsLast);
    CHECK(block.front() == ConvWay::kWinograd4);
    CHECK(has(block, ConvWay::kWinograd2));
    CHECK(!has(block, ConvWay::kProducts));
    CHECK(block.back() == ConvWay::kIm2col);
    const auto strided = ways(kLargeCases[2], pass, kChannelsLast);
    CHECK(has(strided, ConvWay::kWinograd4));
    CHECK(!has(strided, ConvWay::kWinograd2));
    CHECK(ways(kLargeCases[4], pass, kChannelsLast).front() == ConvWay::kProducts);
    const auto rows = ways(kBlock, pass, kContiguous);
    CHECK(!has(rows, ConvWay::kWinograd4));
    CHECK(!has(rows, ConvWay::kDnnlDirect));
    const cpu::FastConv2dInfo info = cpu::fast_conv2d_info();
    const bool has_library = !info.library.empty() && info.problem.empty();
    CHECK(has(rows, ConvWay::kDnnlBlocks) == has_library);
    CHECK(has(block, ConvWay::kDnnlDirect) == has_library);
    CHECK(has(block, ConvWay::kDnnlWinograd) == info.winograd);
    for (const auto& all : {block, strided, rows}) {
      CHECK(std::set<ConvWay>(all.begin(), all.end()).size() == all.size());
      CHECK(!has(all, ConvWay::kByLibrary));
    }
    const ExactScope exact(true);
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      CHECK(std::ranges::none_of(ways(kBlock, pass, format), is_winograd));
    }
  }
}

TEST_CASE("channel moments: of a whole tensor they are the definition's") {
  manual_seed(9);
  for (const Shape& shape : {Shape{3, 17, 5, 7}, Shape{2, 130, 16, 16}, Shape{1, 1, 1, 1}}) {
    const Tensor y = (randn(shape) + 3.0).contiguous(kChannelsLast);
    CHECK(moments_error(cpu::channel_moments(y), y) <= 5e-6);
  }
}
