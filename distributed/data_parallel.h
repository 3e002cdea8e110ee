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
// buckets.cpp: where they lie; autograd/leaf_listener.h: how the engine says that one is complete.
//
// Note [Gradients that travel during the backward pass]
// Gradients lie in buckets. When a bucket's last gradient is complete, its reduction begins on the
// group's thread, and the backward pass goes on. All ranks reduce buckets in the same order.
// At first it is that of the parameters, backwards. After the first pass it is the order
// in which gradients came on rank 0. grad() of a parameter without one becomes a part of the
// bucket; one that exists gets its values in place. No bucket is written while anybody holds a
// gradient in it: a tensor that was grad() keeps its values.
// Behind its gradients a bucket carries a mark for each, which says whether this rank had one. So
// all ranks know after the reduction that one of them had none, and throw the same error. Marks on
// a GPU, over NCCL, are looked at in the next pass, so that the host does not wait for this one.
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
  // kF16 or kBF16: gradients of wider dtypes are rounded to it, divided by the number of ranks, for
  // the way between ranks.
  std::optional<DType> compress = {};
  // false: gradients travel in the order of the parameters, backwards, from the first pass on. A
  // sum over more than two ranks rounds by its place in a bucket, so a training that is continued
  // then has the bits of one that was not interrupted.
  bool learn_order = true;
  int64_t first_bucket_bytes = int64_t{1} << 20;  // reached early, so the first reduction is early
  int64_t bucket_bytes = int64_t{25} << 20;
};

class Reducer;

/// The model stays as it is: its names, its state and optimisers of its parameters. Neither copied
/// nor moved; group and model must outlive it. Which parameters are trained, and the model's device
/// and dtype, must not change after it is made.
/// All ranks must run the same backward passes. One pass at a time. A pass that fails on one rank
/// ends the group, with that rank as the cause. A pass over NCCL can be captured into a graph once
/// the order is learnt, without find_unused_parameters; a parameter without a gradient is a
/// StateError there.
class LATHE_API DistributedDataParallel {
 public:
  /// Gives parameters and buffers the values of rank 0. Waits.
  /// throws: DistributedError if the models or the options differ, naming rank and entry, on all
  /// ranks; ValueError for a dtype to compress to that is no half, for sizes below 1, for a model
  /// without parameters that require grad; StateError for a parameter that another one reduces.
  DistributedDataParallel(ProcessGroup& group, nn::Module& model,
                          const DataParallelOptions& options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// broadcast_buffers(), then the model. backward() of what is computed from the result, or from
  /// the model called in any other way, gives every parameter the average gradient of all ranks.
  /// That pass throws StateError if the loss does not depend on a parameter on some rank: on all
  /// ranks, naming both, and no grad() changes (not with find_unused_parameters). Over NCCL it is
  /// the next pass that throws, for gradients that the first one changed. A pass also throws
  /// StateError with create_graph, which grad() may have; and DistributedError if a rank failed.
  Tensor operator()(const Tensor& x);

  /// Gives the model's buffers the values of rank 0, where the options say so, the model is
  /// training and gradients are recorded. Not in the scope of no_sync(). Waits. For a model with
  /// another forward(): call it before that.
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
  /// While the result lives, backward() adds this rank's own gradients to grad(). The next pass
  /// after it averages the sums. For all batches but the last one of an accumulated step.
  NoSync no_sync();

  /// samples · world size / samples of all ranks. A mean loss times this has, averaged over ranks,
  /// the gradient of the mean over all samples, however many each rank has. Every rank calls it.
  /// Waits.
  /// throws: ValueError if `samples` is negative, or if no rank has any.
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
