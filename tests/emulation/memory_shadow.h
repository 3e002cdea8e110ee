// Who wrote and read device memory last, to find accesses that nothing orders (Watch::kRaces,
// kernel_access.h). Two accesses of the same bytes, one of them a write and not both atomic, are a
// race unless
// - their work is ordered (work_order.h), if it is two pieces of work;
// - both threads came to a barrier between them, in one block;
// - in two blocks of a launch: the first block made a fence and then an atomic operation on a
//   number, and the second block one on the same number after that.
// Forgets some accesses, so that a race may be missed; what it reports is one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "work_order.h"

namespace lathe::emulation {

/// A thread of a kernel, or a copy: then all of it is 0.
struct Accessor {
  uint32_t block = 0;
  uint16_t thread = 0, block_barriers = 0, warp_barriers = 0;
};

class MemoryShadow {
 public:
  /// The other side of a race.
  struct Finding {
    uint64_t work;
    void (*kernel)();  // null: a copy
    uint32_t block;
    uint16_t thread;
    bool writes, same_work;
    uint64_t stream;
  };

  /// What follows is done by this work, until the next call.
  void begin(const Work& work, void (*kernel)());
  /// An access, which is noted if it races with none.
  std::optional<Finding> access(uintptr_t at, size_t bytes, bool writes, bool atomic,
                                const Accessor& by);
  /// A block made a fence, or an atomic operation there.
  void fence(uint32_t block);
  void atomic(uint32_t block, uintptr_t at);
  /// Nobody has accessed anything.
  void clear();

 private:
  struct Visit {
    uint32_t work = 0;  // in works_; 0: none
    uint32_t time = 0;  // how many fences and atomic operations came before
    Accessor by;
    uint8_t mask = 0;  // of the bytes
    bool atomic = false;
  };
  struct Cell {  // of 4 bytes: the last write, the last read, and the last one of another thread
    Visit write, read, other_read;
  };
  static constexpr uintptr_t kCellBytes = 4, kPageBytes = 4096;
  static constexpr size_t kMostPages = 8192;  // of 60 KB; then it forgets all
  using Page = std::array<Cell, kPageBytes / kCellBytes>;
  struct Noted {
    uint64_t stream, number;
    void (*kernel)();
  };
  struct Sync {
    uint32_t block;
    uintptr_t at;  // 0: a fence
  };

  Cell& cell_at(uintptr_t at);
  static bool is_same(const Visit& a, const Visit& b);
  bool races(const Visit& before, const Visit& now) const;
  bool is_ordered(const Visit& before, const Visit& now) const;
  bool is_published(const Visit& before, uint32_t block) const;
  Finding finding(const Visit& other, const Visit& now, bool writes) const;

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t last_page_ = 0;
  Page* last_ = nullptr;
  std::vector<Noted> works_ = {{}};
  std::vector<Sync> syncs_;  // of the launch underway
  WorkSet before_;           // the work underway
};

}  // namespace lathe::emulation
