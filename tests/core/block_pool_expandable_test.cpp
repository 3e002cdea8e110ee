// Expandable segments: growth in place, release of whole granules, and what happens when a part of
// it fails. Granules are 4 KiB here.
#include <string>
#include <vector>

#include "block_pool_fixture.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

char* bytes_at(void* block) { return static_cast<char*>(block); }

TEST_CASE("expandable segments: one range per stream and kind, mapped as it is needed") {
  PoolFixture f(expandable_options());
  char* first = bytes_at(f.take(20 * kKiB, kA));
  CHECK(f.memory.used_bytes() == 20 * kKiB);
  CHECK(f.take(10 * kKiB, kA) == first + 20 * kKiB);
  CHECK(f.memory.used_bytes() == 32 * kKiB);  // 2 KiB stay with the block: not worth a split
  CHECK(f.pool->stats().segments.current == 1);
  void* small = f.take(100, kA);
  void* other = f.take(10 * kKiB, kB);
  CHECK(f.pool->stats().segments.current == 3);
  f.give(first);
  f.give(first + 20 * kKiB);
  char* grown = bytes_at(f.take(100 * kKiB, kA));
  CHECK(grown == first);  // the free block at the end grew by 68 KiB
  CHECK(f.memory.used_bytes() == (100 + 4 + 12) * kKiB);
  CHECK(f.calls("allocate") == 0);
  for (void* block : {static_cast<void*>(grown), small, other}) f.give(block);
}

TEST_CASE("expandable segments: whole granules inside a segment in use go back, and come back") {
  PoolFixture f(expandable_options());
  char* first = bytes_at(f.take(20 * kKiB, kA));
  char* middle = bytes_at(f.take(41 * kKiB, kA));  // 44 KiB mapped, 3 KiB of them kept as rest
  char* last = bytes_at(f.take(20 * kKiB, kA));
  f.give(middle);
  f.pool->empty_cache();
  f.check();
  CHECK(f.memory.used_bytes() == 40 * kKiB);
  CHECK(f.pool->stats().reserved_bytes.current == 40 * kKiB);
  CHECK(f.take(30 * kKiB, kA) == middle);
  CHECK(f.memory.used_bytes() == 72 * kKiB);
  for (char* block : {first, middle, last}) f.give(block);
  f.pool->empty_cache();
  CHECK(f.memory.reserved_address_bytes() == 0);
}

TEST_CASE("expandable segments: parts of granules at the edges of a free block stay") {
  BlockPoolOptions options = expandable_options();
  options.small_request = 0;  // everything is large, and splits by 512 bytes
  PoolFixture f(options);
  char* a = bytes_at(f.take(5 * kKiB, kA));
  char* b = bytes_at(f.take(9 * kKiB, kA));
  char* c = bytes_at(f.take(1 * kKiB, kA));
  CHECK(b == a + 5 * kKiB);
  CHECK(c == b + 9 * kKiB);  // 15 of 16 KiB
  f.give(b);                 // 5..14 KiB: one whole granule, 8..12
  f.pool->empty_cache();
  f.check();
  CHECK(f.memory.used_bytes() == 12 * kKiB);
  CHECK(BlockPoolInspector::table_size(*f.pool) == 7);
  CHECK(f.take(2 * kKiB + 512, kA) == b);  // the head, 3 KiB
  f.give(b);
  CHECK(f.take(7 * kKiB, kA) == b);  // head and the granule, mapped again
  CHECK(f.memory.used_bytes() == 16 * kKiB);
  for (char* block : {a, b, c}) f.give(block);
}

