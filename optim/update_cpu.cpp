// The optimisers' loops on the CPU: one pass over each parameter, all parameters shared out among
// the threads as if they were one long array. Each element is computed alone, so the thread count
// changes nothing.
#include <algorithm>
#include <type_traits>

#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/optim/update.h"
#include "lathe/optim/update_math.h"

namespace lathe::optim::cpu {

namespace {

/// The arrays of one item from element `begin` on, with their types.
template <class T>
struct Arrays {
  using C = ComputeType<T>;
  T* p;
  const T* g;
  C *a, *b, *c;  // the buffers

  Arrays(const UpdateItem& item, int64_t begin)
      : p(static_cast<T*>(item.param) + begin),
        g(static_cast<const T*>(item.grad) + begin),
        a(buffer(item, 0, begin)),
        b(buffer(item, 1, begin)),
        c(buffer(item, 2, begin)) {}

 private:
  static C* buffer(const UpdateItem& item, size_t k, int64_t begin) {
    return item.buffers[k] == nullptr ? nullptr : static_cast<C*>(item.buffers[k]) + begin;
  }
};

/// Calls update(item, arrays, n) for stretches of n elements that cover all items. Allocates
/// nothing: see Optimizer::update.
template <class Update>
void for_all(std::span<const UpdateItem> items, const char* op, Update&& update) {
  int64_t total = 0;
  for (const UpdateItem& item : items) total += item.n;
  parallel_for(total, kParallelGrain, [&](int64_t begin, int64_t end) {
    int64_t start = 0;  // of the item in the long array
    for (const UpdateItem& item : items) {
      if (start >= end) return;
      const int64_t first = std::max(begin, start), stop = std::min(end, start + item.n);
      if (first < stop) {
        visit_float(item.dtype, op, [&](auto tag) {
          update(item, Arrays<typename decltype(tag)::type>(item, first - start), stop - first);
        });
      }
      start += item.n;
    }
  });
}

/// The loops: every rule over n elements of dense arrays. Compiled for several instruction sets;
/// none contracts a·b + c, so that all give the same bits.
template <class T, class C = ComputeType<T>>
LATHE_CLONES void sgd_plain(T* __restrict__ p, const T* __restrict__ g, int64_t n,
                            SgdMath<C> math) {
  for (int64_t i = 0; i < n; ++i) p[i] = T(math.plain(C(p[i]), C(g[i])));
}
template <class T, class C = ComputeType<T>>
LATHE_CLONES void sgd_first(T* __restrict__ p, const T* __restrict__ g, C* __restrict__ b,
                            int64_t n, SgdMath<C> math) {
  for (int64_t i = 0; i < n; ++i) p[i] = T(math.first(C(p[i]), C(g[i]), b[i]));
}
template <class T, class C = ComputeType<T>>
LATHE_CLONES void sgd_later(T* __restrict__ p, const T* __restrict__ g, C* __restrict__ b,
                            int64_t n, SgdMath<C> math) {
  for (int64_t i = 0; i < n; ++i) p[i] = T(math.later(C(p[i]), C(g[i]), b[i]));
}
template <class T, class C = ComputeType<T>>
LATHE_CLONES void adam(T* __restrict__ p, const T* __restrict__ g, C* __restrict__ m,
                       C* __restrict__ v, int64_t n, AdamMath<C> math) {
  for (int64_t i = 0; i < n; ++i) p[i] = T(math.adam(C(p[i]), C(g[i]), m[i], v[i]));
}
template <class T, class C = ComputeType<T>>
LATHE_CLONES void amsgrad(T* __restrict__ p, const T* __restrict__ g, C* __restrict__ m,
                          C* __restrict__ v, C* __restrict__ w, int64_t n, AdamMath<C> math) {
  for (int64_t i = 0; i < n; ++i) p[i] = T(math.amsgrad(C(p[i]), C(g[i]), m[i], v[i], w[i]));
}
template <class T, class C = ComputeType<T>>
LATHE_CLONES void rmsprop(T* __restrict__ p, const T* __restrict__ g, C* v, C* b, C* a, int64_t n,
                          RmspropMath<C> math, bool centered) {
  for (int64_t i = 0; i < n; ++i) {
    const C before = C(p[i]), decayed = math.decayed(before, C(g[i]));
    const C square = math.mean_square(decayed, v[i]);
    const C d = centered ? math.centred_divisor(decayed, square, a[i]) : math.divisor(square);
    p[i] =
        T(b != nullptr ? math.stepped(before, decayed, d, b[i]) : math.stepped(before, decayed, d));
  }
}

}  // namespace

void sgd_update(std::span<const UpdateItem> items, const SgdNumbers& o) {
  for_all(items, "SGD", [&](const UpdateItem& item, auto x, int64_t n) {
    using C = typename decltype(x)::C;
    const auto math = SgdMath<C>::of(o.lr, o.momentum, o.dampening, o.weight_decay, o.nesterov);
    if (x.a == nullptr) return sgd_plain(x.p, x.g, n, math);
    if (item.step == 1) return sgd_first(x.p, x.g, x.a, n, math);
    sgd_later(x.p, x.g, x.a, n, math);
  });
}

void adam_update(std::span<const UpdateItem> items, const AdamNumbers& o) {
  for_all(items, "Adam", [&](const UpdateItem& item, auto x, int64_t n) {
    using C = typename decltype(x)::C;
    const auto math =
        AdamMath<C>::at_step(item.step, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.decoupled);
    if (o.amsgrad) return amsgrad(x.p, x.g, x.a, x.b, x.c, n, math);
    adam(x.p, x.g, x.a, x.b, n, math);
  });
}

void rmsprop_update(std::span<const UpdateItem> items, const RmspropNumbers& o) {
  for_all(items, "RMSprop", [&](const UpdateItem&, auto x, int64_t n) {
    using C = typename decltype(x)::C;
    const auto math = RmspropMath<C>::of(o.lr, o.alpha, o.eps, o.weight_decay, o.momentum);
    rmsprop(x.p, x.g, x.a, x.b, x.c, n, math, o.centered);
  });
}

}  // namespace lathe::optim::cpu
