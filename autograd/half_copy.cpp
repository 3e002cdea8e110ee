// Which half copies are their parameters', and what captured graphs do to stay right. See
// half_copy.h, Note [Half copies].
#include "lathe/autograd/half_copy.h"

#include <memory>
#include <mutex>
#include <utility>

#include "lathe/autograd/meta.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dense.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/stream.h"

namespace lathe::amp {

using autograd::leaf_mutex;

/// Guarded by the parameter's leaf_mutex.
struct HalfCopy {
  Tensor copy;                       // undefined before the first cast
  const Storage* storage = nullptr;  // with the version: the values that `copy` holds; forgotten
  uint32_t version = 0;              // when the parameter gets other memory (set_data)
  Stream stream;                     // on which it was written
  bool lost = false;                 // some graph writes the parameter without it
  uint64_t refreshed_by = 0;         // the last capture whose graph refreshes it
  uint64_t gradient_of = 0;          // the capture in which the half gradient was made; 0: in none

  bool is_of(const Tensor& t) const {
    return copy.defined() && !lost && storage == t.impl().storage.get() && version == t.version();
  }
  void note(const Tensor& t, Stream on) {
    storage = t.impl().storage.get();
    version = t.version();
    stream = on;
  }
};

namespace {

/// Null if none is kept.
std::shared_ptr<HalfCopy> kept_of(const Tensor& t) {
  const TensorImpl& impl = t.impl();
  if (impl.meta == nullptr || impl.lent) return nullptr;
  return impl.meta->half_copy;
}

bool suits(const Tensor& t) {
  return t.dtype() == kF32 && t.device().is_cuda() && !t.impl().base && is_dense(t);
}

/// True if only the record holds the memory.
bool is_free(const Tensor& copy) { return copy.impl().storage->use_count() == 1; }

void make(HalfCopy& kept, const Tensor& t, DType dtype, Stream stream) {
  const bool fits = kept.copy.defined() && kept.copy.dtype() == dtype &&
                    kept.copy.device() == t.device() && kept.copy.shape() == t.shape() &&
                    kept.copy.strides() == t.strides();
  if (!fits || !is_free(kept.copy)) {
    const profile::MemoryTagScope tag(profile::MemoryTag::kOptimizer);
    kept.copy = empty_strided(t.shape(), t.strides(), dtype, t.device());
  } else {
    record_stream(kept.copy, stream);  // it may have been made on another one
  }
  kept.storage = nullptr;  // should the copy fail
  copy_values(kept.copy, t);
  kept.note(t, stream);
}

/// Before a launch of a graph that reads or writes `copy`.
struct Refresh {
  Tensor parameter, copy;
  std::shared_ptr<HalfCopy> kept;
  bool first = true;

