// ProcessGroup: processes that compute together, and what they exchange.
//
// process_group.cpp: the calls, their order and the thread that runs them; backend_gloo.cpp: the
// collectives on host memory, which are Gloo's; device_backend_nccl.cpp: those on GPUs, which are
// NCCL's; group_state_device.cpp, Note [Calls on a GPU]; control_client_place.cpp: how ranks find
// each other. Rank 0 runs control_server.cpp, every rank control_client.cpp: so each learns that
// another one failed.
//
// Note [A rank that fails]
// Collectives alone notice a lost rank late, and never say why. So besides the connections on which
// data travels, every rank keeps one to rank 0. A rank that ends sends its reason, or the
// connection breaks. A rank that is stopped or cut off is silent. A rank that computes for ever
// still answers, with the number of calls that it has made. So whatever happens, all other ranks
// get one sentence that names the rank, its host and the cause, within the timeout.
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

/// True if this build can join processes: with Gloo (-DLATHE_DISTRIBUTED). A world of one process
/// needs none.
LATHE_API bool is_available() noexcept;

namespace detail {
struct Call;
class GroupState;
}  // namespace detail

/// A call that is under way. Copies are handles of the same call.
class LATHE_API Work {
 public:
  Work() = default;  // a call that is over
  explicit Work(std::shared_ptr<detail::Call> call) : call_(std::move(call)) {}

  /// Waits for the call; of tensors on a GPU, over NCCL, the current stream waits and the host goes
  /// on. Only afterwards its tensors may be read, written or given another shape.
  /// throws: DistributedError, which names the rank that failed; every later call on the group
  /// throws it too. The call then writes no more, but may have written a part.
  void wait();
  /// True if wait() would not wait, nor the stream.
  bool done() const;

 private:
  std::shared_ptr<detail::Call> call_;
};

/// A group of `world_size` processes. Each one makes the same calls in the same order; they run one
/// after another on a thread of the group, while the caller goes on. Over Gloo every rank gets the
/// same bits, the same ones in every run. NCCL promises nothing from run to run.
///
/// Tensors may have any strides. f16 and bf16 sums are rounded after each addition.
///
/// Tensors on a GPU go over NCCL if all ranks have it. Each rank has a GPU of its own, always the
/// same one; the first call for it connects all ranks. A call is queued behind the work of the
/// current stream, runs on a stream of the group, and waits for no host. All but the first can be
/// part of a captured graph, whose launches then make them; such a graph must be gone before the
/// group, because NCCL waits for it. NCCL may connect some ranks only in the
/// first calls, which then wait for them. After a failure the tensors that calls on GPUs wrote hold
/// anything, and so does what was computed from them; barrier().wait() throws if it is so. kMin and
/// kMax may lose a NaN there. Without NCCL these tensors travel through host memory, and the call
/// waits for the GPU.
///
/// A process that leaves without an exception does not disturb the others until they call again.
/// Over NCCL it may: what it sent in a broadcast is lost for a rank that is seconds behind. There
/// all ranks wait for a barrier() before they leave.
/// Whoever leaves because of an exception tells them at once.
class LATHE_API ProcessGroup {
 public:
  /// Joins the group and returns when all ranks have.
  /// throws: ValueError for options out of range; DistributedError if a rank is missing after the
  /// timeout, joins twice, has another world size or version of Lathe, or does not know the token;
  /// if rank 0 cannot listen there, or cannot be reached; or if this build holds no Gloo and there
  /// is more than one rank.
  explicit ProcessGroup(const GroupOptions& options);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int64_t rank() const;
  int64_t world_size() const;
  const GroupOptions& options() const;
  /// The name of the machine of `rank`.
  const std::string& host(int64_t rank) const;

  // Each of these returns at once. They write their first argument, when the call runs.
  // throws: DTypeError for a reduction of bool, and for kAverage of integers; ShapeError;
  // IndexError for a root that is no rank; ValueError for a tensor to write that overlaps itself;
  // StateError, unless under NoGrad, for a tensor that requires grad, since nothing is recorded
  // (sync_batch_norm.h has one that does), and in a capture without NCCL; DistributedError if
  // the group has failed, or if two ranks call for the same GPU. Then nothing has changed.

  /// t = the reduction of t over all ranks. kAverage: floating dtypes only.
  Work all_reduce_(const Tensor& t, Reduce op = Reduce::kSum);
  /// t = t of rank `root`.
  Work broadcast_(const Tensor& t, int64_t root = 0);
  /// out[r] = in of rank r: out is [world_size, …in].
  Work all_gather_(const Tensor& out, const Tensor& in);
  /// out = the reduction of in[rank] over all ranks: in is [world_size, …out]. Gloo reduces all of
  /// it on every rank.
  Work reduce_scatter_(const Tensor& out, const Tensor& in, Reduce op = Reduce::kSum);
  /// True if calls on tensors of `device` are queued there and no host waits. All ranks must ask,
  /// or call, together: the first question about a GPU connects them, and waits.
  /// throws: as a call does.
  bool queues_on(Device device);
  /// Is over when all ranks have called it, and what they called before is over.
  Work barrier();

  /// The text of every rank, in order. Waits.
  std::vector<std::string> all_gather_text(const std::string& text);

  /// Ends the group on all ranks, with this rank as the cause: their calls throw `reason`. What an
  /// error handler calls before the process ends.
  void abort(const std::string& reason) noexcept;

 private:
  Work start(const Tensor& written, detail::Call call);

  std::shared_ptr<detail::GroupState> state_;
  int exceptions_;  // in flight when the group was made
};

}  // namespace lathe::distributed
