// Batch norm over all ranks: the sum as an op, and the layers that take it.
#include "lathe/distributed/sync_batch_norm.h"

#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/nn/batch_norm.h"

namespace lathe::distributed {

Tensor all_reduce(ProcessGroup& group, const Tensor& t) {
  LATHE_CHECK(DTypeError, is_floating(t.dtype()), "all_reduce: t must be floating (t: ", t, ")");
  const Tensor y = empty_like(t);
  copy_values(y, t);
  group.all_reduce_(y).wait();
  autograd::record("all_reduce", y, {t}, [&group](const Tensor& dy, const autograd::Needs&) {
    return Tensors{all_reduce(group, dy)};
  });
  return y;
}

int64_t convert_sync_batch_norm(ProcessGroup& group, nn::Module& model) {
  int64_t count = 0;
  model.apply([&](nn::Module& module) {
    auto* const norm = dynamic_cast<nn::BatchNorm*>(&module);
    if (norm == nullptr) return;
    ++count;
    if (group.world_size() == 1) return;
    norm->set_sum_over_ranks([&group](const Tensor& t) { return all_reduce(group, t); });
  });
  return count;
}

}  // namespace lathe::distributed
