// CPU kernel of dropout; see dropout.h. One Philox counter decides about four elements.
#include <algorithm>

#include "lathe/core/philox.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/dropout.h"

namespace lathe {

static constexpr int64_t kCountersPerTask = 4096;

void cpu::dropout(const Tensor& y, const Tensor& x, double p, double scale,
                  Generator::Block block) {
  const int64_t n = x.numel();
  if (n == 0) return;
  visit_float(x.dtype(), "dropout", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    T* out = y.data<T>();
    const T* in = x.data<T>();
    const float threshold = static_cast<float>(p);
    const A factor = static_cast<A>(scale);
    parallel_for((n + 3) / 4, kCountersPerTask, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const Philox4x32 bits =
            philox4x32_10(block.seed, block.offset + static_cast<uint64_t>(c), 0);
        const int64_t last = std::min<int64_t>(4, n - 4 * c);
        for (int64_t lane = 0; lane < last; ++lane) {
          const int64_t i = 4 * c + lane;
          const bool dropped = uniform_from_bits(bits.v[lane]) < threshold;
          out[i] = dropped ? T(0.0f) : static_cast<T>(static_cast<A>(in[i]) * factor);
        }
      }
    });
  });
}

}  // namespace lathe
