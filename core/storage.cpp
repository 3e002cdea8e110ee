// Takes a storage's memory from the device's allocator and gives it back.
#include "lathe/core/storage.h"

#include <new>
#include <utility>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/live_memory.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"

namespace lathe {

Storage::Storage(int64_t bytes, Device device, bool pinned)
    : bytes_(bytes), device_(device), pinned_(pinned) {
  LATHE_CHECK(DeviceError, !pinned || device.is_cpu(), "empty: pinned memory is the host's, not ",
              device, "'s");
  if (bytes == 0) return;
  allocator_ = pinned ? &cuda::pinned_allocator() : &allocator_for(device);
  try {
    data_ = allocator_->allocate(static_cast<size_t>(bytes));
  } catch (const OutOfMemoryError& e) {
    try {
      LATHE_FAIL(OutOfMemoryError, e.message(), "; ", profile::who_holds(device, pinned));
    } catch (const std::bad_alloc&) {  // the host has no memory for this text
    }
    throw;  // the allocator's error as it is
  }
  tag_.store(profile::current_memory_tag(), std::memory_order_relaxed);
  profile::detail::count_memory(bytes, device, pinned, tag());
  profile::note_memory(bytes, device);
  profile::note_alive(*this);
  if (profile::watched()) [[unlikely]]
    profile::detail::watch_memory(*this, true);
}

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), release_(std::move(release)), device_(device) {}

Storage::~Storage() {
  if (allocator_ != nullptr) {
    profile::note_gone(*this);
    if (profile::watched()) [[unlikely]]
      profile::detail::watch_memory(*this, false);
    profile::detail::count_memory(-bytes_, device_, pinned_, tag());
    allocator_->deallocate(data_, static_cast<size_t>(bytes_));
    profile::note_memory(-bytes_, device_);
  } else if (release_) {
    release_();
  }
}

void Storage::set_tag(profile::MemoryTag tag) noexcept {
  const profile::MemoryTag before = tag_.exchange(tag, std::memory_order_relaxed);
  if (allocator_ != nullptr && before != tag) {
    profile::detail::move_memory(bytes_, device_, pinned_, before, tag);
  }
}

}  // namespace lathe
