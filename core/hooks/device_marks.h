// GPU times of ranges by CUDA events: a mark is an event in the stream at the begin or at the end
// of a range. Nothing waits for the GPU before the recording is over.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lathe/core/device.h"

namespace lathe::profile {

/// Events that are not in use, of one thread.
using SpareEvents = std::vector<std::pair<Device, void*>>;

/// An event at the point that the current stream of `device` has reached. Null while that stream is
/// captured into a CUDA graph, or if the driver refuses.
void* mark(Device device, SpareEvents& spare) noexcept;

/// The part of a range on its GPU; begin and end in time of now_ns(). These come from 24-bit
/// numbers of milliseconds since the first mark, so the length is more exact than their difference.
struct DeviceSpan {
  int64_t begin_ns = 0, end_ns = 0, length_ns = -1;
};

/// Reads two marks and gives their events back. Waits for the second.
DeviceSpan span_of(Device device, void* begin, void* end) noexcept;

/// Gives an event back without reading it.
void give_back(Device device, void* event) noexcept;

/// All events that were given back, for a new thread.
SpareEvents take_spare_events() noexcept;

/// A new recording begins: the clocks of host and GPUs will be compared again.
void forget_device_clocks() noexcept;

}  // namespace lathe::profile
