// The two events between the default stream and a training's own.
#include "lathe/train/compute_stream.h"

#include <map>

#include "lathe/core/error.h"

namespace lathe::train {
namespace {

void let_wait(Stream later, Stream first) {
  Event reached(first.device);
  reached.record(first);
  reached.block(later);
}

/// The stream of this thread.
Stream own_stream(Device device) {
  thread_local std::map<int, OwnedStream> streams;
  return streams.try_emplace(device.index, device).first->second;
}

}  // namespace

ComputeStream::ComputeStream(Device device) {
  if (device.is_cpu() || current_stream(device).native != nullptr) return;
  own_ = own_stream(device);
  let_wait(*own_, current_stream(device));
  on_.emplace(*own_);
}

ComputeStream::~ComputeStream() {
  if (!own_) return;
  on_.reset();
  try {
    let_wait(current_stream(own_->device), *own_);
  } catch (const Error&) {  // a GPU that failed: nothing runs there any more
  }
}

}  // namespace lathe::train
