// GroupState: calls that are queued on a GPU. The others: group_state.cpp. Contract: group_state.h.
//
// Note [Calls on a GPU]
// The caller's thread queues the collective on the backend's stream, between two events: it waits
// for what the current stream had to do, and Work::wait() makes the current stream wait for it. The
// host goes on. The group's thread watches the second event, in the order of the calls. So a call
// that takes too long fails as one on host memory does, and the same verdict names the rank.
//
// Note [Calls in a graph]
// While the current stream is captured, the events make the backend's stream a branch of the
// capture, and the collective a node of the graph, which runs beside the others. Its own end is
// nothing that could be asked. So each launch of the graph is watched, as one call. Each rank must
// launch its graph of the same step.
#include <exception>
#include <memory>

#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/format.h"
#include "lathe/core/log.h"
#include "lathe/distributed/device_answers.h"
#include "lathe/distributed/group_state.h"

namespace lathe::distributed::detail {

std::shared_ptr<Call> GroupState::start(Call call, DeviceBackend& backend,
                                        const std::function<void(DeviceBackend&)>& launch) {
  const Device device = backend.device();
  const Stream compute = current_stream(device), line = backend.stream();
  const bool captured = cuda::is_capturing(compute);
  // Not in a capture: what is not recorded by all ranks alike ends in an error there, and a rank
  // that cannot record would be waited for.
  if (options_.debug && !captured) {
    const auto compared = start(Call{call.text, call.name, [](Backend&) {}});
    wait(*compared);
  }
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw_failure();
  }
  call.device = device;
  if (captured) return record(std::move(call), backend, launch);
  try {
    Event ready(device);
    ready.record(compute);
    ready.block(line);
    launch(backend);
    auto reached = std::make_shared<Event>(device);
    reached->record(line);
    call.run = [this, &backend, reached](Backend&) {
      backend.watch(*reached, [this] { return client_->somebody_left(); });
    };
    call.reached = std::move(reached);
  } catch (const std::exception&) {  // fails where all calls do, and is judged there
    call.run = [error = std::current_exception()](Backend&) { std::rethrow_exception(error); };
  }
  return start(std::move(call));
}

std::shared_ptr<Call> GroupState::record(Call call, DeviceBackend& backend,
                                         const std::function<void(DeviceBackend&)>& launch) {
  try {
    Event ready(call.device);
    ready.record(current_stream(call.device));
    ready.block(backend.stream());
    launch(backend);
    call.reached = std::make_shared<Event>(call.device);
    call.reached->record(backend.stream());
  } catch (const DeviceBackendError& error) {  // nothing has run, and nobody waits for it
    LATHE_FAIL(StateError, call.name, ": cannot be recorded into a graph: ", error.what());
  }
  if (std::exchange(recorded_in_, cuda::capture_number()) != cuda::capture_number()) {
    const auto with_group = [group = weak_from_this()](auto&& f) {
      const std::shared_ptr<GroupState> alive = group.lock();
      LATHE_CHECK(StateError, alive != nullptr,
                  "cuda::Graph: the process group of its collectives no longer exists");
      f(*alive);
    };
    cuda::before_each_launch(
        [with_group] { with_group([](GroupState& group) { group.check_can_launch(); }); });
    cuda::after_each_launch([with_group, &backend] {
      with_group([&](GroupState& group) { group.watch_launch(backend); });
    });
  }
  call.done = true;  // for the host, which can only wait for a launch
  auto made = std::make_shared<Call>(std::move(call));
  made->group = shared_from_this();
  return made;
}

void GroupState::check_can_launch() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw_failure();
  LATHE_CHECK(StateError, !leaving_,
              "cuda::Graph: the process group of its collectives no longer exists");
}

void GroupState::watch_launch(DeviceBackend& backend) {
  const auto reached = std::make_shared<Event>(backend.device());
  reached->record(current_stream(backend.device()));
  Call call{"the launch of a graph", "graph launch", [this, &backend, reached](Backend&) {
              backend.watch(*reached, [this] { return client_->somebody_left(); });
            }};
  call.device = backend.device();
  start(std::move(call));
}

DeviceBackend* GroupState::backend_for(Device device) {
  if (!device.is_cuda() || options_.world_size == 1) return nullptr;
  if (!asked_for_device_) {
    LATHE_CHECK(StateError, !cuda::is_capturing(current_stream(device)),
                "process group: its first call on a GPU connects the ranks, and cannot be recorded "
                "into a graph; make one before");
    connect_device(device);
  }
  if (!device_problem_.empty()) throw DistributedError(device_problem_, here(__FILE__, __LINE__));
  if (!device_backend_) return nullptr;
  LATHE_CHECK(DeviceError, device_backend_->device() == device, "process group: its calls are on ",
              device_backend_->device(), ", not on ", device);
  return device_backend_.get();
}

void GroupState::connect_device(Device device) {
  DeviceAnswer own{.problem = device_backend_problem(device), .device = concat(device)};
  if (own.problem.empty()) {
    try {
      own.gpu = identity_of(device);
      if (options_.rank == 0) own.id = make_communicator_id();
    } catch (const Error& error) {  // the others wait for this rank's answer
      own.problem = error.message();
    }
  }
  const DeviceVerdict verdict = judge(all_gather_text(line_of(own)), hosts_);
  asked_for_device_ = true;
  if (!verdict.failure.empty()) {
    device_problem_ = "process group: " + verdict.failure;
    try {
      wait(*start(Call{"barrier", "barrier", [](Backend& backend) { backend.barrier(); }}));
    } catch (const DistributedError&) {  // a rank has thrown already: so all know
    }
    return;
  }
  if (!verdict.problem.empty()) {
    warn_once("process group: GPUs", concat("process group: tensors on GPUs travel through host "
                                            "memory, because of ",
                                            verdict.problem));
    return;
  }
  std::unique_ptr<DeviceBackend> made;
  try {
    made =
        make_device_backend(static_cast<int>(options_.rank), static_cast<int>(options_.world_size),
                            device, limits_.call.count(), verdict.id);
  } catch (const Error& error) {  // the others meet over NCCL, and would wait for this rank
    abort(error.message());
    throw;
  } catch (const std::exception& error) {
    abort(error.what());
    throw;
  }
  DeviceBackend* const backend = made.get();
  {
    const std::lock_guard lock(mutex_);  // a failure from now on aborts it
    device_backend_ = std::move(made);
    if (failure_) throw_failure();
  }
  wait(*start(
      Call{"connection of GPUs", "connect GPUs", [backend](Backend&) { backend->connect(); }}));
}

void GroupState::leave_device() noexcept {
  if (!device_backend_) return;
  bool failed;
  {
    const std::lock_guard lock(mutex_);
    failed = failure_.has_value();
  }
  if (failed)
    device_backend_->abort();
  else
    device_backend_->leave();
}

}  // namespace lathe::distributed::detail
