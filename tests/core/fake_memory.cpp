// The fake device; see fake_memory.h.
#include "fake_memory.h"

#include <algorithm>

#include "lathe/core/format.h"

namespace lathe {

namespace {

constexpr uintptr_t kFirstAddress = 0x7f0000000000;
constexpr uintptr_t kHole = 4096;  // between blocks, so that neighbours never touch
constexpr uintptr_t kAlign = 512;

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }
void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }  // NOLINT

}  // namespace

void FakeMemory::note(const std::string& violation) {
  const Lock lock(mutex_);
  if (violation_.empty()) violation_ = violation;
}

void FakeMemory::called(const char* function, bool allowed_in_capture) {
  ++calls_[function];
  if (!alive) note(concat(function, " after the driver's end"));
  if (!allowed_in_capture && capturing()) note(concat(function, " during a capture"));
}

bool FakeMemory::capturing() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& entry) { return entry.second.capture != 0; });
}

// The lowest addresses with room for the block and a hole on each side.
uintptr_t FakeMemory::place(size_t bytes) {
  uintptr_t at = kFirstAddress;
  for (const auto* taken : {&blocks_, &ranges_}) {  // blocks and ranges never mix in one pool
    for (const auto& [begin, size] : *taken) {
      if (begin - at >= bytes + kHole && begin >= at) break;
      at = std::max(at, (begin + size + kHole + kAlign - 1) / kAlign * kAlign);
    }
  }
  return at;
}

void* FakeMemory::allocate(size_t bytes) noexcept {
  const Lock lock(mutex_);
  called("allocate", true);
  if (bytes == 0) note("allocate of 0 bytes");
  if (fault_.hit() || bytes > capacity_ - used_) return nullptr;
  const uintptr_t begin = place(bytes);
  blocks_[begin] = bytes;
  used_ += bytes;
  return pointer(begin);
}

void FakeMemory::deallocate(void* block) noexcept {
  const Lock lock(mutex_);
  called("deallocate", false);
  const auto found = blocks_.find(number(block));
  if (found == blocks_.end()) return note("deallocate of what is not allocated");
  const uintptr_t begin = found->first, end = begin + found->second;
  for (auto& [handle, stream] : streams_) {  // waits for work that uses it
    for (size_t i = stream.pending.size(); i-- > 0;) {
      if (stream.pending[i].begin < end && begin < stream.pending[i].end) {
        advance(handle, i + 1);
        break;
      }
    }
  }
  used_ -= found->second;
  blocks_.erase(found);
}

EventHandle FakeMemory::record(StreamHandle stream) noexcept {
  const Lock lock(mutex_);
  called("record", false);
  if (fault_.hit() || streams_[stream].destroyed) return nullptr;
  events_[next_event_] = {stream, streams_[stream].submitted};
  return pointer(next_event_++);
}

void FakeMemory::release(EventHandle event) noexcept {
  const Lock lock(mutex_);
  called("release", false);
  if (events_.erase(number(event)) == 0) note("release of what is no event");
}

bool FakeMemory::query(EventHandle event) noexcept {
  const Lock lock(mutex_);
  called("query", false);
  const auto found = events_.find(number(event));
  if (found == events_.end()) {
    note("query of what is no event");
    return false;
  }
  return !fault_.hit() && streams_[found->second.stream].completed >= found->second.number;
}

bool FakeMemory::synchronize() noexcept {
  const Lock lock(mutex_);
  called("synchronize", false);
  if (fault_.hit()) return false;
  for (auto& [handle, stream] : streams_) advance(handle);
  return true;
}

MemoryInfo FakeMemory::mem_info() noexcept {
  const Lock lock(mutex_);
  called("mem_info", false);
  return {capacity_ - used_, capacity_};
}

uint64_t FakeMemory::capture_id(StreamHandle stream) noexcept {
  const Lock lock(mutex_);
  called("capture_id", true);
  if (stream == nullptr) note("capture_id of the default stream");
  return streams_[stream].capture;
}

CaptureMark FakeMemory::capture_mark(StreamHandle stream) noexcept {
  const Lock lock(mutex_);
  called("capture_mark", true);
  const Stream& s = streams_[stream];
  if (s.capture == 0) return 0;
  marks_.push_back({s.capture, stream, s.node});
  return marks_.size();
}

