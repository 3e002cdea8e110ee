// The emulated machine and how it does queued work; see cuda_runtime_machine.h.
#include "cuda_runtime_machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "device_failure.h"
#include "device_ranges.h"
#include "kernel_access.h"
#include "schedule.h"

namespace lathe::emulation {
namespace {

constexpr size_t kMaxDevices = 16;

size_t number_from_environment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

Machine::Machine() {
  const size_t devices = number_from_environment("LATHE_EMULATED_DEVICES", 1);
  const size_t bytes = number_from_environment("LATHE_EMULATED_MEMORY", size_t{16} << 30);
  contexts.resize(kMaxDevices);
  for (size_t i = 0; i < devices && i < kMaxDevices; ++i) {
    memories.push_back(std::make_unique<EmulatedMemory>(bytes));
    default_streams.push_back(std::make_unique<StreamState>());
    default_streams.back()->device = static_cast<int>(i);
  }
}

/// Never destroyed: static objects of the program may free memory after main.
Machine& machine() {
  static Machine* const the_machine = new Machine;
  return *the_machine;
}

ThreadState& this_thread() {
  constinit static thread_local ThreadState state;
  return state;
}

RuntimeProbe& runtime_probe() {
  static RuntimeProbe probe;
  return probe;
}

FaultPoint& kernel_fault() {
  static FaultPoint* const fault = [] {
    auto* const point = new FaultPoint;
    const size_t kernels = number_from_environment("LATHE_EMULATED_LIFE", 0);
    if (kernels > 0) point->fail_at(static_cast<int64_t>(kernels));
    return point;
  }();
  return *fault;
}

FaultPoint& copy_fault() {
  static FaultPoint point;
  return point;
}

FaultPoint& launch_fault() {
  static FaultPoint point;
  return point;
}

void replace_devices() {
  const Call call;
  drain_all();  // after a failure nothing of it runs
  machine().failed = false;
  cudaGetLastError();
}

std::unique_lock<std::recursive_mutex> enter_machine() {
  std::unique_lock lock(machine().mutex);
  ++runtime_probe().calls;
  return lock;
}

DeviceAccess::DeviceAccess() {
  for (const auto& emulated : machine().memories) emulated->open();
  device_ranges().open();
}

DeviceAccess::~DeviceAccess() {
  for (const auto& emulated : machine().memories) emulated->close();
  device_ranges().close();
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) this_thread().last_error = error;
  return error;
}

bool is_recorded(const StreamState& stream) {
  return machine().capture && machine().capture->order.contains(&stream);
}

uint64_t work_stream(const StreamState& stream) {
  return stream.number > 0 ? stream.number : ~static_cast<uint64_t>(stream.device);
}

std::shared_ptr<EventRecord> record(StreamState& stream) {
  auto made = std::make_shared<EventRecord>();
  made->stream = &stream;
  made->after = stream.after;
  stream.queue.push_back({.run = {}, .record = made, .wait = {}});
  return made;
}

void wait_for(StreamState& stream, std::shared_ptr<EventRecord> record) {
  stream.after.join(record->after);
  stream.queue.push_back({.run = {}, .record = {}, .wait = std::move(record)});
}

namespace {

/// The legacy stream and those that are not non-blocking wait for each other.
void wait_for_blocking_streams(StreamState& stream) {
  Machine& m = machine();
  StreamState& legacy = *m.default_streams[static_cast<size_t>(stream.device)];
  const auto wait = [&stream](StreamState& other) {
    stream.after.join(other.after);
    if (!other.queue.empty()) wait_for(stream, record(other));
  };
  if (stream.blocking) wait(legacy);
  if (&stream != &legacy) return;
  for (const auto& [handle, other] : m.streams) {
    if (other->blocking && other->device == stream.device) wait(*other);
  }
}

/// The stream's next node is the last one of its capture.
void add_node(StreamState& stream, GraphNode node) {
  CaptureState& capture = *machine().capture;
  capture.graph->nodes.push_back(std::move(node));
  capture.order[&stream][&stream] = 2 * capture.graph->nodes.size();
}

/// Numbers new work of the stream.
Work number_work(StreamState& stream) {
  Machine& m = machine();
  stream.after.join(m.known_done);
  Work work{work_stream(stream), ++m.work_made, stream.after};
  stream.after.of_stream[work.stream] = work.number;
  return work;
}

}  // namespace

void submit(StreamState& stream, std::function<void()> run, std::vector<MemoryUse> uses) {
  if (is_recorded(stream)) {
    for (MemoryUse& use : uses) use.birth = birth_at(use.memory);
    add_node(stream, {std::move(run), std::move(uses)});
  } else if (!runtime_probe().idle) {
    wait_for_blocking_streams(stream);
    if (finds_races()) {
      run = [run = std::move(run), work = number_work(stream)] {
        const WorkScope scope(work);
        run();
      };
    }
    stream.queue.push_back({.run = std::move(run), .record = {}, .wait = {}});
  }
}

void note(StreamState& stream, std::function<void(StreamState&)> queue) {
  add_node(stream, {.run = {}, .uses = {}, .queue = std::move(queue)});
}

void submit_when(StreamState& stream, std::function<bool()> ready, std::function<void()> run) {
  stream.queue.push_back(
      {.run = std::move(run), .record = {}, .wait = {}, .ready = std::move(ready)});
}

cudaError_t capture_problem(cudaStream_t stream) {
  std::optional<CaptureState>& capture = machine().capture;
  if (!capture || stream != nullptr) return cudaSuccess;
  const bool mine = capture->thread == std::this_thread::get_id() &&
                    this_thread().capture_mode != cudaStreamCaptureModeRelaxed;
  if (!mine && !machine().captured->blocking) return cudaSuccess;
  capture->broken = true;
  return kStreamCaptureImplicit;
}

bool capture_refuses() {
  std::optional<CaptureState>& capture = machine().capture;
  if (!capture || this_thread().capture_mode == cudaStreamCaptureModeRelaxed) return false;
  const bool mine = capture->thread == std::this_thread::get_id();
  if (!mine && capture->mode != cudaStreamCaptureModeGlobal) return false;
  capture->broken = true;
  return true;
}

StreamState* find_stream(cudaStream_t stream) {
  Machine& m = machine();
  if (stream == nullptr) {
    return m.default_streams.empty()
               ? nullptr
               : m.default_streams[static_cast<size_t>(this_thread().device)].get();
  }
  const auto at = m.streams.find(stream);
  return at == m.streams.end() ? nullptr : at->second.get();
}

std::shared_ptr<EventState> find_event(cudaEvent_t event) {
  const auto at = machine().events.find(event);
  return at == machine().events.end() ? nullptr : at->second;
}

void make_context() { machine().contexts[static_cast<size_t>(this_thread().device)] = true; }
bool has_context(int device) { return machine().contexts[static_cast<size_t>(device)]; }

bool run_next(StreamState& stream) {
  const bool outer = std::exchange(machine().running, true);
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  const bool lost = machine().error || machine().failed;
  if ((operation.wait && !complete(*operation.wait)) ||
      (operation.ready && !lost && !operation.ready())) {
    stream.queue.push_front(std::move(operation));
    machine().running = outer;
    return false;
  }
  if (operation.run && !machine().error && !machine().failed) {
    try {
      operation.run();
    } catch (...) {
      machine().error = std::current_exception();
    }
  }
  if (operation.record) {
    operation.record->done = true;
    operation.record->time = std::chrono::steady_clock::now();
  }
  machine().running = outer;
  return true;
}

void run_early() {
  Machine& m = machine();
  if (schedule().early == 0 || m.running) return;
  for (uint64_t left = draw(schedule().early + 1); left > 0; --left) {
    std::vector<StreamState*> busy;
    const auto add = [&busy](StreamState* stream) {
      if (!stream->queue.empty()) busy.push_back(stream);
    };
    for (const auto& stream : m.default_streams) add(stream.get());
    for (const auto& [handle, stream] : m.streams) add(stream.get());
    for (const auto& stream : m.orphaned) add(stream.get());
    if (busy.empty()) return;
    // In an order that does not depend on addresses.
    std::ranges::sort(busy, [](const StreamState* a, const StreamState* b) {
      return std::pair(a->number, a->device) < std::pair(b->number, b->device);
    });
    const DeviceAccess access;
    run_next(*busy[draw(busy.size())]);
  }
}

bool complete(EventRecord& record) {
  while (!record.done && !record.stream->queue.empty()) {
    if (!run_next(*record.stream)) return false;
  }
  return true;
}

void let_others_call() {
  const int calls = this_thread().calls;
  for (int i = 0; i < calls; ++i) machine().mutex.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  for (int i = 0; i < calls; ++i) machine().mutex.lock();
}

void drain(StreamState& stream) {
  const DeviceAccess access;
  while (!stream.queue.empty()) {
    if (!run_next(stream)) let_others_call();
  }
  machine().known_done.join(stream.after);
}

// Streams may come and go when a drain gives way; a dead one's state stays.
void drain_all() {
  const uint64_t given = machine().work_made;  // more may come when a drain gives way
  std::vector<StreamState*> all;
  for (const auto& stream : machine().default_streams) all.push_back(stream.get());
  for (const auto& [handle, stream] : machine().streams) all.push_back(stream.get());
  for (StreamState* stream : all) drain(*stream);
  for (size_t i = 0; i < machine().orphaned.size(); ++i) drain(*machine().orphaned[i]);
  machine().known_done.join({.all = given, .of_stream = {}});
}

cudaError_t waited() {
  if (machine().error) std::rethrow_exception(std::exchange(machine().error, nullptr));
  return machine().failed ? result(cudaErrorLaunchFailure) : cudaSuccess;
}

}  // namespace lathe::emulation
