// DistributedDataParallel: what the ranks compare, and the buffers of rank 0.
#include "lathe/distributed/data_parallel.h"

#include <algorithm>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/format.h"
#include "lathe/distributed/reducer.h"
#include "lathe/distributed/replicate.h"

namespace lathe::distributed {

namespace {

void check(const DataParallelOptions& options) {
  LATHE_CHECK(ValueError, !options.compress || is_half(*options.compress),
              "DistributedDataParallel: compress must be f16 or bf16, got ", *options.compress);
  LATHE_CHECK(ValueError, options.first_bucket_bytes > 0 && options.bucket_bytes > 0,
              "DistributedDataParallel: buckets must have at least 1 byte, got ",
              options.first_bucket_bytes, " for the first bucket and ", options.bucket_bytes,
              " for the others");
}

void check_same_options(ProcessGroup& group, const DataParallelOptions& o) {
  const std::string own =
      concat("broadcast_buffers ", o.broadcast_buffers, "\nfind_unused_parameters ",
             o.find_unused_parameters, "\ncompress ", o.compress ? concat(*o.compress) : "none",
             "\nlearn_order ", o.learn_order, "\nfirst_bucket_bytes ", o.first_bucket_bytes,
             "\nbucket_bytes ", o.bucket_bytes);
  check_same(group, "DistributedDataParallel: the options", group.all_gather_text(own));
}

nn::Module::Named<Tensor> trained(const nn::Module& model) {
  nn::Module::Named<Tensor> out = model.named_parameters();
  std::erase_if(out, [](const auto& named) { return !named.second.requires_grad(); });
  LATHE_CHECK(ValueError, !out.empty(),
              "DistributedDataParallel: the model has no parameter that requires grad");
  return out;
}

/// Gives `tensors` of one dtype and device the values of rank 0, as one call.
void broadcast_together(ProcessGroup& group, const Tensors& tensors) {
  int64_t size = 0;
  for (const Tensor& t : tensors) size += t.numel();
  const Tensor all = empty({size}, {.dtype = tensors[0].dtype(), .device = tensors[0].device()});
  const auto each = [&](auto f) {
    int64_t at = 0;
    for (const Tensor& t : tensors) {
      f(t, alias(all, t.shape(), contiguous_strides(t.shape()), at));
      at += t.numel();
    }
  };
  if (group.rank() == 0) each([](const Tensor& t, const Tensor& part) { copy_values(part, t); });
  group.broadcast_(all).wait();
  if (group.rank() == 0) return;
  each([](const Tensor& t, const Tensor& part) {
    copy_values(t, part);
    t.bump_version();
  });
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(ProcessGroup& group, nn::Module& model,
                                                 const DataParallelOptions& options)
    : group_(group), model_(model), options_(options) {
  check(options);
  replicate(group, model);
  check_same_options(group, options);
  reducer_ = std::make_unique<Reducer>(group, trained(model), options);
}

DistributedDataParallel::~DistributedDataParallel() = default;

Tensor DistributedDataParallel::operator()(const Tensor& x) {
  broadcast_buffers();
  return model_(x);
}

void DistributedDataParallel::broadcast_buffers() {
  if (!options_.broadcast_buffers || group_.world_size() == 1 || !model_.is_training() ||
      !grad_enabled() || !reducer_->sync)
    return;
  std::vector<Tensors> alike;
  for (const auto& [name, buffer] : model_.named_buffers()) {
    const auto same = [&](const Tensors& group) {
      return group[0].dtype() == buffer.dtype() && group[0].device() == buffer.device();
    };
    const auto at = std::ranges::find_if(alike, same);
    if (at != alike.end()) at->push_back(buffer);
    if (at == alike.end()) alike.push_back({buffer});
  }
  for (const Tensors& tensors : alike) broadcast_together(group_, tensors);
}

DistributedDataParallel::NoSync::NoSync(Reducer& reducer)
    : reducer_(reducer), before_(std::exchange(reducer.sync, false)) {}

DistributedDataParallel::NoSync::~NoSync() { reducer_.sync = before_; }

DistributedDataParallel::NoSync DistributedDataParallel::no_sync() { return NoSync(*reducer_); }

double DistributedDataParallel::loss_weight(int64_t samples) {
  LATHE_CHECK(ValueError, samples >= 0, "loss_weight: a part of a batch cannot have ", samples,
              " samples");
  const Tensor sum = empty({}, {.dtype = kI64});
  fill_values(sum, samples);
  group_.all_reduce_(sum).wait();
  const auto all = sum.item<double>();
  LATHE_CHECK(ValueError, all > 0, "loss_weight: no rank has any sample of this batch");
  return static_cast<double>(samples) * static_cast<double>(group_.world_size()) / all;
}

std::vector<int64_t> DistributedDataParallel::bucket_bytes() const {
  std::vector<int64_t> out;
  for (const Bucket& bucket : reducer_->buckets()) out.push_back(bucket.bytes());
  return out;
}

}  // namespace lathe::distributed
