#include "lathe/tools/cli/snapshot.h"

#include "lathe/core/copy.h"

namespace lathe::cli {

void Snapshot::take(const Checkpoint& checkpoint) {
  Checkpoint fresh{.tensors = {}, .metadata = checkpoint.metadata};
  for (const auto& [name, from] : checkpoint.tensors) {
    const Tensor* const old = copy_.tensors.find(name);
    const bool fits =
        old != nullptr && old->shape() == from.shape() && old->dtype() == from.dtype();
    const Tensor to = fits ? *old : empty(from.shape(), {.dtype = from.dtype()});
    copy_values(to, from);
    fresh.tensors.add(name, to);
  }
  copy_ = std::move(fresh);
}

}  // namespace lathe::cli
