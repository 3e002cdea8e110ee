// Parameters of all floating dtypes in one model: gradients travel and states are divided as if each
// dtype were alone.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "lathe/distributed/data_parallel.h"
#include "lathe/distributed/zero_redundancy.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/optim/adam.h"
#include "parts.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

/// The dtypes in turn, so that no two neighbours have the same.
struct Mixed : nn::Module {
  Mixed() {
    for (const int64_t size : {5, 40, 1}) {
      for (const DType dtype : {kF64, kBF16, kF32, kF16}) {
        const Tensor values = full({size}, 0.5, {.dtype = dtype, .device = device()});
        parameter(concat("p", parameters().size()), values);
      }
    }
  }
  /// The gradient of parameter i is x·(i + 1) throughout.
  Tensor forward(const Tensor& x) override {
    Tensor loss = zeros({}, {.dtype = kF64, .device = x.device()});
    double i = 0;
    for (const Tensor& p : parameters()) loss = loss + sum(p.to(kF64)) * x * ++i;
    return loss;
  }
};

/// Three steps of data parallel training, with whole and with divided state.
std::string train(const GroupOptions& options) {
  ProcessGroup group(options);
  for (const std::optional<DType> compress : {std::optional<DType>(), std::optional(kBF16)}) {
    const DataParallelOptions small{
        .compress = compress, .first_bucket_bytes = 64, .bucket_bytes = 200};
    Mixed whole, divided;
    DistributedDataParallel first(group, whole, small), second(group, divided, small);
    optim::AdamW a(whole.parameters(), {.lr = 0.1}), b(divided.parameters(), {.lr = 0.1});
    const ZeroRedundancyOptimizer zero(group, b);
    for (int step = 0; step < 3; ++step) {
      a.zero_grad(), b.zero_grad();
      const Tensor x =
          full({}, 1.0 + static_cast<double>(group.rank()), {.dtype = kF64, .device = device()});
      first(x).backward(), second(x).backward();
      double i = 0;
      for (const Tensor& p : whole.parameters()) {
        const double mean = (1.0 + static_cast<double>(group.world_size())) / 2 * ++i;
        const Tensor g = p.grad();  // all of it is exact in 8 bits
        if (g.dtype() != p.dtype()) return concat("a gradient ", g, " of ", p);
        for (const double v : g.to_vector<double>())
          if (v != mean) return concat("gradient ", i, " of ", p, " is ", v, ", not ", mean);
      }
      std::vector<uint32_t> versions;
      for (const Tensor& p : divided.parameters()) versions.push_back(p.version());
      a.step(), b.step();
      i = 0;
      for (const Tensor& p : divided.parameters()) {
        if (p.version() == versions[static_cast<size_t>(i)])
          return concat("parameter ", i, " has changed, but not its version ", p.version());
        ++i;
      }
      if (values_of(divided.parameters()) != values_of(whole.parameters())) return "parameters";
    }
    const StateDict want = a.state_dict(), got = b.state_dict();
    for (const auto& [name, t] : want) {
      if (got.at(name).dtype() != t.dtype() || values_of({got.at(name)}) != values_of({t}))
        return name;
    }
  }
  return "the same";
}

}  // namespace

TEST_CASE("mixed dtypes: gradients are the means, and divided state changes no bit") {
  for (const int n : worlds({1, 2, 4})) {
    for (const std::string& result : Ranks(n, 60, train).results()) CHECK(result == "the same");
  }
}