bool FakeMemory::is_behind(StreamHandle stream, CaptureMark mark) noexcept {
  const Lock lock(mutex_);
  called("is_behind", true);
  const Mark& m = marks_[mark - 1];
  Stream& s = streams_[stream];
  return s.capture == m.capture && (stream == m.stream || s.seen[m.stream] >= m.node);
}

void FakeMemory::work(StreamHandle stream, const void* address, size_t bytes) {
  const Lock lock(mutex_);
  const uintptr_t begin = number(address);
  if (!owned(begin, begin + bytes)) note("work on memory that was given back");
  if (has_virtual_memory) {
    for (auto at = begin / granule_bytes * granule_bytes; at < begin + bytes; at += granule_bytes)
      worked_.insert(at);
  }
  Stream& s = streams_[stream];
  if (s.capture != 0) {
    nodes_.push_back({s.capture, stream, {++s.node, begin, begin + bytes}});
  } else {
    s.pending.push_back({++s.submitted, begin, begin + bytes});
  }
}

void FakeMemory::advance(StreamHandle stream, size_t count) {
  const Lock lock(mutex_);
  Stream& s = streams_[stream];
  for (; count > 0 && !s.pending.empty(); --count) {
    const Kernel kernel = s.pending.front();
    s.pending.pop_front();
    s.completed = kernel.number;
    if (!owned(kernel.begin, kernel.end)) note("work ran on memory that was given back");
  }
  if (s.pending.empty()) s.completed = s.submitted;
}

void FakeMemory::destroy_stream(StreamHandle stream) {
  const Lock lock(mutex_);
  streams_[stream].destroyed = true;  // its work goes on
}

uint64_t FakeMemory::begin_capture(StreamHandle stream) {
  const Lock lock(mutex_);
  Stream& s = streams_[stream];
  s.seen.clear();
  s.node = 0;
  return s.capture = next_capture_++;
}

// Everything queued on `stream` from now on runs after what `other` has queued.
void FakeMemory::wait_stream(StreamHandle stream, StreamHandle other) {
  const Lock lock(mutex_);
  Stream &s = streams_[stream], &o = streams_[other];
  if (s.capture == 0) s.node = 0;
  s.capture = o.capture;
  for (const auto& [handle, node] : o.seen) s.seen[handle] = std::max(s.seen[handle], node);
  s.seen[other] = std::max(s.seen[other], o.node);
}

void FakeMemory::end_capture(StreamHandle stream) {
  const Lock lock(mutex_);
  const uint64_t capture = streams_[stream].capture;
  for (auto& [handle, s] : streams_) {
    if (s.capture == capture) s.capture = 0;
  }
  std::erase_if(nodes_, [&](const Node& node) { return node.capture == capture; });
}

void FakeMemory::check_unused_by_others(StreamHandle stream, const void* address, size_t bytes) {
  const Lock lock(mutex_);
  const uintptr_t begin = number(address), end = begin + bytes;
  for (const auto& [handle, s] : streams_) {
    if (handle == stream) continue;
    for (const Kernel& kernel : s.pending) {
      if (kernel.begin < end && begin < kernel.end)
        note("a block was handed out while another stream works on it");
    }
  }
  Stream& self = streams_[stream];
  for (const Node& node : nodes_) {
    const bool overlaps = node.kernel.begin < end && begin < node.kernel.end;
    if (overlaps && node.capture == self.capture && node.stream != stream &&
        self.seen[node.stream] < node.kernel.number)
      note("a block was handed out in a capture before its streams were joined");
  }
}

// Whether the range lies inside one block, or is mapped from end to end.
bool FakeMemory::owned(uintptr_t begin, uintptr_t end) const {
  auto block = blocks_.upper_bound(begin);
  if (block != blocks_.begin() && (--block)->first + block->second >= end) return true;
  for (uintptr_t at = begin; at < end; at = at / granule_bytes * granule_bytes + granule_bytes) {
    auto granule = mapped_.upper_bound(at);
    if (granule == mapped_.begin() || (--granule)->first + granule_bytes <= at) return false;
  }
  return true;
}

