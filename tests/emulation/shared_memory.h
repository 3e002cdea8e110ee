// The shared memory of an emulated block. See cuda_emulation.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda_emulation.h"
#include "launch_limits.h"
#include "unseen.h"

namespace lathe::emulation {

/// Where the variables of the kernel that runs now are, in the memory of each of its blocks: the
/// dynamic one first, the others as threads come to them.
struct SharedLayout {
  static constexpr size_t kMostParts = 64;
  struct Part {
    const char* name;
    size_t offset, bytes;
  };
  uint64_t launch = 0;
  Part parts[kMostParts];
  size_t count = 0;
  size_t reach = 0;  // where the next part may begin
  size_t bytes = 0;  // what the parts take on a GPU
};
extern SharedLayout g_shared_layout;

/// Begins a launch.
void lay_out_shared(size_t dynamic_bytes);

class SharedMemory {
 public:
  /// Behind each part nobody writes.
  static constexpr size_t kGapBytes = 64;
  static constexpr size_t kRoomBytes =
      kMostSharedBytes + SharedLayout::kMostParts * (kGapBytes + 128);

  SharedMemory();

  LATHE_UNSEEN char* at(size_t offset) const { return bytes_ + offset; }
  /// All bytes 0xFF again, after the launch so far has used some.
  void poison();
  /// The same after writes to anywhere.
  void poison_all();
  /// The first part behind which something was written; null: none.
  const SharedLayout::Part* overrun() const;

 private:
  struct Free {
    void operator()(char* memory) const;
  };
  std::unique_ptr<char, Free> memory_;
  char* bytes_;
};

}  // namespace lathe::emulation
