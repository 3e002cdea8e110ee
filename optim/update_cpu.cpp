// The optimisers' loops on the CPU: one pass over each parameter, all parameters shared out among
// the threads as if they were one long array. Each element is computed alone, so the thread count
// changes nothing.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/optim/update.h"
#include "lathe/optim/update_math.h"

namespace lathe::optim::cpu {

namespace {

/// The arrays of one item with their types.
template <class T>
struct Arrays {
  using C = ComputeType<T>;
  T* p;
  const T* g;
  C *a, *b, *c;  // the buffers

  explicit Arrays(const UpdateItem& item)
      : p(static_cast<T*>(item.param)),
        g(static_cast<const T*>(item.grad)),
        a(static_cast<C*>(item.buffers[0])),
        b(static_cast<C*>(item.buffers[1])),
        c(static_cast<C*>(item.buffers[2])) {}
};

/// Calls update(item, arrays, begin, end) for ranges of elements that cover all items.
template <class Update>
void for_all(std::span<const UpdateItem> items, const char* op, Update&& update) {
  std::vector<int64_t> ends;  // of each item in the long array
  int64_t total = 0;
  for (const UpdateItem& item : items) ends.push_back(total += item.n);
  parallel_for(total, kParallelGrain, [&](int64_t begin, int64_t end) {
    auto i = static_cast<size_t>(std::ranges::upper_bound(ends, begin) - ends.begin());
    for (; begin < end; ++i) {
      const UpdateItem& item = items[i];
      const int64_t start = ends[i] - item.n, stop = std::min(end, ends[i]);
      visit_float(item.dtype, op, [&](auto tag) {
        update(item, Arrays<typename decltype(tag)::type>(item), begin - start, stop - start);
      });
      begin = stop;
    }
  });
}

}  // namespace

void sgd_update(std::span<const UpdateItem> items, const SgdNumbers& o) {
  for_all(items, "SGD", [&](const UpdateItem& item, auto x, int64_t begin, int64_t end) {
    using C = typename decltype(x)::C;
    using T = std::remove_pointer_t<decltype(x.p)>;
    const SgdMath<C> math{.lr = C(o.lr),
                          .momentum = C(o.momentum),
                          .gradient_share = C(1 - o.dampening),
                          .weight_decay = C(o.weight_decay),
                          .nesterov = o.nesterov};
    if (x.a == nullptr) {
      for (int64_t i = begin; i < end; ++i) x.p[i] = T(math.plain(C(x.p[i]), C(x.g[i])));
    } else if (item.fresh) {
      for (int64_t i = begin; i < end; ++i) x.p[i] = T(math.first(C(x.p[i]), C(x.g[i]), x.a[i]));
    } else {
      for (int64_t i = begin; i < end; ++i) x.p[i] = T(math.later(C(x.p[i]), C(x.g[i]), x.a[i]));
    }
  });
}

void adam_update(std::span<const UpdateItem> items, const AdamNumbers& o) {
  for_all(items, "Adam", [&](const UpdateItem& item, auto x, int64_t begin, int64_t end) {
    using C = typename decltype(x)::C;
    using T = std::remove_pointer_t<decltype(x.p)>;
    const auto math =
        AdamMath<C>::at_step(item.step, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.decoupled);
    if (o.amsgrad) {
      for (int64_t i = begin; i < end; ++i) {
        x.p[i] = T(math.amsgrad(C(x.p[i]), C(x.g[i]), x.a[i], x.b[i], x.c[i]));
      }
    } else {
      for (int64_t i = begin; i < end; ++i) {
        x.p[i] = T(math.adam(C(x.p[i]), C(x.g[i]), x.a[i], x.b[i]));
      }
    }
  });
}

void rmsprop_update(std::span<const UpdateItem> items, const RmspropNumbers& o) {
  for_all(items, "RMSprop", [&](const UpdateItem&, auto x, int64_t begin, int64_t end) {
    using C = typename decltype(x)::C;
    using T = std::remove_pointer_t<decltype(x.p)>;
    const RmspropMath<C> math{.lr = C(o.lr),
                              .alpha = C(o.alpha),
                              .one_minus_alpha = C(1 - o.alpha),
                              .eps = C(o.eps),
                              .weight_decay = C(o.weight_decay),
                              .momentum = C(o.momentum)};
    for (int64_t i = begin; i < end; ++i) {
      const C p = C(x.p[i]), g = math.decayed(p, C(x.g[i]));
      const C v = math.mean_square(g, x.a[i]);
      const C d = o.centered ? math.centred_divisor(g, v, x.c[i]) : math.divisor(v);
      x.p[i] = T(x.b != nullptr ? math.stepped(p, g, d, x.b[i]) : math.stepped(p, g, d));
    }
  });
}

}  // namespace lathe::optim::cpu