  void operator()() {
    const std::lock_guard lock(leaf_mutex(&parameter.impl()));
    const Stream stream = current_stream(copy.device());
    const bool in_use = kept->copy.is_same(copy);
    // Written after the capture noted it: by the graph itself, as far as anybody can tell.
    if (std::exchange(first, false) && in_use && !kept->is_of(parameter)) kept->lost = true;
    if (in_use && kept->is_of(parameter) && kept->stream == stream) return;
    if (!in_use) kept->storage = nullptr;  // the launch may write the parameter, but not that copy
    if (!suits(parameter) || !(parameter.shape() == copy.shape())) return;
    copy_values(copy, parameter);
    if (in_use && !kept->lost) kept->note(parameter, stream);
  }
};

/// Once in each capture.
void refresh_before_launches(const Tensor& t, const std::shared_ptr<HalfCopy>& kept) {
  const uint64_t capture = cuda::capture_number();
  if (std::exchange(kept->refreshed_by, capture) == capture) return;
  cuda::before_each_launch(Refresh{t, kept->copy, kept});
}

}  // namespace

void keep_half_copy(const Tensor& parameter) {
  if (!suits(parameter) || !parameter.is_leaf() || parameter.impl().lent) return;
  autograd::Meta& meta = autograd::meta_of(parameter);
  const std::lock_guard lock(leaf_mutex(&parameter.impl()));
  if (!meta.half_copy) meta.half_copy = std::make_shared<HalfCopy>();
}

Tensor half_copy(const Tensor& t, DType dtype) {
  const std::shared_ptr<HalfCopy> kept = kept_of(t);
  if (!kept || !is_half(dtype) || !suits(t)) return {};
  const std::lock_guard lock(leaf_mutex(&t.impl()));
  if (kept->lost) return {};
  const Stream stream = current_stream(t.device());
  const bool is_there = kept->is_of(t) && kept->copy.dtype() == dtype;
  if (cuda::is_capturing(stream)) {
    if (!is_there) return {};
    refresh_before_launches(t, kept);
  } else if (!is_there || !(kept->stream == stream)) {
    make(*kept, t, dtype, stream);
  }
  return kept->copy.detach();
}

Tensor half_copy_to_write(const Tensor& parameter) {
  const std::shared_ptr<HalfCopy> kept = kept_of(parameter);
  if (!kept) return {};
  const std::lock_guard lock(leaf_mutex(&parameter.impl()));
  if (!kept->is_of(parameter) || !is_free(kept->copy)) return {};
  const Stream stream = current_stream(parameter.device());
  if (cuda::is_capturing(stream)) {
    refresh_before_launches(parameter, kept);
  } else if (!(kept->stream == stream)) {
    return {};
  }
  return kept->copy;
}

void half_copy_written(const Tensor& parameter, const Tensor& written) {
  const std::shared_ptr<HalfCopy> kept = kept_of(parameter);
  if (!kept) return;
  const std::lock_guard lock(leaf_mutex(&parameter.impl()));
  if (written.defined() && kept->copy.is_same(written)) {
    kept->version = parameter.version();
  } else if (cuda::is_capturing(current_stream(parameter.device()))) {
    kept->lost = true;
  }
}

void half_copy_outdated(const Tensor& t) {
  const std::shared_ptr<HalfCopy> kept = kept_of(t);
  if (!kept) return;
  const std::lock_guard lock(leaf_mutex(&t.impl()));
  kept->storage = nullptr;
}

bool takes_half_gradient(const TensorImpl& leaf) noexcept {
  return leaf.dtype == kF32 && !leaf.lent && leaf.meta != nullptr &&
         leaf.meta->half_copy != nullptr && leaf.storage->device().is_cuda();
}

void half_gradient_arrives(const IntrusivePtr<TensorImpl>& leaf) {
  leaf->meta->half_copy->gradient_of = cuda::capture_number();
  // Later launches write the half gradient: grad() must follow them.
  cuda::at_end_of_capture([t = Tensor(leaf)] { t.grad(); });
}

Tensor arrived_grad(const Tensor& t) {
  if (t.impl().meta == nullptr) return {};
  const std::lock_guard lock(leaf_mutex(&t.impl()));
  const Tensor& grad = t.impl().meta->grad;
  const bool is_half_copy = grad.defined() && grad.dtype() != t.dtype();
  const uint64_t capture = cuda::capture_number();
  LATHE_CHECK(StateError,
              !is_half_copy || capture == 0 || t.impl().meta->half_copy->gradient_of == capture,
              "a graph cannot be captured that reads the gradient of ", t,
              ": this gradient is half, and the next backward pass makes a new one. Capture the "
              "backward pass too, or call grad() before the capture");
  return grad;
}

void widen(Tensor& gradient, DType dtype) {
  if (!gradient.defined() || gradient.dtype() == dtype) return;
  const Tensor wide = widened(gradient, dtype);
  record_stream(gradient, current_stream(gradient.device()));  // it may go before that has read it
  gradient = wide;
}

Tensor widened(const Tensor& gradient, DType dtype) {
  if (gradient.dtype() == dtype) return gradient;
  const Tensor wide = empty_like(gradient, dtype);
  copy_values(wide, gradient);
  return wide;
}

}  // namespace lathe::amp
