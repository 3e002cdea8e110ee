// A list of chunks. The thread fills an entry and then raises the chunk's count; the recording
// reads the count first, so it sees finished entries only.
#include "lathe/core/hooks/thread_log.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace lathe::profile {

ThreadLog::ThreadLog(uint64_t session, size_t limit)
    : session_(session), limit_(limit), first_(new Chunk), last_(first_) {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  about_.thread = static_cast<uint64_t>(syscall(SYS_gettid));
  about_.name = name;
  spare_events_ = take_spare_events();
}

ThreadLog::~ThreadLog() {
  for (const auto& [device, event] : spare_events_) give_back(device, event);
  for (Chunk* chunk = first_; chunk != nullptr;) {
    for (Entry& entry : chunk->entries) {
      give_back(entry.range.device, entry.range.device_begin);
      give_back(entry.range.device, entry.device_end);
    }
    delete std::exchange(chunk, chunk->next.load());
  }
}

const char* ThreadLog::keep(std::string_view text) { return texts_.emplace(text).first->c_str(); }

ThreadLog::Entry* ThreadLog::next_entry() {
  if (count_ == limit_) return nullptr;
  const size_t used = last_->used.load(std::memory_order_relaxed);
  if (used < last_->entries.size()) return &last_->entries[used];
  Chunk* const chunk = new Chunk;
  last_->next.store(chunk, std::memory_order_release);
  last_ = chunk;
  return &chunk->entries[0];
}

bool ThreadLog::append(OpenRange&& range, void* device_end) noexcept {
  try {
    if (Entry* const entry = next_entry()) {
      entry->range = std::move(range);
      entry->device_end = device_end;
      ++count_;
      last_->used.fetch_add(1, std::memory_order_release);
      return true;
    }
  } catch (...) {  // no memory for a chunk
  }
  give_back(range.device, range.device_begin);
  give_back(range.device, device_end);
  drop();
  return false;
}

/// Reads the marks of a finished range.
static void measure(OpenRange& range, void* device_end) {
  const DeviceSpan span =
      span_of(range.device, std::exchange(range.device_begin, nullptr), device_end);
  range.record.device_ns = span.length_ns;
  range.record.device_begin_ns = span.begin_ns;
  range.record.device_end_ns = span.end_ns;
  range.record.device = range.device.index;
}

ThreadRecords ThreadLog::take() {
  ThreadRecords out = about_;
  for (Chunk* chunk = first_; chunk != nullptr;
       chunk = chunk->next.load(std::memory_order_acquire)) {
    const size_t used = chunk->used.load(std::memory_order_acquire);
    for (size_t i = 0; i < used; ++i) {
      Entry& entry = chunk->entries[i];
      if (entry.device_end != nullptr)
        measure(entry.range, std::exchange(entry.device_end, nullptr));
      out.records.push_back(std::move(entry.range.record));
    }
  }
  return out;
}

}  // namespace lathe::profile
