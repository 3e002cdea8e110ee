// The counters of memory by place (CPU, pinned, each GPU) and tag.
#include "lathe/core/hooks/memory_use.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/live_memory.h"
#include "lathe/core/memory/host_allocator.h"

namespace lathe::profile {

namespace {

constinit thread_local MemoryTag t_tag = MemoryTag::kOther;

using Counts = std::array<std::atomic<int64_t>, kMemoryTags>;

struct alignas(64) Place {
  std::atomic<int64_t> in_use{0}, peak{0};
  Counts now{};
  std::mutex mutex;  // guards the writing of the peak
  Counts at_peak{};
};

constinit Place g_host, g_pinned, g_devices[cuda::kMaxDevices];

Place& place_of(Device device, bool pinned) noexcept {
  if (device.is_cpu()) return pinned ? g_pinned : g_host;
  const int last = cuda::kMaxDevices - 1;
  return g_devices[std::clamp<int>(device.index, 0, last)];
}

constexpr auto kRelaxed = std::memory_order_relaxed;

void take_peak(Place& place, int64_t in_use) noexcept {
  place.peak.store(in_use, kRelaxed);
  for (size_t t = 0; t < place.now.size(); ++t) {
    place.at_peak[t].store(place.now[t].load(kRelaxed), kRelaxed);
  }
}

std::array<int64_t, kMemoryTags> values_of(const Counts& counts) {
  std::array<int64_t, kMemoryTags> out;
  std::transform(counts.begin(), counts.end(), out.begin(),
                 [](const auto& count) { return count.load(kRelaxed); });
  return out;
}

/// `text` in a column of `width`, to the left (negative) or right.
std::string padded(std::string_view text, int width) {
  const auto columns = static_cast<size_t>(std::abs(width));
  const std::string space(columns > text.size() ? columns - text.size() : 0, ' ');
  return width < 0 ? concat(text, space) : concat(space, text);
}

std::string row(std::string_view name, int64_t now, int64_t peak) {
  const auto size = [](int64_t bytes) {
    return readable_bytes(static_cast<size_t>(std::max<int64_t>(bytes, 0)));
  };
  return concat(padded(name, -18), padded(size(now), 12), padded(size(peak), 12), "\n");
}

}  // namespace

std::string_view name_of(MemoryTag tag) noexcept {
  static constexpr std::string_view kNames[kMemoryTags] = {
      "other", "weights", "gradients", "optimiser state", "activations", "workspace", "data"};
  return kNames[static_cast<size_t>(tag)];
}

MemoryTag current_memory_tag() noexcept { return t_tag; }
MemoryTag exchange_memory_tag(MemoryTag tag) noexcept { return std::exchange(t_tag, tag); }

std::string MemoryUse::text() const {
  std::string out = concat(padded("memory", -18), padded("now", 12), padded("at peak", 12), "\n");
  for (int t = 0; t < kMemoryTags; ++t) {
    const auto tag = static_cast<MemoryTag>(t);
    if (of(tag) != 0 || of_peak(tag) != 0) out += row(name_of(tag), of(tag), of_peak(tag));
  }
  out += row("all", in_use, peak);
  if (peak_allocated > 0) out += row("allocated", allocated, peak_allocated);
  if (reserved > 0) {
    out += concat(padded("reserved", -18),
                  padded(readable_bytes(static_cast<size_t>(reserved)), 12), "\n");
  }
  return out;
}

std::string MemoryUse::holders() const {
  std::array<int, kMemoryTags> order;
  std::iota(order.begin(), order.end(), 0);
  const auto bytes_of = [this](int t) { return now[static_cast<size_t>(t)]; };
  std::ranges::stable_sort(order, [&](int a, int b) { return bytes_of(a) > bytes_of(b); });
  std::string out;
  for (const int t : order) {
    if (bytes_of(t) <= 0) break;
    out += concat(out.empty() ? "" : ", ", name_of(static_cast<MemoryTag>(t)), " ",
                  readable_bytes(static_cast<size_t>(bytes_of(t))));
  }
  return out.empty() ? "nothing" : out;
}

MemoryUse memory_use(Device device, bool pinned) {
  const Place& place = place_of(device, pinned);
  MemoryUse out;
  out.in_use = place.in_use.load(kRelaxed);
  out.peak = place.peak.load(kRelaxed);
  out.now = values_of(place.now);
  out.at_peak = values_of(place.at_peak);
  if (device.is_cuda()) {
    out.allocated = static_cast<int64_t>(cuda::memory_allocated(device));
    out.peak_allocated = static_cast<int64_t>(cuda::max_memory_allocated(device));
    out.reserved = static_cast<int64_t>(cuda::memory_reserved(device));
  } else if (!pinned) {
    const MemoryStats stats = host_allocator().stats();
    out.allocated = static_cast<int64_t>(stats.allocated_bytes);
    out.peak_allocated = static_cast<int64_t>(stats.peak_allocated_bytes);
    out.reserved = static_cast<int64_t>(stats.reserved_bytes);
  }
  return out;
}

std::string who_holds(Device device, bool pinned) {
  return concat("tensors hold: ", memory_use(device, pinned).holders(),
                detail::largest_alive(device, pinned));
}

void reset_memory_peak(Device device, bool pinned) {
  Place& place = place_of(device, pinned);
  {
    const std::lock_guard lock(place.mutex);
    take_peak(place, place.in_use.load(kRelaxed));
  }
  if (device.is_cuda()) {
    cuda::reset_peak_memory(device);
  } else if (!pinned) {
    host_allocator().reset_peak();
  }
}

CountedMemory::CountedMemory(int64_t bytes, Device device, MemoryTag tag) noexcept
    : bytes_(bytes), device_(device), tag_(tag) {
  detail::count_memory(bytes_, device_, false, tag_);
}
CountedMemory::~CountedMemory() { detail::count_memory(-bytes_, device_, false, tag_); }

namespace detail {

void count_memory(int64_t bytes, Device device, bool pinned, MemoryTag tag) noexcept {
  Place& place = place_of(device, pinned);
  place.now[static_cast<size_t>(tag)].fetch_add(bytes, kRelaxed);
  const int64_t in_use = place.in_use.fetch_add(bytes, kRelaxed) + bytes;
  if (bytes < 0 || in_use <= place.peak.load(kRelaxed)) return;
  const std::lock_guard lock(place.mutex);
  if (in_use > place.peak.load(kRelaxed)) take_peak(place, in_use);
}

void move_memory(int64_t bytes, Device device, bool pinned, MemoryTag from, MemoryTag to) noexcept {
  Place& place = place_of(device, pinned);
  place.now[static_cast<size_t>(from)].fetch_sub(bytes, kRelaxed);
  place.now[static_cast<size_t>(to)].fetch_add(bytes, kRelaxed);
}

}  // namespace detail
}  // namespace lathe::profile
