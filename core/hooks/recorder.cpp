// One recording at a time: its threads' logs, its limits, the bytes in use.
#include "lathe/core/hooks/recorder.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/thread_log.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/memory/host_allocator.h"

namespace lathe::profile {

constinit std::atomic<uint32_t> wanted{0};

namespace {

struct State {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadLog>> logs;
  std::string owner;  // of the claim; empty: nobody
  size_t limit = 0;
  uint64_t last_session = 0;
  int64_t begin_ns = 0;
};

// Never destroyed: threads may end after static objects.
State& state() {
  static State& instance = *new State;
  return instance;
}

constinit std::atomic<uint64_t> current_session{0};  // 0: none
constinit std::atomic<int64_t> host_in_use{0}, device_in_use{0};

constinit thread_local ThreadLog* t_log = nullptr;
constinit thread_local bool t_ending = false;

/// Holds the thread's log until the thread joins another recording or ends.
struct Holder {
  std::shared_ptr<ThreadLog> log;
  ~Holder() {
    t_log = nullptr;
    t_ending = true;
  }
};
thread_local Holder t_holder;

std::shared_ptr<ThreadLog> join(uint64_t session) {
  const std::lock_guard lock(state().mutex);
  if (current_session.load(std::memory_order_relaxed) != session) return nullptr;
  return state().logs.emplace_back(std::make_shared<ThreadLog>(session, state().limit));
}

}  // namespace

Claim::Claim(const std::string& owner) {
  const std::lock_guard lock(state().mutex);
  LATHE_CHECK(StateError, state().owner.empty(),
              "profiler: only one can exist at a time, and the one made at ", state().owner,
              " has not stopped");
  state().owner = owner;
}

Claim::~Claim() {
  const std::lock_guard lock(state().mutex);
  state().owner.clear();
}

void start_recording(const RecorderOptions& options) {
  forget_device_clocks();
  uint32_t bits = options.wanted | kRanges;
  if ((bits & kDeviceTimes) != 0 && cuda::start_activities(now_ns))
    bits = (bits & ~uint32_t{kDeviceTimes}) | kActivities;
  const std::lock_guard lock(state().mutex);
  state().limit = options.limit;
  if ((options.wanted & kMemory) != 0) {
    host_in_use = static_cast<int64_t>(host_allocator().stats().allocated_bytes);
    device_in_use = static_cast<int64_t>(cuda::memory_allocated());
  }
  state().begin_ns = now_ns();
  current_session.store(++state().last_session, std::memory_order_release);
  wanted.fetch_or(bits, std::memory_order_release);
}

/// Gives each range the time of its activities on the GPU.
static void share_activities(Recording& recording) {
  std::unordered_map<uint64_t, Record*> ranges;
  for (ThreadRecords& thread : recording.threads) {
    for (Record& record : thread.records) ranges.emplace(record.id, &record);
  }
  for (const cuda::DeviceActivity& activity : recording.activities) {
    const auto at = activity.range == 0 ? ranges.end() : ranges.find(activity.range);
    if (at == ranges.end()) continue;
    Record& record = *at->second;
    const bool is_first = record.device_ns < 0;
    record.device = activity.device;
    record.device_ns = std::max<int64_t>(record.device_ns, 0) + activity.end_ns - activity.begin_ns;
    record.device_begin_ns =
        is_first ? activity.begin_ns : std::min(record.device_begin_ns, activity.begin_ns);
    record.device_end_ns = std::max(record.device_end_ns, activity.end_ns);
  }
}

/// Gives each gradient the stack of its op, where that was recorded too, and to what was called for
/// the gradient. An op of a gradient may have a gradient itself, so all go in the order of their
/// begins: a parent before what is inside it, an op before its gradient.
static void share_stacks(Recording& recording) {
  struct Begun {
    Record* record;
    const Record* parent;
  };
  std::vector<Begun> all;
  for (ThreadRecords& thread : recording.threads) {
    const std::vector<int64_t> parents = parents_of(thread.records);
    for (size_t i = 0; i < thread.records.size(); ++i) {
      const bool inner = parents[i] >= 0;
      all.push_back(
          {&thread.records[i], inner ? &thread.records[static_cast<size_t>(parents[i])] : nullptr});
    }
  }
  std::ranges::sort(
      all, {}, [](const Begun& at) { return std::pair(at.record->begin_ns, at.record->depth); });
  std::unordered_map<uint64_t, const Record*> ops;
  for (const auto& [record, parent] : all) {
    if (record->kind == Kind::kBackward) {
      if (const auto at = ops.find(record->sequence); at != ops.end())
        record->stack = at->second->stack;
    } else {
      if (record->stack.empty() && parent != nullptr) record->stack = parent->stack;
      if (record->sequence != 0 && !record->stack.empty()) ops.emplace(record->sequence, record);
    }
  }
}

Recording stop_recording() {
  const uint32_t bits = wanted.fetch_and(kWatched, std::memory_order_acq_rel);
  Recording out;
  std::vector<std::shared_ptr<ThreadLog>> logs;
  {
    const std::lock_guard lock(state().mutex);
    current_session.store(0, std::memory_order_release);
    logs = std::exchange(state().logs, {});
    out.begin_ns = state().begin_ns;
  }
  out.end_ns = now_ns();
  for (const auto& log : logs) {
    out.threads.push_back(log->take());
    out.dropped += log->dropped();
    out.keeps.push_back(log);
  }
  if ((bits & kStacks) != 0) share_stacks(out);
  if ((bits & kActivities) != 0) {
    out.has_activities = true;
    out.activities = cuda::stop_activities();
    share_activities(out);
  }
  return out;
}

ThreadLog* thread_log() {
  const uint64_t session = current_session.load(std::memory_order_acquire);
  if (session == 0) return nullptr;
  if (t_log != nullptr && t_log->session() == session) return t_log;
  if (t_ending) return nullptr;
  t_holder.log = join(session);
  return t_log = t_holder.log.get();
}

MemoryChange count_in_use(MemoryChange change) noexcept {
  return {host_in_use.fetch_add(change.host, std::memory_order_relaxed) + change.host,
          device_in_use.fetch_add(change.device, std::memory_order_relaxed) + change.device};
}

}  // namespace lathe::profile
