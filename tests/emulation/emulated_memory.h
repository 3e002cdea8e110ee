// The memory of one emulated device; see cuda_runtime_emulation.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace lathe::emulation {

/// An address range that the host cannot touch, cut into blocks first-fit. Not thread-safe.
class EmulatedMemory {
 public:
  /// Reserves addresses; memory is taken where it is touched.   throws: std::bad_alloc.
  explicit EmulatedMemory(size_t bytes);
  ~EmulatedMemory();
  EmulatedMemory(const EmulatedMemory&) = delete;
  EmulatedMemory& operator=(const EmulatedMemory&) = delete;

  /// A block of `bytes` > 0 that begins with 4 MiB of 0xA5 bytes, or null.
  void* allocate(size_t bytes);
  /// False: `block` is no live block.
  bool deallocate(void* block);
  /// The live block that holds `memory`: where it begins and how many bytes it has; null: none.
  std::pair<const void*, size_t> block_of(const void* memory) const;
  /// The number of the block that holds `memory`: each has its own, 0 is none.
  uint64_t birth_of(const void* memory) const;
  /// Whether it would be in a block if there were one.
  bool owns(const void* memory) const;
  /// Do all of these bytes lie in one live block?
  bool holds(const void* memory, size_t bytes) const;

  /// Between these, which nest, the memory can be touched.
  void open();
  void close();

  size_t live_bytes() const { return live_bytes_; }
  size_t bytes() const { return bytes_; }

 private:
  void protect(int access);

  size_t bytes_, reached_ = 0;  // whole pages up to here hold blocks, or did
  size_t live_bytes_ = 0;
  int depth_ = 0;
  char *mapped_ = nullptr, *start_ = nullptr;
  struct Live {
    size_t bytes;
    uint64_t birth;
  };
  std::map<size_t, Live> live_;  // by offset
  uint64_t births_ = 0;
};

}  // namespace lathe::emulation
