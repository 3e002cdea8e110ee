// ProcessGroup: a group of processes that compute together and exchange tensors.
//
// process_group.cpp: the calls, their order and the thread that runs them; backend_gloo.cpp:
// collectives on host memory, by Gloo; device_backend_nccl.cpp: collectives on GPUs, by NCCL;
// group_state_device.cpp: Note [Calls on a GPU]; control_client_place.cpp: how ranks find each
// other. Rank 0 runs control_server.cpp, every rank control_client.cpp, through which a rank learns
// that another one failed.
//
// Note [A rank that fails]
// Collectives alone notice a lost rank late, and never say why. So every rank keeps a control
// connection to rank 0, besides the connections for data. A rank that ends sends its reason, or its
// connection breaks. A rank that is stopped or cut off is silent. A rank in an endless loop still
// answers, with the number of calls that it has made. So in every case the other ranks learn within
// the timeout which rank failed, on which host, and why. Each of them reports it in one sentence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/distributed/error.h"
#include "lathe/distributed/group_options.h"

namespace lathe::distributed {

enum class Reduce : uint8_t { kSum, kAverage, kMin, kMax, kProduct };

/// True if this build can join several processes, which needs Gloo (-DLATHE_DISTRIBUTED). A group
/// of one process works in every build.
LATHE_API bool is_available() noexcept;

namespace detail {
struct Call;
class GroupState;
}  // namespace detail

/// A call of a ProcessGroup that may still be running. Copies of a Work refer to the same call.
class LATHE_API Work {
 public:
  Work() = default;  // a call that is over
  explicit Work(std::shared_ptr<detail::Call> call) : call_(std::move(call)) {}

  /// Waits for the end of the group's call that returned this Work. For tensors on a GPU over NCCL
  /// the current stream waits, and the host does not. Do not read, write or reshape the call's
  /// tensors before wait() returns.
  /// throws: DistributedError naming the rank that failed. Every later call on the group throws it,
  /// too. After the error the call writes nothing more, but its tensors may be written in part.
  void wait();
  /// True if the call is over: wait() would return immediately, and would not make the current
  /// stream wait.
  bool done() const;

 private:
  std::shared_ptr<detail::Call> call_;
};

/// A group of `world_size` processes. All processes must make the same calls in the same order.
/// Calls run one after another on a thread of the group, while the caller goes on. Gloo gives every
/// rank the same bits, in every run. NCCL may give other bits in another run.
///
/// Tensors may have any strides. f16 and bf16 sums are rounded after each addition.
///
/// Tensors on a GPU go over NCCL if all ranks have it:
///   - Each rank must use one GPU of its own, always the same. The first call on a GPU's tensors
///     connects all ranks.
///   - A call is queued behind the work of the current stream and runs on a stream of the group,
///     while the host goes on. NCCL may connect some ranks only in the first calls; a host then
///     waits in such a call until they are connected.
///   - All calls but the first can be captured into a CUDA graph. Destroy such a graph before
///     the group, because NCCL waits for it.
///   - After a failure, tensors written by calls on GPUs, and everything computed from them, have
///     undefined values. barrier().wait() throws then.
///   - kMin and kMax may lose a NaN.
/// Without NCCL these tensors are sent through host memory, and the call waits for the GPU.
///
/// A process leaves the group by destroying its ProcessGroup. If an exception is the reason, the
/// other processes are told immediately. Otherwise they notice in their next call. Over NCCL, a
/// broadcast from the process that left may not reach a rank that is seconds behind. So all ranks
/// should wait for a barrier() before they leave.
class LATHE_API ProcessGroup {
 public:
  /// Joins the process group. Returns when all ranks have joined.
  /// throws: ValueError for options out of range; DistributedError in these cases:
  ///   - a rank is missing after the timeout, joins twice, or does not know the token
  ///   - a rank has another world size or version of Lathe
  ///   - rank 0 cannot listen at the rendezvous, or cannot be reached
  ///   - there are several ranks, and this build has no Gloo
  explicit ProcessGroup(const GroupOptions& options);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int64_t rank() const;
  int64_t world_size() const;
  const GroupOptions& options() const;
  /// The name of the machine of `rank`.
  const std::string& host(int64_t rank) const;

  // Each of these functions returns without waiting. It writes its first argument when the call
  // runs.
  // throws: one of these; nothing has changed then:
  //   - DTypeError for a reduction of bool, or kAverage of integers; ShapeError
  //   - IndexError for a root that is not a rank
  //   - ValueError for a tensor to write that overlaps itself
  //   - StateError for a tensor that requires grad, except under NoGrad, because autograd does not
  //     record these calls (it records all_reduce() of sync_batch_norm.h); StateError in a capture
  //     without NCCL
  //   - DistributedError if the group has failed, or if two ranks pass tensors on the same GPU

  /// Sets t to the reduction of t over all ranks. kAverage needs a floating dtype.
  Work all_reduce_(const Tensor& t, Reduce op = Reduce::kSum);
  /// Sets t to rank root's t.
  Work broadcast_(const Tensor& t, int64_t root = 0);
  /// Sets out[r] to rank r's `in`. The shape of `out` is [world_size] followed by that of `in`.
  Work all_gather_(const Tensor& out, const Tensor& in);
  /// Sets `out` to the reduction of in[rank()] over all ranks. The shape of `in` is [world_size]
  /// followed by the shape of `out`. Over Gloo every rank reduces all of `in`.
  Work reduce_scatter_(const Tensor& out, const Tensor& in, Reduce op = Reduce::kSum);
  /// True if calls on tensors of `device` go over NCCL, so that they run on the GPU while the host
  /// goes on. False for the CPU, without NCCL, and in a group of one process. queues_on() counts as
  /// a call: all ranks must make it, in the same order as their other calls. The group's first call
  /// that concerns a GPU, also this one, waits until all ranks are connected.
  /// throws: what a call on a tensor of `device` throws.
  bool queues_on(Device device);
  /// Returns a Work that ends when all ranks have called barrier() and all their earlier calls have
  /// ended.
  Work barrier();

  /// The text of every rank, in order. Waits for all ranks.
  std::vector<std::string> all_gather_text(const std::string& text);

  /// Ends the process group on all ranks and names this rank as the cause. The calls of all ranks
  /// then throw an error with `reason`. Call it in an error handler before the process ends.
  void abort(const std::string& reason) noexcept;

 private:
  Work start(const Tensor& written, detail::Call call);

  std::shared_ptr<detail::GroupState> state_;
  int exceptions_;  // in flight when the group was made
};

}  // namespace lathe::distributed
