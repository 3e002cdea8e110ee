// Companions, kept in Meta. Contracts: companion.h.
#include "lathe/autograd/companion.h"

#include "lathe/autograd/meta.h"

namespace lathe::autograd {

void set_companion(const Tensor& y, const Tensor& companion) {
  meta_of(y).companion = {companion, y.impl().storage.get(), y.version()};
}

Tensor companion_of(const Tensor& y) {
  const Meta* const meta = y.impl().meta;
  if (meta == nullptr) return {};
  const Companion& kept = meta->companion;
  const bool same = kept.storage == y.impl().storage.get() && kept.version == y.version();
  return same ? kept.tensor : Tensor();
}

}  // namespace lathe::autograd
