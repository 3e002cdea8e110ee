// DistributedDataParallel: a model that every rank trains on its part of each batch.
//
//   ProcessGroup group(options);
//   DistributedDataParallel parallel(group, model);
//   optim::SGD optimizer(model.parameters(), {.lr = 0.1});
//   for (auto& [x, y] : loader) {               // this rank's part: data::DistributedSampler
//     optimizer.zero_grad();
//     cross_entropy(parallel(x), y).backward();  // gradients: the average over all ranks
//     optimizer.step();
//   }
//
// data_parallel.cpp: buffers and options; reducer.cpp: gradients during a backward pass;
// buckets.cpp: the memory of gradients; autograd/leaf_listener.h: how the engine reports a complete
// gradient.
//
// Note [Gradients that travel during the backward pass]
// Gradients lie in buckets. When a bucket's last gradient is complete, its reduction begins on the
// group's thread, and the backward pass goes on. All ranks reduce buckets in the same order. At
// first this is the order of the parameters, backwards. After the first pass it is the order in
// which gradients were complete on rank 0. If a parameter has no grad() yet, a part of the bucket
// becomes its grad(). An existing grad() gets the values in place. If the program still holds a
// tensor that was grad(), that tensor keeps its values: the bucket takes new memory for the next
// pass. Behind its gradients, a bucket has one mark for each gradient, which says whether this rank
// had that gradient. So after the reduction all ranks know if a rank lacked a gradient, and throw
// the same error. Over NCCL the marks on a GPU are read in the next pass, so that the host does not
// wait for the present pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lathe/distributed/process_group.h"
#include "lathe/nn/module.h"

namespace lathe::distributed {

struct DataParallelOptions {
  bool broadcast_buffers = true;  // each training forward begins with the buffers of rank 0
  // true: a loss need not depend on all parameters. If only some ranks used a parameter, the others
  // contribute 0 to its average. A parameter that no rank used keeps its grad().
  bool find_unused_parameters = false;
  // kF16 or kBF16: gradients of wider dtypes are divided by the number of ranks and sent in this
  // dtype.
  std::optional<DType> compress = {};
  // false: gradients are sent in the reverse order of the parameters in all passes. With more than
  // two ranks, a gradient's position in its bucket decides how its sum is rounded. So set this to
  // false if a resumed training must have the bits of an uninterrupted one.
  bool learn_order = true;
  int64_t first_bucket_bytes = int64_t{1} << 20;  // reached early, so the first reduction is early
  int64_t bucket_bytes = int64_t{25} << 20;
};

class Reducer;

/// Averages a model's gradients over all ranks in every backward pass. The model's names, state and
/// optimisers stay as they are. A DistributedDataParallel cannot be copied or moved. The process
/// group and the model must outlive it. While it exists, do not change the model's device or dtype,
/// or which parameters require grad.
///   - All ranks must run the same backward passes, one at a time.
///   - If a backward pass fails on one rank, the process group ends, and all ranks' errors name
///     that rank.
///   - A backward pass over NCCL can be captured into a CUDA graph, after the first backward pass
///     and without find_unused_parameters. In the capture, it throws StateError for a parameter
///     without a gradient.
class LATHE_API DistributedDataParallel {
 public:
  /// Copies the parameters and buffers of rank 0 to all ranks. Waits for all ranks.
  /// throws: on all ranks, DistributedError naming the rank and the tensor or option that differs;
  /// ValueError if `compress` is not a half dtype, a bucket size is below 1, or no parameter
  /// requires grad; StateError if another DistributedDataParallel has one of the parameters.
  DistributedDataParallel(ProcessGroup& group, nn::Module& model,
                          const DataParallelOptions& options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Calls broadcast_buffers(), then the model. A backward() through the model, however it was
  /// called, gives every parameter the average of its gradients over all ranks.
  /// backward() throws one of these:
  ///   - StateError on all ranks, naming rank and parameter, if a rank's loss does not depend on a
  ///     parameter; no grad() has changed then. Over NCCL the error comes late, from the next
  ///     backward(), and grad() has changed by then. With find_unused_parameters there is no such
  ///     error.
  ///   - StateError if create_graph is set. (autograd::grad() allows create_graph.)
  ///   - DistributedError if a rank failed.
  Tensor operator()(const Tensor& x);

  /// Copies the model's buffers from rank 0 to all ranks, and waits as Work::wait() does. Does
  /// nothing without DataParallelOptions::broadcast_buffers, in evaluation mode, under NoGrad, or
  /// in the scope of no_sync(). Call it before the forward() of a model with another signature than
  /// Tensor(const Tensor&).
  void broadcast_buffers();

  class [[nodiscard]] NoSync {
   public:
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    friend DistributedDataParallel;
    explicit NoSync(Reducer& reducer);
    Reducer& reducer_;
    bool before_;
  };
  /// While the returned object is alive, backward() adds only this rank's gradients to grad(). The
  /// first backward() after the object's end averages the sums over the ranks. Use it for all
  /// batches of an accumulated step except the last one.
  NoSync no_sync();

  /// Returns `samples` · world size / (sum of `samples` over all ranks). Multiply each rank's mean
  /// loss by this factor. The average of the gradients over the ranks is then the gradient of the
  /// mean over all samples, also if ranks have different numbers of samples. All ranks must call
  /// it. Waits for all ranks.
  /// throws: ValueError if `samples` is negative, or if no rank has samples.
  double loss_weight(int64_t samples);

  nn::Module& module() { return model_; }
  ProcessGroup& group() { return group_; }
  /// The sizes of the buckets, in the order of their reduction.
  std::vector<int64_t> bucket_bytes() const;

 private:
  ProcessGroup& group_;
  nn::Module& model_;
  DataParallelOptions options_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace lathe::distributed
