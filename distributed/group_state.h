// GroupState: what a ProcessGroup and its calls share: connections, the thread that runs calls, and
// why the group failed. Used by process_group.cpp.
// Calls on GPUs: group_state_device.cpp.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/stream.h"
#include "lathe/core/tensor.h"
#include "lathe/distributed/backend.h"
#include "lathe/distributed/control_client.h"
#include "lathe/distributed/control_server.h"
#include "lathe/distributed/device_backend.h"

namespace lathe::distributed::detail {

/// One call of a ProcessGroup.
struct Call {
  std::string text;                   // "all_reduce_(sum) f32[3]", what debug mode compares
  const char* name = "";              // "all_reduce_"
  std::function<void(Backend&)> run;  // on the group's thread
  std::function<void()> finish = {};  // on the thread that waits: copies results to their place
  int64_t number = 0;                 // from 1
  // Of a call that is queued on a GPU; there `run` only watches it.
  std::shared_ptr<Event> reached = nullptr;
  Device device = {};
  Tensors kept = {};  // of a call that is recorded into a graph: until somebody has waited
  bool done = false;
  bool running = false;  // its tensors may be written now
  std::shared_ptr<GroupState> group = nullptr;
};

class GroupState : public std::enable_shared_from_this<GroupState> {
 public:
  explicit GroupState(const GroupOptions& options);
  ~GroupState();

  const GroupOptions& options() const { return options_; }
  const std::vector<std::string>& hosts() const { return hosts_; }

  /// Queues a call.
  std::shared_ptr<Call> start(Call call);
  /// Like start() without a backend, for a call that `launch` queues on the backend's stream,
  /// behind the work that is on the current stream by now.
  std::shared_ptr<Call> start(Call call, DeviceBackend& backend,
                              const std::function<void(DeviceBackend&)>& launch);
  void wait(Call& call);
  bool is_done(const Call& call) const;
  bool is_over(const Call& call) const { return call.done || (failure_ && !call.running); }
  void abort(const std::string& reason) noexcept;
  /// The backend for tensors on the device; null: they travel through host memory. The first
  /// question about a GPU is one to all ranks, and connects them. Waits. In group_state_device.cpp.
  /// throws: DistributedError if two ranks have the same GPU; DeviceError for a second GPU.
  DeviceBackend* backend_for(Device device);
  /// The text of every rank, in order. Waits.
  std::vector<std::string> all_gather_text(const std::string& text);
  /// Runs what is queued, leaves, and closes all connections.
  void leave() noexcept;

 private:
  void connect(const std::string& address);
  void connect_device(Device device);
  void leave_device() noexcept;
  std::shared_ptr<Call> record(Call call, DeviceBackend& backend,
                               const std::function<void(DeviceBackend&)>& launch);
  void check_can_launch();
  void watch_launch(DeviceBackend& backend);
  void run_calls();
  void run(Call& call);
  void compare(const Call& call);
  void set_failure(const Failure& failure);
  [[noreturn]] void throw_failure() const;
  std::pair<int64_t, std::vector<std::string>> report() const;

  const GroupOptions options_;
  const Limits limits_;
  std::vector<std::string> hosts_;
  bool asked_for_device_ = false;
  uint64_t recorded_in_ = 0;    // the last capture that has calls of this group
  std::string device_problem_;  // why this group has no place on GPUs, for every later call
  std::mutex finishing_;        // held while results are copied to their place

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  std::deque<std::shared_ptr<Call>> queue_;
  std::deque<std::string> texts_;  // of the last calls
  int64_t calls_ = 0;
  bool leaving_ = false;
  std::optional<Failure> failure_;

  // After all that the client's thread uses, and the client after what it aborts.
  std::unique_ptr<ControlServer> server_;  // on rank 0
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceBackend> device_backend_;
  std::unique_ptr<ControlClient> client_;
  std::thread thread_;
};

}  // namespace lathe::distributed::detail
