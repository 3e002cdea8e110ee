// tiny's allocator: the addresses of Lathe's for the same requests, and the rule of streams seen at work.
#include <doctest/doctest.h>

#include <map>

#include "../../tiny/pool.h"
#include "lathe/core/memory/block_pool.h"
#include "lathe/data/random.h"

namespace lathe::test {
namespace {

/// tiny's fake device as Lathe's pool sees a device. Streams are numbers, as pointers.
class Adapter final : public RawMemory {
 public:
  explicit Adapter(tiny::Device& device) : device_(device) {}
  static StreamHandle handle(tiny::Stream stream) {
    return reinterpret_cast<StreamHandle>(intptr_t{stream});
  }

  void* allocate(size_t bytes) noexcept override { return device_.take(bytes); }
  void deallocate(void* block) noexcept override {
    device_.give_back(static_cast<std::byte*>(block));
  }
  EventHandle record(StreamHandle stream) noexcept override {
    events_[++next_] =
        device_.record(static_cast<tiny::Stream>(reinterpret_cast<intptr_t>(stream)));
    return reinterpret_cast<EventHandle>(next_);
  }
  void release(EventHandle event) noexcept override {
    events_.erase(reinterpret_cast<intptr_t>(event));
  }
  bool query(EventHandle event) noexcept override {
    return device_.has_passed(events_.at(reinterpret_cast<intptr_t>(event)));
  }
  bool synchronize() noexcept override {
    device_.synchronize();
    return true;
  }
  MemoryInfo mem_info() noexcept override { return {}; }

 private:
  tiny::Device& device_;
  std::map<intptr_t, tiny::Event> events_;
  intptr_t next_ = 0;
};

constexpr size_t kGiB = size_t{1} << 30;

TEST_CASE("tiny: the pool gives Lathe's addresses, with as many calls of the device") {
  tiny::Device device(kGiB), their_device(kGiB);
  Adapter memory(their_device);
  tiny::Pool ours(device);
  BlockPool theirs(memory);
  // Both devices give the lowest address first: places are counted from there.
  std::vector<std::pair<void*, void*>> live{{ours.allocate(1), theirs.allocate(1, nullptr)}};
  const auto [base, their_base] = live.front();
  const auto place = [](const void* address, const void* from) {
    return static_cast<const std::byte*>(address) - static_cast<const std::byte*>(from);
  };
  data::Random random(1, 0, 0, 0);
  const auto pick = [&](size_t n) { return static_cast<tiny::Stream>(random.below(n)); };
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const int what = pick(10);
    if (what < 5 && live.size() < 60) {
      const size_t bytes = 1 + random.below(size_t{1} << (4 + random.below(20)));  // up to 8 MiB
      const size_t size = random.below(20) == 0 ? 3 * bytes : bytes;
      const tiny::Stream stream = pick(2);
      live.emplace_back(ours.allocate(size, stream),
                        theirs.allocate(size, Adapter::handle(stream)));
      REQUIRE(place(live.back().first, base) == place(live.back().second, their_base));
    } else if (what < 8 && !live.empty()) {
      std::swap(live[random.below(live.size())], live.back());
      if (random.below(3) == 0) {
        ours.record_stream(live.back().first, 2);
        theirs.record_stream(live.back().second, Adapter::handle(2));
      }
      ours.deallocate(live.back().first);
      theirs.deallocate(live.back().second);
      live.pop_back();
    } else if (what == 8) {
      device.launch(2, [] {});
      their_device.launch(2, [] {});
    } else if (random.below(4) == 0) {
      device.run(2);
      their_device.run(2);
    }
    REQUIRE(device.calls() == their_device.calls());
    REQUIRE(ours.stats().reserved_bytes == theirs.stats().reserved_bytes.current);
  }
  for (const auto& [a, b] : live) {
    ours.deallocate(a);
    theirs.deallocate(b);
  }
  ours.empty_cache();
  theirs.empty_cache();
  CHECK(ours.stats().reserved_bytes == 0);
  CHECK(theirs.stats().reserved_bytes.current == 0);
}

TEST_CASE(
    "tiny: a stream reuses its own block at once, and the old kernel has still read what it "
    "should") {
  tiny::Device device(kGiB);
  tiny::Pool pool(device);
  int seen = 0;
  auto* a = static_cast<int*>(pool.allocate(4));
  device.launch(0, [=] { *a = 1; });
  device.launch(0, [=, &seen] { seen = *a; });
  pool.deallocate(a);
  auto* b = static_cast<int*>(pool.allocate(4));
  CHECK(a == b);
  device.launch(0, [=] { *b = 2; });
  device.synchronize();
  CHECK(seen == 1);
  pool.deallocate(b);
}

TEST_CASE("tiny: a block that another stream uses waits for that stream's work until then") {
  tiny::Device device(kGiB);
  tiny::Pool pool(device);
  int seen = 0;
  auto* a = static_cast<int*>(pool.allocate(4));
  device.launch(0, [=] { *a = 1; });
  device.run(0);
  device.launch(1, [=, &seen] { seen = *a; });  // stream 1 reads later
  pool.record_stream(a, 1);
  pool.deallocate(a);
  auto* b = static_cast<int*>(pool.allocate(4));
  CHECK(a != b);
  device.launch(0, [=] { *b = 2; });
  device.run(0);  // before stream 1
  device.run(1);
  CHECK(seen == 1);
  void* rest = pool.allocate((2 << 20) - 1024);  // all that the segment has left, without a
  CHECK(device.calls() == 2);                    // larger than 1 MiB: a segment for large requests
  void* half = pool.allocate(1 << 20);
  void* other = pool.allocate((1 << 20) - 1024);
  CHECK(pool.allocate(512) == a);  // nothing else is left, and the event has passed
  for (void* block : {static_cast<void*>(a), static_cast<void*>(b), rest, half, other})
    pool.deallocate(block);
}

TEST_CASE("tiny: before it gives segments back, the pool waits for the blocks of other streams") {
  tiny::Device device(size_t{22} << 20);
  tiny::Pool pool(device);
  void* a = pool.allocate(size_t{15} << 20);
  device.launch(1, [] {});
  pool.record_stream(a, 1);
  pool.deallocate(a);
  CHECK(pool.allocate(size_t{15} << 20) == a);
  CHECK(device.calls() == 2);  // the segment, and the second one that the device did not have
  pool.deallocate(a);
}

TEST_CASE("tiny: the pool splits, merges, and says what it cannot do") {
  tiny::Device device(size_t{22} << 20);
  tiny::Pool pool(device);
  void* a = pool.allocate(1000);
  void* b = pool.allocate(1000);
  CHECK(static_cast<std::byte*>(b) - static_cast<std::byte*>(a) == 1024);
  CHECK(pool.stats().used_bytes == 2048);
  pool.deallocate(a);
  pool.deallocate(b);
  CHECK(pool.allocate(1 << 20) == a);  // the two and the rest are one block again
  CHECK(pool.allocate(0) == nullptr);
  pool.deallocate(nullptr);
  CHECK_THROWS_AS(pool.deallocate(b), tiny::ValueError);
  CHECK_THROWS_AS(pool.record_stream(b, 1), tiny::ValueError);
  CHECK_THROWS_AS(pool.allocate(size_t{21} << 20), tiny::OutOfMemoryError);
  pool.deallocate(a);
  void* all = pool.allocate(size_t{21} << 20);  // fits when the small segment is given back
  CHECK(pool.stats().reserved_bytes == size_t{22} << 20);
  pool.deallocate(all);
}

}  // namespace
}  // namespace lathe::test
