// What a range notes at its begin and its end, on the thread's own log.
#include "lathe/core/hooks/range.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>
#include <utility>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/hooks/device_marks.h"
#include "lathe/core/hooks/recorder.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/hooks/thread_log.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/tensor.h"

namespace lathe::profile {

namespace {

constinit std::atomic<uint64_t> next_id{0};  // of ranges with activities

// In a range's number of the recording: a watcher of its thread was told of it.
constexpr uint64_t kToldWatcher = uint64_t{1} << 63;

bool is_wanted(Wanted what) { return (wanted.load(std::memory_order_relaxed) & what) != 0; }

/// Bytes of t's values, each place in memory once.
int64_t distinct_bytes(const Tensor& t) { return std::min(t.bytes(), t.impl().storage->bytes()); }

/// Notes the inputs of an op: shapes if they are wanted, bytes, and the GPU to be measured.
void note_inputs(OpenRange& range, const Input* inputs, size_t count) {
  const bool shapes = is_wanted(kShapes), moves = range.record.kind != Kind::kView;
  if (shapes) range.record.inputs.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& t = *inputs[i].tensor;
    if (!t.defined()) continue;
    if (shapes) range.record.inputs.push_back({t.dtype(), t.shape()});
    if (t.device().is_cuda() && !range.device.is_cuda()) range.device = t.device();
    const auto same = [&](const Input& other) {
      return other.tensor->defined() && other.tensor->is_same(t);
    };
    if (moves && std::none_of(inputs, inputs + i, same)) range.record.bytes += distinct_bytes(t);
  }
}

/// Notes where the range, the last of the open ones, was called. A gradient has its op's stack, and
/// so has what the library calls for the gradient: recorder.cpp gives it to them.
void note_stack(ThreadLog& log, OpenRange& range) {
  const Kind kind = range.record.kind;
  const size_t depth = range.record.depth;
  if (kind == Kind::kBackward) {
    range.lends_stack = log.has_call(range.record.sequence);
  } else if (depth > 0 && kind != Kind::kUser) {
    range.lends_stack = log.open()[depth - 1].lends_stack;
  }
  if (!range.lends_stack) range.record.stack = call_stack();
}

/// The recording that a range belongs to (0: none), and its place among the open ranges.
using Opened = std::tuple<uint64_t, size_t>;

/// Opens a range on the thread's log; `fill` notes what is special about it.
template <class Fill>
Opened open_range(Kind kind, const Fill& fill) noexcept {
  ThreadLog* log = nullptr;
  bool opened = false;
  try {
    log = thread_log();
    if (log == nullptr) return {0, 0};
    const size_t depth = log->open().size();
    OpenRange& range = log->open().emplace_back();
    opened = true;
    range.record.kind = kind;
    range.record.depth = static_cast<uint32_t>(depth);
    range.record.memory = log->taken();
    fill(*log, range);
    if (is_wanted(kStacks)) note_stack(*log, range);
    if (is_wanted(kActivities)) {
      range.record.id = next_id.fetch_add(1, std::memory_order_relaxed) + 1;
      cuda::push_activity_range(range.record.id);
    }
    if (range.device.is_cuda() && is_wanted(kDeviceTimes)) {
      range.device_begin = mark(range.device, log->spare_events());
    }
    if (is_wanted(kNvtx)) {
      cuda::push_tool_range(display_name(range.record).c_str());
      range.in_tool = true;
    }
    range.record.begin_ns = now_ns();
    return {log->session(), depth};
  } catch (...) {  // no memory: the program goes on without this range
    if (opened) log->open().pop_back();
    if (log != nullptr) log->drop();
    return {0, 0};
  }
}

/// The innermost range of this thread that is open; null if there is none.
OpenRange* innermost() noexcept {
  try {
    ThreadLog* const log = thread_log();
    return log == nullptr || log->open().empty() ? nullptr : &log->open().back();
  } catch (...) {
    return nullptr;
  }
}

/// Says to NVIDIA's tools that the range ends.
void leave_tools(const OpenRange& range) {
  if (range.in_tool) cuda::pop_tool_range();
  if (range.record.id != 0) cuda::pop_activity_range();
}

/// Products of sizes may be beyond an int64.
int64_t whole(double count) { return static_cast<int64_t>(std::clamp(count, 0.0, 0x1p62)); }

/// kToldWatcher if this thread has a watcher for the range, else 0.
uint64_t told_watcher(Kind kind, const char* name, std::span<const Input> inputs) noexcept {
  return watched() && detail::open_watched(kind, name, inputs) ? kToldWatcher : 0;
}

}  // namespace

void Scope::begin(Kind kind, const char* name, const Input* inputs, size_t count) noexcept {
  std::tie(session_, depth_) = open_range(kind, [&](ThreadLog&, OpenRange& range) {
    range.record.name = name;
    note_inputs(range, inputs, count);
  });
  session_ |= told_watcher(kind, name, {inputs, count});
}

