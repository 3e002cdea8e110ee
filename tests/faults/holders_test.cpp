// The text about who holds the memory, where the host has none left for it.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "failing_calls.h"
#include "lathe/core/hooks/live_memory.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/storage.h"
#include "lathe/lathe.h"

namespace lathe {
namespace {

TEST_CASE("out of memory: without memory for the text the allocator's error stays") {
  profile::LiveMemory memory;
  const Tensor held = ones({1000});
  FaultPoint& by_new = test::new_fault();
  const auto fail_once = [](auto f) {
    const ArmedFault armed(host_allocator().fault(), 1);
    f();
  };
  by_new.count();
  fail_once([] { CHECK_THROWS_AS(host_allocator().allocate(40), OutOfMemoryError); });
  by_new.disarm();
  const int64_t own_calls = by_new.calls();  // of the allocator's error
  bool whole = false;
  for (int64_t call = own_calls + 1; !whole; ++call) {
    std::optional<std::string> said;
    fail_once([&] {
      by_new.fail_at(call, FaultPoint::kForever);
      try {
        const Storage made(40, kCPU);
      } catch (const OutOfMemoryError& e) {
        by_new.disarm();
        said = e.message();
      } catch (const std::bad_alloc&) {
      }
      by_new.disarm();
    });
    CAPTURE(call);
    REQUIRE(said.has_value());
    whole = said->find("; tensors hold: ") != said->npos;
    REQUIRE(call < own_calls + 10'000);
  }
}

TEST_CASE("LiveMemory: a tensor without memory for its record is counted") {
  profile::LiveMemory memory;
  CHECK(memory.table() == "0 tensors alive, 0 bytes\n");
  std::optional<Storage> unseen;
  const auto make = [&] {
    const ArmedFault armed(test::new_fault(), 1, FaultPoint::kForever);
    unseen.emplace(40, kCPU);
  };
  { const Storage warm(40, kCPU); }  // fills the allocator's cache
  make();
  CHECK(memory.table() ==
        "0 tensors alive, 0 bytes\n  and 1 object that found no memory for its record\n");
}

}  // namespace
}  // namespace lathe
