// CPU kernels of ops/creation.h: arange and linspace, by the functors of creation_math.h.
#include "lathe/core/convert.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/creation.h"

namespace lathe::cpu {

namespace {

template <class Make>
void fill(const Tensor& out, Make make) {
  constexpr int64_t kTask = 32768;
  visit_all(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.data<T>();
    parallel_for(out.numel(), kTask, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = convert<T>(make(i));
    });
  });
}

}  // namespace

void fill_sequence(const Tensor& out, math::IntegerSequence s) { fill(out, s); }
void fill_sequence(const Tensor& out, math::FloatSequence s) { fill(out, s); }
void fill_sequence(const Tensor& out, math::EvenlySpaced s) { fill(out, s); }

}  // namespace lathe::cpu