void* FakeMemory::reserve(size_t bytes) noexcept {
  const Lock lock(mutex_);
  called("reserve", true);
  if (bytes % granule_bytes != 0) note("reserve of a part of a granule");
  if (fault_.hit()) return nullptr;
  const uintptr_t begin =
      (place(bytes + granule_bytes) + granule_bytes - 1) / granule_bytes * granule_bytes;
  ranges_[begin] = bytes;
  return pointer(begin);
}

void FakeMemory::unreserve(void* base, size_t bytes) noexcept {
  const Lock lock(mutex_);
  called("unreserve", true);
  const auto found = ranges_.find(number(base));
  if (found == ranges_.end() || found->second != bytes) return note("unreserve of no range");
  const auto first = mapped_.lower_bound(found->first);
  if (first != mapped_.end() && first->first < found->first + bytes)
    note("unreserve of a range with memory in it");
  ranges_.erase(found);
}

PhysicalMemory FakeMemory::create(size_t bytes) noexcept {
  const Lock lock(mutex_);
  called("create", true);
  if (fault_.hit() || bytes > capacity_ - used_) return 0;
  used_ += bytes;
  physical_[next_physical_] = {bytes};
  return next_physical_++;
}

void FakeMemory::destroy(PhysicalMemory memory) noexcept {
  const Lock lock(mutex_);
  called("destroy", true);
  const auto found = physical_.find(memory);
  if (found == physical_.end() || found->second.destroyed) return note("destroy of no memory");
  found->second.destroyed = true;
  drop_if_unused(found);
}

void FakeMemory::drop_if_unused(std::map<PhysicalMemory, Physical>::iterator memory) {
  if (!memory->second.destroyed || memory->second.mapped) return;
  used_ -= memory->second.bytes;
  physical_.erase(memory);
}

bool FakeMemory::map(void* address, size_t bytes, PhysicalMemory memory) noexcept {
  const Lock lock(mutex_);
  called("map", true);
  const auto found = physical_.find(memory);
  auto range = ranges_.upper_bound(number(address));
  const bool in_range =
      range != ranges_.begin() && number(address) + bytes <= (--range)->first + range->second;
  if (found == physical_.end() || bytes != granule_bytes || found->second.bytes != bytes ||
      !in_range || number(address) % granule_bytes != 0 || mapped_.count(number(address)) != 0) {
    note("map with wrong arguments");
    return false;
  }
  if (fault_.hit()) return false;
  found->second.mapped = true;
  mapped_[number(address)] = memory;
  return true;
}

void FakeMemory::unmap(void* address, size_t bytes) noexcept {
  const Lock lock(mutex_);
  called("unmap", true);
  const uintptr_t begin = number(address), end = begin + bytes;
  if (begin % granule_bytes != 0 || bytes % granule_bytes != 0)
    note("unmap of a part of a granule");
  for (const auto& [handle, stream] : streams_) {
    for (const Kernel& kernel : stream.pending) {
      if (kernel.begin < end && begin < kernel.end) note("unmap of memory that a stream works on");
    }
  }
  for (uintptr_t at = begin; at < end; at += granule_bytes) {
    const auto granule = mapped_.find(at);
    if (granule == mapped_.end()) return note("unmap of what is not mapped");
    const auto memory = physical_.find(granule->second);
    if (worked_.erase(at) != 0 && capturing()) note("unmap of memory in use during a capture");
    memory->second.mapped = false;
    drop_if_unused(memory);
    mapped_.erase(granule);
  }
}

std::string FakeMemory::violation() const {
  const Lock lock(mutex_);
  return violation_;
}

size_t FakeMemory::used_bytes() const {
  const Lock lock(mutex_);
  return used_;
}

size_t FakeMemory::reserved_address_bytes() const {
  const Lock lock(mutex_);
  size_t sum = 0;
  for (const auto& [begin, bytes] : ranges_) sum += bytes;
  return sum;
}

size_t FakeMemory::live_events() const {
  const Lock lock(mutex_);
  return events_.size();
}

std::map<std::string, size_t> FakeMemory::calls() const {
  const Lock lock(mutex_);
  return calls_;
}

}  // namespace lathe
