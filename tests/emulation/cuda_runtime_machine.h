// What the files of the emulated CUDA runtime share: the machine with its devices, streams and
// events, and how queued work gets done. The functions of cuda_runtime_emulation.h are in
// cuda_runtime_device.cpp, cuda_runtime_memory.cpp and cuda_runtime_stream.cpp. One lock guards
// everything: a test's machine need not be fast.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cuda_runtime_emulation.h"
#include "emulated_memory.h"
#include "work_order.h"

namespace lathe::emulation {

/// Of each stream of a capture: after which of its points something comes. The point of a node is
/// twice its number from 1; that where a stream joins the capture lies between two nodes.
using CaptureOrder = std::map<const StreamState*, size_t>;

/// One call of cudaEventRecord: what waits for the event until the next one waits for this.
struct EventRecord {
  StreamState* stream = nullptr;  // where it is queued
  bool done = false;
  uint64_t capture = 0;  // not 0: noted in this capture, and never done
  CaptureOrder noted;    // what comes before it there
  std::chrono::steady_clock::time_point time;
  WorkSet after;  // what comes before it
};

struct EventState {
  std::shared_ptr<EventRecord> last;  // null before the first: nothing to wait for
};

/// One entry of a stream's queue: work, an event to complete, or an event to wait for. Work that other
/// processes take part in runs when `ready` says so; until then it holds up its stream.
struct Operation {
  std::function<void()> run;
  std::shared_ptr<EventRecord> record, wait;
  std::function<bool()> ready = {};
};

struct StreamState {
  int device = 0;
  uint64_t number = 0;    // of its creation; 0: a default stream
  bool blocking = false;  // waits for the legacy stream, and that for it
  std::deque<Operation> queue;
  WorkSet after;  // what comes before anything that it will be given
};

/// Memory that recorded work was given.
struct MemoryUse {
  const void* memory = nullptr;
  void (*kernel)() = nullptr;     // null: a copy
  size_t argument = 0, byte = 0;  // where the kernel was given it
  uint64_t birth = 0;             // of the block there when it was recorded
};
/// What a graph repeats: it holds copies of its arguments.
struct GraphNode {
  std::function<void()> run;
  std::vector<MemoryUse> uses;
  std::function<void(StreamState&)> queue = {};  // instead of run: queues what it does by itself
};
struct GraphState {
  std::vector<GraphNode> nodes;
};

/// A capture that cudaStreamBeginCapture began. A stream that waits for an event of it belongs to
/// it from then on, and must be waited for before it ends.
struct CaptureState {
  std::unique_ptr<GraphState> graph;  // what the stream was given since
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  uint64_t number = 0;
  std::map<const StreamState*, CaptureOrder> order = {};  // of each stream that belongs to it
  bool broken = false;                                    // by a call that a capture forbids
};

struct Machine {
  // As LATHE_EMULATED_DEVICES and LATHE_EMULATED_MEMORY say; LATHE_EMULATED_LIFE: device_failure.h.
  Machine();

  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<EmulatedMemory>> memories;  // one per device
  std::vector<std::unique_ptr<StreamState>> default_streams;
  std::unordered_map<StreamState*, std::unique_ptr<StreamState>> streams;
  std::vector<std::unique_ptr<StreamState>> handles;   // of dead streams, for the next ones
  std::vector<std::unique_ptr<StreamState>> orphaned;  // what dead streams had left to do
  std::unordered_map<EventState*, std::shared_ptr<EventState>> events;
  struct Pinned {
    size_t bytes;
    uint64_t birth;
  };
  std::map<char*, Pinned> pinned;  // by its start
  std::exception_ptr error;        // thrown by a kernel, until somebody waits
  bool failed = false;             // for good; see device_failure.h
  bool running = false;            // queued work is underway
  uint64_t streams_made = 0, blocks_made = 0, work_made = 0, captures_made = 0;
  WorkSet known_done;               // what the host has waited for, on any thread
  std::vector<bool> contexts;       // of each device, whether it has one
  StreamState* captured = nullptr;  // by cudaStreamBeginCapture
  std::optional<CaptureState> capture;
};
Machine& machine();

/// What the runtime keeps for each thread.
struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  int calls = 0;  // how often this thread holds the lock
};
ThreadState& this_thread();

/// This thread's device gets a context, as by every call that needs one.
void make_context();

/// Runs some of what is queued, if the schedule wants it.
void run_early();

/// Entered by every call: the lock on the machine.
struct Call {
  Call() : lock(machine().mutex) {
    ++this_thread().calls;
    ++runtime_probe().calls;
    run_early();
  }
  ~Call() { --this_thread().calls; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  std::lock_guard<std::recursive_mutex> lock;
};

/// While one lives, the memory of every device can be touched.
struct DeviceAccess {
  DeviceAccess();
  ~DeviceAccess();
};

/// `error`, after cudaGetLastError was told of it.
cudaError_t result(cudaError_t error);

/// The number by which a WorkSet knows the stream.
uint64_t work_stream(const StreamState& stream);
/// Queues a record of what the stream has been given so far.
std::shared_ptr<EventRecord> record(StreamState& stream);
/// What the stream is given from now on waits for it.
void wait_for(StreamState& stream, std::shared_ptr<EventRecord> record);

/// Queues work, or notes it in the graph if the stream is being captured.
void submit(StreamState& stream, std::function<void()> run, std::vector<MemoryUse> uses = {});
/// Notes work in the graph of the capture to which the stream belongs: each launch calls `queue`
/// with the stream where it was launched.
void note(StreamState& stream, std::function<void(StreamState&)> queue);
/// submit() for work that waits until `ready` is true, which is asked while the memory of devices can
/// be touched. Not for a stream that is being captured.
void submit_when(StreamState& stream, std::function<bool()> ready, std::function<void()> run);
/// Whether what the stream is given is noted in a graph.
bool is_recorded(const StreamState& stream);

/// Which block of device memory, or of page-locked memory, is at an address: no two that were ever
/// taken have the same number. 0: none.
uint64_t birth_at(const void* memory);

/// Whether a capture is underway that refuses this thread what might disturb it, and with what.
bool capture_refuses();
inline constexpr auto kStreamCaptureUnsupported = static_cast<cudaError_t>(900);

/// What new work for this stream meets: cudaSuccess, or why a capture refuses it, which also ends
/// the capture. Work for the legacy stream is no part of a graph: a GPU refuses it while a stream
/// is captured that waits for that stream; here also when the thread that captures gives it,
/// without relaxed mode.
cudaError_t capture_problem(cudaStream_t stream);
inline constexpr auto kStreamCaptureImplicit = static_cast<cudaError_t>(906);

/// Null: no such stream or event is alive. The null stream is the default one of this thread's
/// device.
StreamState* find_stream(cudaStream_t stream);
std::shared_ptr<EventState> find_event(cudaEvent_t event);

/// Runs the next operation of a stream, and first whatever it has to wait for. Under DeviceAccess.
/// False: something is not ready(), and that operation has not run.
bool run_next(StreamState& stream);
/// Runs what is queued before it on its stream, and the record. Under DeviceAccess. False as above.
bool complete(EventRecord& record);
/// Lets other threads call for a moment, within a call that waits for what is not ready.
void let_others_call();

/// Run everything that is queued.
void drain(StreamState& stream);
void drain_all();

/// The end of a call that waited: where a GPU would report a failed kernel, its exception appears.
cudaError_t waited();

}  // namespace lathe::emulation
