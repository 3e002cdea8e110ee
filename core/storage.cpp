// Storage; see storage.h.
#include "lathe/core/storage.h"

#include <utility>

namespace lathe {

Storage::Storage(int64_t bytes, Device device) : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  allocator_ = &allocator_for(device);
  data_ = allocator_->allocate(static_cast<size_t>(bytes));
}

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), release_(std::move(release)), device_(device) {}

Storage::~Storage() {
  if (allocator_ != nullptr) {
    allocator_->deallocate(data_, static_cast<size_t>(bytes_));
  } else if (release_) {
    release_();
  }
}

}  // namespace lathe
