// Assignment 9: the caching allocator, on the fake device.
#include "tiny/pool.h"

#include "points.h"

using namespace course;
using namespace tiny;

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

struct Bench {
  Device device{256 * kMiB};
  Pool pool{device};
  std::byte* take(size_t bytes, Stream stream = 0) {
    return static_cast<std::byte*>(pool.allocate(bytes, stream));
  }
};

int main() {
  Report report;
  report.test(2, "a block is cut to size, and the rest serves the next request", [] {
    Bench b;
    std::byte *first = b.take(1000), *second = b.take(3000);
    expect_equal("bytes from the first block to the second", second - first, std::ptrdiff_t{1024});
    expect_equal("bytes in use", b.pool.stats().used_bytes, size_t{1024 + 3072});
    expect_equal("calls of the device", b.device.calls(), size_t{1});
  });
  report.test(2, "the smallest free block that is large enough is taken", [] {
    Bench b;
    std::byte *large = b.take(4096), *between = b.take(512), *fits = b.take(1024),
              *end = b.take(512);
    b.pool.deallocate(large);
    b.pool.deallocate(fits);
    expect(b.take(1024) == fits, "1024 bytes did not get the free block of 1024");
    expect(b.take(1536) == large, "1536 bytes did not get the front of the free block of 4096");
    expect(between < fits && fits < end, "the blocks are not in order");
  });
  report.test(2, "a block that is given back joins the free one behind it", [] {
    Bench b;
    std::byte *one = b.take(512), *two = b.take(512);
    b.take(512);
    b.pool.deallocate(two);
    b.pool.deallocate(one);
    expect(b.take(1024) == one, "two free neighbours of 512 bytes do not serve 1024");
  });
  report.test(2, "a block that is given back joins the free one before it", [] {
    Bench b;
    std::byte *one = b.take(512), *two = b.take(512);
    b.take(512);
    b.pool.deallocate(one);
    b.pool.deallocate(two);
    expect(b.take(1024) == one, "two free neighbours of 512 bytes do not serve 1024");
  });
  report.test(2, "a block in use is no part of another", [] {
    Bench b;
    std::byte *one = b.take(512), *used = b.take(512);
    b.pool.deallocate(one);
    for (int i = 0; i < 3; ++i) {
      std::byte* more = b.take(1024);
      expect(more + 1024 <= used || used + 512 <= more, "a new block overlaps one in use");
    }
  });
  report.test(3, "a stream has its own segments, and takes back what it gave at once", [] {
    Bench b;
    std::byte* of_1 = b.take(1024, 1);
    b.pool.deallocate(of_1);
    expect(b.take(1024, 0) != of_1, "stream 0 got a block that kernels of stream 1 may still use");
    expect(b.take(1024, 1) == of_1, "stream 1 did not get its own block back");
  });
  report.test(1, "a large request gets no block of a small segment", [] {
    Bench b;
    std::byte *small = b.take(512), *large = b.take(2 * kMiB);
    expect(large + 2 * kMiB <= small || small + 2 * kMiB <= large,
           "2 MiB lie in the segment of 512 bytes");
  });
  report.test(3, "a block that a second stream uses waits for that stream", [] {
    Bench b;
    std::byte *first = b.take(kMiB), *second = b.take(kMiB);  // the segment is full
    b.device.launch(1, [] {});                                // reads `first`, later
    b.pool.record_stream(first, 1);
    b.pool.deallocate(first);
    std::byte* third = b.take(kMiB);
    expect(third != first, "a block was given out while stream 1 may still read it");
    b.device.run(1);
    std::byte* fourth = b.take(kMiB);  // the rest of the second segment
    expect(b.take(kMiB) == first, "the event has passed, and the block is not used again");
    expect(second != third && third != fourth, "one block was given out twice");
  });
  report.test(1, "a block that two streams use waits for both", [] {
    Bench b;
    std::byte* first = b.take(kMiB);
    b.take(kMiB);  // the segment is full
    for (const Stream stream : {1, 2}) {
      b.device.launch(stream, [] {});  // reads `first`, later
      b.pool.record_stream(first, stream);
    }
    b.pool.deallocate(first);
    b.device.run(1);
    expect(b.take(kMiB) != first, "a block was given out while stream 2 may still read it");
    b.device.run(2);
    b.take(kMiB);  // the rest of the second segment
    expect(b.take(kMiB) == first, "both events have passed, and the block is not used again");
  });
  report.test(1, "a block that is used again has no streams of its earlier life", [] {
    Bench b;
    std::byte* first = b.take(kMiB);
    b.take(kMiB);  // the segment is full
    b.device.launch(1, [] {});
    b.pool.record_stream(first, 1);
    b.pool.deallocate(first);
    b.device.run(1);
    expect(b.take(kMiB) == first, "the event has passed, and the block is not used again");
    b.device.launch(1, [] {});  // has nothing to do with the block
    b.pool.deallocate(first);
    expect(b.take(kMiB) == first,
           "the block waited for stream 1, which its second owner never named");
  });
  report.test(1, "of a large block a rest of up to 1 MiB stays in it", [] {
    Bench b;
    b.take(9 * kMiB + 512 * kKiB);
    b.take(9 * kMiB + 768 * kKiB);
    expect_equal("KiB in use of a segment of 20 MiB", b.pool.stats().used_bytes / kKiB, 20 * kKiB);
    expect_equal("calls of the device", b.device.calls(), size_t{1});
  });
  return report.done();
}
