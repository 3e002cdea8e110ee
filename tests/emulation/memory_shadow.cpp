// See memory_shadow.h.
#include "memory_shadow.h"

namespace lathe::emulation {
namespace {

constexpr uint16_t kWarp = 32;

bool same_thread(const Accessor& a, const Accessor& b) {
  return a.block == b.block && a.thread == b.thread;
}

}  // namespace

void MemoryShadow::begin(const Work& work, void (*kernel)()) {
  works_.push_back({work.stream, work.number, kernel});
  before_ = work.before;
  syncs_.clear();
}

void MemoryShadow::fence(uint32_t block) { syncs_.push_back({block, 0}); }
void MemoryShadow::atomic(uint32_t block, uintptr_t at) { syncs_.push_back({block, at}); }

void MemoryShadow::clear() {
  pages_.clear();
  works_.resize(1);
  last_ = nullptr;
}

MemoryShadow::Cell& MemoryShadow::cell_at(uintptr_t at) {
  const uintptr_t page = at / kPageBytes;
  if (last_ == nullptr || page != last_page_) {
    if (pages_.size() >= kMostPages && !pages_.contains(page)) pages_.clear();
    std::unique_ptr<Page>& cells = pages_[page];
    if (!cells) cells = std::make_unique<Page>();
    last_page_ = page;
    last_ = cells.get();
  }
  return (*last_)[at % kPageBytes / kCellBytes];
}

/// Through a number that both blocks counted in: the block that wrote after its fence, the other
/// one later.
bool MemoryShadow::is_published(const Visit& before, uint32_t block) const {
  bool fenced = false;
  for (size_t i = before.time; i < syncs_.size(); ++i) {
    const Sync& sync = syncs_[i];
    if (sync.block != before.by.block) continue;
    fenced = fenced || sync.at == 0;
    if (!fenced || sync.at == 0) continue;
    for (size_t j = syncs_.size(); j-- > i + 1;) {
      if (syncs_[j].block == block && syncs_[j].at == sync.at) return true;
    }
  }
  return false;
}

bool MemoryShadow::is_ordered(const Visit& before, const Visit& now) const {
  if (before.work != now.work) {
    const Noted& earlier = works_[before.work];
    return earlier.stream == works_[now.work].stream ||
           before_.holds(earlier.stream, earlier.number);
  }
  if (before.by.block != now.by.block) return is_published(before, now.by.block);
  return before.by.thread == now.by.thread || before.by.block_barriers != now.by.block_barriers ||
         (before.by.thread / kWarp == now.by.thread / kWarp &&
          before.by.warp_barriers < now.by.warp_barriers);
}

bool MemoryShadow::is_same(const Visit& a, const Visit& b) {
  return a.work == b.work && same_thread(a.by, b.by) && a.time == b.time && a.atomic == b.atomic &&
         a.by.block_barriers == b.by.block_barriers && a.by.warp_barriers == b.by.warp_barriers;
}

bool MemoryShadow::races(const Visit& before, const Visit& now) const {
  return before.work != 0 && (before.mask & now.mask) != 0 && !(before.atomic && now.atomic) &&
         !is_ordered(before, now);
}

MemoryShadow::Finding MemoryShadow::finding(const Visit& other, const Visit& now,
                                            bool writes) const {
  const Noted& work = works_[other.work];
  return {work.number, work.kernel, other.by.block, other.by.thread, writes, other.work == now.work,
          work.stream};
}

std::optional<MemoryShadow::Finding> MemoryShadow::access(uintptr_t at, size_t bytes, bool writes,
                                                          bool atomic, const Accessor& by) {
  Visit now{.work = static_cast<uint32_t>(works_.size() - 1),
            .time = static_cast<uint32_t>(syncs_.size()),
            .by = by,
            .atomic = atomic};
  for (uintptr_t begin = at / kCellBytes * kCellBytes; begin < at + bytes; begin += kCellBytes) {
    const uintptr_t first = begin < at ? at - begin : 0;
    const uintptr_t last = begin + kCellBytes > at + bytes ? at + bytes - begin : kCellBytes;
    now.mask = static_cast<uint8_t>((1u << last) - (1u << first));
    Cell& cell = cell_at(begin);
    if (races(cell.write, now)) return finding(cell.write, now, true);
    if (writes) {
      for (const Visit* read : {&cell.read, &cell.other_read}) {
        if (races(*read, now)) return finding(*read, now, false);
      }
      const bool goes_on = is_same(cell.write, now);  // a store of two halves, say
      const uint8_t written = goes_on ? cell.write.mask : uint8_t{0};
      cell.write = now;
      cell.write.mask |= written;
      continue;
    }
    if (cell.read.work != now.work || !same_thread(cell.read.by, by)) cell.other_read = cell.read;
    cell.read = now;
  }
  return {};
}

}  // namespace lathe::emulation
