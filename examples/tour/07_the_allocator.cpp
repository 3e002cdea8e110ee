// Chapter 7: the caching allocator at work, over a device that is made up and that we can watch.
#include <lathe/core/memory/block_pool.h>

#include <cstdint>
#include <cstdio>

using lathe::BlockPool;

constexpr size_t KiB = 1 << 10, MiB = 1 << 20;

/// A device of 64 MiB. Its addresses are numbers that nobody reads or writes; what is queued on it
/// is done when `done` says so.
class Device final : public lathe::RawMemory {
 public:
  static constexpr uintptr_t kBase = 1 << 20;
  bool done = false;
  int calls = 0;  // of the slow function: a driver's
  uintptr_t next = kBase;

  void* allocate(size_t bytes) noexcept override {
    if (next + bytes > kBase + 64 * MiB) return nullptr;
    ++calls;
    std::printf("    the device gives %zu MiB\n", bytes / MiB);
    next += bytes;
    return reinterpret_cast<void*>(next - bytes);
  }
  void deallocate(void*) noexcept override { std::printf("    the device takes a segment back\n"); }
  lathe::EventHandle record(lathe::StreamHandle) noexcept override { return this; }
  void release(lathe::EventHandle) noexcept override {}
  bool query(lathe::EventHandle) noexcept override { return done; }
  bool synchronize() noexcept override { return done = true; }
  lathe::MemoryInfo mem_info() noexcept override { return {64 * MiB, 64 * MiB}; }
};

static void* take(BlockPool& pool, const char* name, size_t bytes, lathe::StreamHandle stream) {
  void* block = pool.allocate(bytes, stream);
  const size_t at = reinterpret_cast<uintptr_t>(block) - Device::kBase;
  std::printf("  %s: %zu bytes at %zu KiB\n", name, bytes, at / KiB);
  return block;
}

int main() {
  Device device;
  BlockPool pool(device);
  int one = 1, two = 2;  // two streams: only their addresses count
  std::printf("small requests share a segment, large ones share larger segments\n");
  void* a = take(pool, "a", 1000, &one);
  void* b = take(pool, "b", 1 * MiB, &one);
  void* big = take(pool, "big", 3 * MiB, &one);
  const lathe::BlockPoolStats stats = pool.stats();
  std::printf("  asked for %zu, given %zu, taken from the device %zu\n",
              stats.requested_bytes.current, stats.allocated_bytes.current,
              stats.reserved_bytes.current);

  std::printf("what was given back is used again at once by its own stream\n");
  pool.deallocate(b);
  void* c = take(pool, "c", 1 * MiB, &one);
  std::printf("another stream gets a segment of its own\n");
  void* d = take(pool, "d", 1 * MiB, &two);

  std::printf("a block that a second stream used waits for that stream\n");
  pool.record_stream(c, &two);
  pool.deallocate(c);
  void* e = take(pool, "e", 1 * MiB, &one);  // not in c's place
  void* f = take(pool, "f", 1 * MiB, &one);
  device.done = true;
  void* g = take(pool, "g", 1 * MiB, &one);  // stream two has gone by: in c's place

  std::printf("a training step asks for the same sizes again and again\n");
  for (int step = 0; step < 3; ++step) {
    void *x = pool.allocate(12 * MiB, &one), *y = pool.allocate(9 * MiB, &one);
    for (void* block : {x, y}) pool.deallocate(block);
    std::printf("  step %d: %d calls of the device so far\n", step, device.calls);
  }
  for (void* block : {a, big, d, e, f, g}) pool.deallocate(block);
  pool.empty_cache();
  std::printf("still taken: %zu MiB\n", pool.stats().reserved_bytes.current / MiB);
}