TEST_CASE("expandable segments: a part that cannot be mapped is rolled back (pytorch#188008)") {
  for (int64_t n = 1; n <= 21; ++n) {  // reserve, then create and map for each of 10 granules
    PoolFixture f(expandable_options());
    void* small = f.take(100, kB);
    const size_t used = f.memory.used_bytes(), ranges = f.memory.reserved_address_bytes();
    const std::string before = BlockPoolInspector::layout(*f.pool);
    f.memory.fault().fail_at(n, FaultPoint::kForever);
    CHECK_THROWS_AS(f.pool->allocate(40 * kKiB, kA), OutOfMemoryError);
    f.memory.fault().disarm();
    CHECK(f.memory.used_bytes() == used);
    CHECK(f.memory.reserved_address_bytes() == ranges);
    CHECK(BlockPoolInspector::layout(*f.pool) == before);
    f.check();
    void* block = f.take(40 * kKiB, kA);
    f.give(block);
    f.give(small);
  }
}

TEST_CASE("expandable segments: one that cannot grow is as before, even in a capture") {
  PoolFixture f(expandable_options(), 64 * kKiB);
  char* first = bytes_at(f.take(40 * kKiB, kB));
  {
    const PrivatePoolScope scope(
        *f.pool, 1, [](StreamHandle s) { return s == kB; }, kB);
    f.memory.begin_capture(kB);
    const std::string before = BlockPoolInspector::layout(*f.pool);
    CHECK_THROWS_AS(f.pool->allocate(40 * kKiB, kB), OutOfMemoryError);  // fails half-way
    CHECK(BlockPoolInspector::layout(*f.pool) == before);
    f.give(f.take(20 * kKiB, kB));
    f.memory.end_capture(kB);
  }
  f.pool->release_pool(1);
  f.give(first);
}

TEST_CASE("expandable segments: memory is unmapped only when no stream works on it") {
  PoolFixture f(expandable_options(), 128 * kKiB);
  void* block = f.take(100 * kKiB, kA);  // its kernel has not run
  f.give(block);
  f.pool->empty_cache();  // the fake notes work on what is unmapped
  CHECK(f.calls("synchronize") == 1);
  block = f.take(100 * kKiB, kA);
  f.give(block);
  void* other = f.take(100 * kKiB, kB);  // the ladder does the same
  CHECK(f.calls("synchronize") == 2);
  f.give(other);
}

TEST_CASE("expandable segments: when the device cannot be waited for, nothing is unmapped") {
  PoolFixture f(expandable_options(), 128 * kKiB);
  f.give(f.take(100 * kKiB, kA));
  f.memory.fault().fail_at(1, FaultPoint::kForever);
  f.pool->empty_cache();
  CHECK(f.calls("unmap") == 0);
  f.memory.fault().disarm();
  f.pool->empty_cache();
  CHECK(f.memory.used_bytes() == 0);
}

TEST_CASE("expandable segments: mapped and unmapped neighbours never merge") {
  PoolFixture f(expandable_options());
  char* a = bytes_at(f.take(8 * kKiB, kA));
  char* b = bytes_at(f.take(8 * kKiB, kA));
  f.give(a);
  f.pool->empty_cache();  // unmapped before b
  f.give(b);              // free between two unmapped blocks
  f.check();
  CHECK(BlockPoolInspector::table_size(*f.pool) == 3);
  CHECK(f.take(6 * kKiB, kA) == b);
  f.give(b);
  CHECK(f.take(16 * kKiB, kA) == b);  // grows behind b, not into the hole before it
  f.give(b);
}

TEST_CASE("expandable segments: the limit counts what is mapped") {
  PoolFixture f(expandable_options());
  f.pool->set_limit(64 * kKiB);
  void* block = f.take(40 * kKiB, kA);
  CHECK_THROWS_AS(f.pool->allocate(28 * kKiB, kA), OutOfMemoryError);
  f.give(f.take(24 * kKiB, kA));
  f.give(block);
}

TEST_CASE("expandable segments: a request beyond the range is out of memory") {
  PoolFixture f(expandable_options());
  CHECK_THROWS_AS(f.pool->allocate(size_t{1} << 40, kA), OutOfMemoryError);
  CHECK(f.calls("reserve") == 0);
}

}  // namespace
}  // namespace lathe
