// The optimisers' loops on the CPU: one pass over each parameter. The threads share all parameters
// as if they were one long array. Each element is computed alone, so the number of threads changes
// nothing.
#include <algorithm>

#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/optim/kernels/element_rules.h"
#include "lathe/optim/kernels/masters_cpu.h"
#include "lathe/optim/kernels/update_math.h"
#include "lathe/optim/update.h"

namespace lathe::optim::cpu {

namespace {

/// The arrays of one item from element `begin` on, with their types.
template <class T>
struct Arrays {
  using C = ComputeType<T>;
  T* p;
  const T* g;
  C *a, *b, *c;  // the buffers
  C* master;
  GradFactor<C> factor;

  Arrays(const UpdateItem& item, int64_t begin)
      : p(item.param == nullptr ? nullptr : static_cast<T*>(item.param) + begin),
        g(static_cast<const T*>(item.grad) + begin),
        a(from(item.buffers[0], begin)),
        b(from(item.buffers[1], begin)),
        c(from(item.buffers[2], begin)),
        master(from(item.master, begin)),
        factor(GradFactor<C>::of(item.grad_factors)) {}

 private:
  static C* from(void* array, int64_t begin) {
    return array == nullptr ? nullptr : static_cast<C*>(array) + begin;
  }
};

/// Calls update(item, arrays, n) for stretches of n elements that cover all items. Allocates
/// nothing: see Optimizer::update.
template <class Update>
void for_all(std::span<const UpdateItem> items, const char* op, Update&& update) {
  int64_t total = 0;
  for (const UpdateItem& item : items) total += item.n;
  parallel_for(total, kParallelGrain, [&](int64_t begin, int64_t end) {
    int64_t start = 0;  // where the item begins in the long array
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

/// The loops: every rule over n elements of dense arrays. They are compiled for several instruction
/// sets; none contracts a·b + c, so that all give the same bits.
template <bool kMaster, class T, class C = ComputeType<T>>
LATHE_CLONES void sgd_plain(T* __restrict__ p, C* __restrict__ w, const T* __restrict__ g,
                            int64_t n, GradFactor<C> f, SgdMath<C> math) {
  for (int64_t i = 0; i < n; ++i) {
    store<kMaster>(p, w, i, math.plain(load<kMaster>(p, w, i), f(C(g[i]))));
  }
}
template <bool kMaster, class T, class C = ComputeType<T>>
LATHE_CLONES void sgd_first(T* __restrict__ p, C* __restrict__ w, const T* __restrict__ g,
                            C* __restrict__ b, int64_t n, GradFactor<C> f, SgdMath<C> math) {
  for (int64_t i = 0; i < n; ++i) {
    store<kMaster>(p, w, i, math.first(load<kMaster>(p, w, i), f(C(g[i])), b[i]));
  }
}
template <bool kMaster, class T, class C = ComputeType<T>>
LATHE_CLONES void sgd_later(T* __restrict__ p, C* __restrict__ w, const T* __restrict__ g,
                            C* __restrict__ b, int64_t n, GradFactor<C> f, SgdMath<C> math) {
  for (int64_t i = 0; i < n; ++i) {
    store<kMaster>(p, w, i, math.later(load<kMaster>(p, w, i), f(C(g[i])), b[i]));
  }
}
template <bool kMaster, class T, class C = ComputeType<T>>
LATHE_CLONES void adam(T* __restrict__ p, C* __restrict__ w, const T* __restrict__ g,
                       C* __restrict__ m, C* __restrict__ v, int64_t n, GradFactor<C> f,
                       AdamMath<C> math) {
  for (int64_t i = 0; i < n; ++i) {
    store<kMaster>(p, w, i, math.adam(load<kMaster>(p, w, i), f(C(g[i])), m[i], v[i]));
  }
}
template <bool kMaster, class T, class C = ComputeType<T>>
LATHE_CLONES void amsgrad(T* __restrict__ p, C* __restrict__ w, const T* __restrict__ g,
                          C* __restrict__ m, C* __restrict__ v, C* __restrict__ top, int64_t n,
                          GradFactor<C> f, AdamMath<C> math) {
  for (int64_t i = 0; i < n; ++i) {
    store<kMaster>(p, w, i, math.amsgrad(load<kMaster>(p, w, i), f(C(g[i])), m[i], v[i], top[i]));
  }
}
template <bool kMaster, class T, class C = ComputeType<T>>
LATHE_CLONES void rmsprop(T* __restrict__ p, C* __restrict__ w, const T* __restrict__ g, C* v, C* b,
                          C* a, int64_t n, GradFactor<C> f, RmspropMath<C> math, bool centered) {
  for (int64_t i = 0; i < n; ++i) {
    const C before = load<kMaster>(p, w, i), decayed = math.decayed(before, f(C(g[i])));
    const C square = math.mean_square(decayed, v[i]);
    const C d = centered ? math.centred_divisor(decayed, square, a[i]) : math.divisor(square);
    store<kMaster>(
        p, w, i,
        b != nullptr ? math.stepped(before, decayed, d, b[i]) : math.stepped(before, decayed, d));
  }
}
template <class T, class C = ComputeType<T>>
LATHE_CLONES void ema(C* __restrict__ a, const T* __restrict__ x, int64_t n, EmaMath<C> math) {
  for (int64_t i = 0; i < n; ++i) a[i] = math.average(a[i], C(x[i]));
}

/// A rule of element_rules.h; b is null where the rule has one buffer.
template <class C, class Rule>
LATHE_CLONES void by_rule(C* __restrict__ p, const C* __restrict__ g, C* __restrict__ a,
                          C* __restrict__ b, int64_t n, GradFactor<C> f, Rule rule) {
  for (int64_t i = 0; i < n; ++i) {
    C buffers[2] = {a[i], C(0)};
    if constexpr (Rule::kBuffers > 1) buffers[1] = b[i];
    p[i] = rule(p[i], f(g[i]), buffers);
    a[i] = buffers[0];
    if constexpr (Rule::kBuffers > 1) b[i] = buffers[1];
  }
}

template <bool kMaster, class T, class C = ComputeType<T>>
LATHE_CLONES void load_block(C* __restrict__ to, const T* __restrict__ p, const C* __restrict__ w,
                             int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = load<kMaster>(p, w, i);
}
template <bool kMaster, class T, class C = ComputeType<T>>
LATHE_CLONES void store_block(T* __restrict__ p, C* __restrict__ w, const C* __restrict__ from,
                              int64_t n) {
  for (int64_t i = 0; i < n; ++i) store<kMaster>(p, w, i, from[i]);
}

/// The same for parameters of half types, in blocks of the compute type: one loop a rule and dtype
/// would be a hundred kilobytes of code.
template <bool kMaster, class T, class Rule, class C = ComputeType<T>>
void half_by_rule(const Arrays<T>& x, int64_t n, const Rule& rule) {
  constexpr int64_t kBlock = 1024;
  C p[kBlock], g[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    C* const master = kMaster ? x.master + i : nullptr;
    load_block<kMaster>(p, x.p + i, master, count);
    load_block<false>(g, x.g + i, static_cast<const C*>(nullptr), count);
    by_rule(p, g, x.a + i, x.b != nullptr ? x.b + i : nullptr, count, x.factor, rule);
    store_block<kMaster>(x.p + i, master, p, count);
  }
}

template <template <class> class Rule, class Options>
void update(std::span<const UpdateItem> items, const Options& o) {
  for_all(items, Options::kName, [&]<class T>(const UpdateItem& item, Arrays<T> x, int64_t n) {
    const auto rule = Rule<ComputeType<T>>::at(item.step, o);
    if constexpr (is_half(dtype_of<T>)) {
      with_master<T>(x.master, [&](auto kind) { half_by_rule<decltype(kind)::value>(x, n, rule); });
    } else {
      by_rule(x.p, x.g, x.a, x.b, n, x.factor, rule);
    }
  });
}

}  // namespace

void sgd_update(std::span<const UpdateItem> items, const SGDOptions& o) {
  for_all(items, "SGD", [&]<class T>(const UpdateItem& item, Arrays<T> x, int64_t n) {
    using C = ComputeType<T>;
    const auto math = SgdMath<C>::of(o);
    with_master<T>(x.master, [&](auto kind) {
      constexpr bool kMaster = decltype(kind)::value;
      if (x.a == nullptr) return sgd_plain<kMaster>(x.p, x.master, x.g, n, x.factor, math);
      if (item.step == 1) return sgd_first<kMaster>(x.p, x.master, x.g, x.a, n, x.factor, math);
      sgd_later<kMaster>(x.p, x.master, x.g, x.a, n, x.factor, math);
    });
  });
}

void adam_update(std::span<const UpdateItem> items, const AdamOptions& o, bool decoupled) {
  for_all(items, "Adam", [&]<class T>(const UpdateItem& item, Arrays<T> x, int64_t n) {
    using C = ComputeType<T>;
    const auto math = AdamMath<C>::at_step(item.step, o, decoupled);
    with_master<T>(x.master, [&](auto kind) {
      constexpr bool kMaster = decltype(kind)::value;
      if (o.amsgrad) {
        return amsgrad<kMaster>(x.p, x.master, x.g, x.a, x.b, x.c, n, x.factor, math);
      }
      adam<kMaster>(x.p, x.master, x.g, x.a, x.b, n, x.factor, math);
    });
  });
}

void rmsprop_update(std::span<const UpdateItem> items, const RMSpropOptions& o) {
  for_all(items, "RMSprop", [&]<class T>(const UpdateItem&, Arrays<T> x, int64_t n) {
    using C = ComputeType<T>;
    const auto math = RmspropMath<C>::of(o);
    with_master<T>(x.master, [&](auto kind) {
      rmsprop<decltype(kind)::value>(x.p, x.master, x.g, x.a, x.b, x.c, n, x.factor, math,
                                     o.centered);
    });
  });
}

void rule_update(std::span<const UpdateItem> items, const AdagradOptions& o) {
  update<AdagradRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const AdadeltaOptions& o) {
  update<AdadeltaRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const AdamaxOptions& o) {
  update<AdamaxRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const NAdamOptions& o) {
  update<NAdamRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const RAdamOptions& o) {
  update<RAdamRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const LionOptions& o) {
  update<LionRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const MuonOptions& o) {
  update<MuonRule>(items, o);
}
void muon_directions(std::span<const UpdateItem> items, const MuonOptions& o) {
  update<MuonDirection>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const LookaheadOptions& o) {
  update<LookaheadRule>(items, o);
}

void ema_update(std::span<const UpdateItem> items, const EmaNumbers& o) {
  for_all(items, "EMA", [&]<class T>(const UpdateItem& item, Arrays<T> x, int64_t n) {
    const auto math = EmaMath<ComputeType<T>>::at_update(item.step, o);
    ema(x.a, x.g, n, math);
  });
}

}  // namespace lathe::optim::cpu
