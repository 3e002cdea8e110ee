// A build without Gloo: one process is a world, several are refused with the reason.
#include <doctest/doctest.h>

#include "lathe/distributed/process_group.h"
#include "lathe/ops/creation.h"

using namespace lathe;
using namespace lathe::distributed;

TEST_CASE("without Gloo, a world of two is refused and a world of one works") {
  CHECK(!is_available());
  GroupOptions options;
  ProcessGroup alone(options);
  const Tensor t = ones({3});
  alone.all_reduce_(t).wait();
  CHECK(t.sum().item<double>() == 3);
  options.world_size = 2;
  CHECK_THROWS_WITH_AS(ProcessGroup{options},
                       doctest::Contains("this build holds no Gloo, which 2 ranks need"),
                       DistributedError);
}
