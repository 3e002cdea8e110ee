// Who wrote and read each byte of a block's shared memory. See kernel_access.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lathe::emulation {

/// A thread of a block, and how many barriers it has come to.
struct Visitor {
  unsigned thread, block_barriers, warp_barriers;
};

class SharedShadow {
 public:
  enum class Fault { kNone, kNeverWritten, kRace };
  struct Finding {
    Fault fault = Fault::kNone;
    unsigned other = 0;         // the thread that it races with
    bool other_writes = false;  // else it reads
  };
  /// An access of the bytes from `offset` on, which is noted.
  Finding read(size_t offset, size_t bytes, const Visitor& visitor);
  /// `atomic`: does not race with other atomic operations.
  Finding write(size_t offset, size_t bytes, const Visitor& visitor, bool atomic = false);
  /// Nobody has written or read anything.
  void clear();

 private:
  struct Visit {
    unsigned thread = 0;  // 1 is the block's thread 0; 0: none
    unsigned block_barriers = 0, warp_barriers = 0;
  };
  struct Byte {
    Visit write, read;          // the last ones
    bool atomic = false;        // the last write
    bool many_threads = false;  // more than one has read since the last barrier
    bool many_warps = false;
  };
  static bool is_ordered(const Visit& before, const Visitor& now);
  Byte* bytes_at(size_t offset, size_t bytes);

  std::vector<Byte> bytes_;  // up to where the block came
};

}  // namespace lathe::emulation
