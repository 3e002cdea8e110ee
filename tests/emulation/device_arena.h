// The memory of one emulated device; see cuda_runtime_emulation.h.
#pragma once

#include <cstddef>
#include <map>

namespace lathe::emulation {

/// An address range that the host cannot touch, cut into blocks first-fit. Not thread-safe.
class Arena {
 public:
  /// Reserves addresses; memory is taken where it is touched.   throws: std::bad_alloc.
  explicit Arena(size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A block of `bytes` > 0 that begins with 4 MiB of 0xA5 bytes, or null.
  void* allocate(size_t bytes);
  /// False: `block` is no live block.
  bool deallocate(void* block);
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
  std::map<size_t, size_t> live_;  // offset → size
};

}  // namespace lathe::emulation