void Scope::begin_list(Kind kind, const char* name, const std::vector<Tensor>& inputs) noexcept {
  std::tie(session_, depth_) = open_range(kind, [&](ThreadLog&, OpenRange& range) {
    range.record.name = name;
    const std::vector<Input> refs(inputs.begin(), inputs.end());
    note_inputs(range, refs.data(), refs.size());
  });
  if (!watched()) return;
  try {
    const std::vector<Input> refs(inputs.begin(), inputs.end());
    session_ |= told_watcher(kind, name, refs);
  } catch (...) {  // no memory: the op is not watched
  }
}

void Scope::begin_on(Kind kind, const char* name, Device device) noexcept {
  std::tie(session_, depth_) = open_range(kind, [&](ThreadLog&, OpenRange& range) {
    range.record.name = name;
    range.device = device;
  });
  session_ |= told_watcher(kind, name, {});
}

void Scope::begin_copied(std::string_view name) noexcept {
  std::tie(session_, depth_) = open_range(
      Kind::kUser, [&](ThreadLog& log, OpenRange& range) { range.record.name = log.keep(name); });
}

void Scope::begin_backward(const char* name, uint64_t sequence, Device device) noexcept {
  std::tie(session_, depth_) = open_range(Kind::kBackward, [&](ThreadLog& log, OpenRange& range) {
    range.record.name = log.keep(name);  // a custom function's name may go with its node
    range.record.sequence = sequence;
    range.device = device;
  });
  session_ |= told_watcher(Kind::kBackward, name, {});
  if (watched()) detail::watch_backward(sequence);
}

void Scope::end() noexcept {
  const int64_t now = now_ns();
  if ((session_ & kToldWatcher) != 0) detail::close_watched();
  session_ &= ~kToldWatcher;
  if (session_ == 0) return;
  try {
    ThreadLog* const log = thread_log();
    // Gone if a range outside it ended first, as a step of the profiler does inside a Range.
    if (log == nullptr || log->session() != session_ || log->open().size() <= depth_) return;
    for (; log->open().size() > depth_ + 1; log->open().pop_back()) {
      leave_tools(log->open().back());
      give_back(log->open().back().device, log->open().back().device_begin);
    }
    OpenRange range = std::move(log->open().back());
    log->open().pop_back();
    leave_tools(range);
    Record& record = range.record;
    record.end_ns = now;
    record.memory = {log->taken().host - record.memory.host,
                     log->taken().device - record.memory.device};
    if (is_wanted(kMemory)) record.in_use = count_in_use({});
    const bool has_stack = !record.stack.empty() || range.lends_stack;
    const uint64_t node = has_stack && record.kind != Kind::kBackward ? record.sequence : 0;
    void* const end =
        range.device_begin == nullptr ? nullptr : mark(range.device, log->spare_events());
    if (log->append(std::move(range), end) && node != 0) log->note_call(node);
  } catch (...) {  // thread_log(): only if the recording changed meanwhile
  }
}

namespace detail {

void note_output(const Tensor& y) noexcept {
  if (watched()) watch_output(y);
  OpenRange* const range = innermost();
  if (range == nullptr || !y.defined() || range->record.kind != Kind::kOp) return;
  range->record.bytes += distinct_bytes(y);
  if (y.device().is_cuda() && !range->device.is_cuda()) range->device = y.device();
}

void note_node(const char* op, uint64_t sequence) noexcept {
  if (watched()) watch_node(op, sequence);
  OpenRange* const range = innermost();
  if (range == nullptr) return;
  Record& record = range->record;
  if (record.kind != Kind::kOp && record.kind != Kind::kView) return;
  // An op may record several nodes; the one of its name counts.
  if (record.sequence == 0 || std::strcmp(record.name, op) == 0) record.sequence = sequence;
}

bool lend_stack(bool lend) noexcept {
  OpenRange* const range = innermost();
  return range != nullptr && std::exchange(range->lends_stack, lend);
}

void note_flops(double count) noexcept {
  if (OpenRange* const range = innermost()) range->record.flops += whole(count);
}

void note_bytes(double count) noexcept {
  if (OpenRange* const range = innermost()) range->record.bytes += whole(count);
}

void note_memory(int64_t bytes, Device device) noexcept {
  const MemoryChange change = device.is_cuda() ? MemoryChange{0, bytes} : MemoryChange{bytes, 0};
  count_in_use(change);
  try {
    if (ThreadLog* const log = thread_log()) {
      log->taken().host += change.host;
      log->taken().device += change.device;
    }
  } catch (...) {  // no memory for a log: this thread's share is missing
  }
}

}  // namespace detail
}  // namespace lathe::profile
