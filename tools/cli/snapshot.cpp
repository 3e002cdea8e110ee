#include "lathe/tools/cli/snapshot.h"

#include "lathe/core/copy.h"

namespace lathe::cli {

Tensor Snapshot::room_for(const Tensor& from) const {
  if (place_ == Place::kDevice && from.device().is_cuda()) {
    try {
      return empty_like(from);
    } catch (const OutOfMemoryError&) {  // training needs it more
    }
  }
  return empty(from.shape(), {.dtype = from.dtype()});
}

void Snapshot::take(const Checkpoint& checkpoint) {
  Checkpoint fresh{.tensors = {}, .metadata = checkpoint.metadata};
  for (const auto& [name, from] : checkpoint.tensors) {
    const Tensor* const old = copy_.tensors.find(name);
    const bool fits =
        old != nullptr && old->shape() == from.shape() && old->dtype() == from.dtype();
    const Tensor to = fits ? *old : room_for(from);
    copy_values(to, from);
    fresh.tensors.add(name, to);
  }
  copy_ = std::move(fresh);
}

}  // namespace lathe::cli
