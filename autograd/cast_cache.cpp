// The table of kept casts, one per thread, and when an entry is dropped.
#include "lathe/autograd/cast_cache.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/meta.h"

namespace lathe::amp {

namespace {

struct Kept {
  Tensor parameter;    // keeps the key, its address, from being reused
  StoragePtr storage;  // with the version: the values that were cast
  uint32_t version;
  bool grad;  // was the cast recorded?
  Tensor cast;
};

thread_local std::unordered_map<const TensorImpl*, Kept> t_casts;

std::atomic<void (*)() noexcept> after_drop_call = nullptr;

constexpr size_t kFirstPruning = 8;
thread_local size_t t_prune_at = kFirstPruning;  // entries

/// True if only this entry and the graph of its cast still hold the parameter.
bool is_abandoned(const Kept& kept) {
  uint32_t ours = 1;
  if (kept.grad) {
    for (const autograd::Edge& edge : autograd::meta_of(kept.cast).grad_fn->edges)
      ours += edge.leaf == kept.parameter.handle() ? 1 : 0;
  }
  return kept.parameter.handle()->use_count() == ours;
}

/// Drops entries that no find_cast() can ask for any more. Runs only when the table has doubled, so
/// that keeping a cast stays cheap.
void prune() {
  if (t_casts.size() < t_prune_at) return;
  std::erase_if(t_casts, [](const auto& entry) { return is_abandoned(entry.second); });
  t_prune_at = std::max(kFirstPruning, 2 * t_casts.size());
}

bool pays(const Tensor& t, DType dtype) {
  return is_half(dtype) && t.dtype() == kF32 && t.is_leaf() && t.requires_grad() &&
         !t.impl().base && !inference_enabled();
}

}  // namespace

Tensor find_cast(const Tensor& t, DType dtype) {
  const auto at = t_casts.find(t.handle().get());
  if (at == t_casts.end() || t.impl().lent) return {};
  const Kept& kept = at->second;
  const bool fresh = kept.storage == t.impl().storage && kept.version == t.version() &&
                     kept.grad == grad_enabled() && t.requires_grad() && !inference_enabled();
  return fresh && kept.cast.dtype() == dtype ? kept.cast : Tensor();
}

void keep_cast(const Tensor& t, const Tensor& cast) {
  if (!Autocast::active() || !pays(t, cast.dtype())) return;
  if (grad_enabled()) autograd::meta_of(cast).grad_fn->reusable = true;
  prune();
  t_casts.insert_or_assign(t.handle().get(),
                           Kept{t, t.impl().storage, t.version(), grad_enabled(), cast});
}

void drop_casts() noexcept {
  t_casts.clear();
  t_prune_at = kFirstPruning;
  if (const auto trim = after_drop_call.load(std::memory_order_acquire)) trim();
}

void after_drop(void (*trim)() noexcept) noexcept {
  after_drop_call.store(trim, std::memory_order_release);
}

}  // namespace lathe::amp
