// The layer-wise rules on the CPU: a pass that measures, one rate per parameter, a pass that steps.
// Sums are made over chunks of a fixed size and added in order, so the number of threads changes
// nothing. Contract: optim/update.h.
#include <algorithm>
#include <type_traits>

#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/optim/kernels/layerwise_math.h"
#include "lathe/optim/kernels/masters_cpu.h"
#include "lathe/optim/kernels/update_math.h"
#include "lathe/optim/update.h"

namespace lathe::optim::cpu {

namespace {

/// Calls f(item, chunk) for every chunk of every item, shared among the threads. Allocates nothing:
/// see Optimizer::update.
template <class F>
void for_all_chunks(std::span<const UpdateItem> items, F&& f) {
  int64_t total = 0;
  for (const UpdateItem& item : items) total += chunks_of(item.n);
  parallel_for(total, kParallelGrain / kChunk, [&](int64_t begin, int64_t end) {
    int64_t start = 0;  // the number of the item's first chunk
    for (const UpdateItem& item : items) {
      const int64_t stop = start + chunks_of(item.n);
      for (int64_t i = std::max(begin, start); i < std::min(end, stop); ++i) f(item, i - start);
      if (stop >= end) return;
      start = stop;
    }
  });
}

/// The arrays of one chunk, with their types. b[1] is null where there is only one buffer of the
/// parameter's shape.
template <class T, class Rule>
struct Arrays {
  using C = ComputeType<T>;
  T* p;
  const T* g;
  C *a, *b, *master;
  int64_t n;
  GradFactor<C> factor;

  Arrays(const UpdateItem& item, int64_t chunk)
      : p(static_cast<T*>(item.param) + chunk * kChunk),
        g(static_cast<const T*>(item.grad) + chunk * kChunk),
        a(static_cast<C*>(item.buffers[0]) + chunk * kChunk),
        b(Rule::kBuffers > 1 ? static_cast<C*>(item.buffers[1]) + chunk * kChunk : nullptr),
        master(item.master != nullptr ? static_cast<C*>(item.master) + chunk * kChunk : nullptr),
        n(std::min(kChunk, item.n - chunk * kChunk)),
        factor(GradFactor<C>::of(item.grad_factors)) {}
};

/// Sums of squares over n elements, in eight interleaved sums so that the additions need not wait
/// for each other.
template <bool kMaster, class T, class Rule, class C = ComputeType<T>>
LATHE_CLONES SquareSums measure(const T* __restrict__ p, const C* __restrict__ w,
                                const T* __restrict__ g, C* __restrict__ a, C* __restrict__ b,
                                int64_t n, GradFactor<C> f, Rule rule) {
  SquareSums lanes[8] = {};
  const auto one = [&](int64_t i, SquareSums& lane) {
    C buffers[2] = {};
    if constexpr (Rule::kMeasuresBuffers) {
      buffers[0] = a[i];
      if constexpr (Rule::kBuffers > 1) buffers[1] = b[i];
    }
    const C value = load<kMaster>(p, w, i);
    lane.add(value, rule.measure(value, f(C(g[i])), buffers));
    if constexpr (Rule::kMeasuresBuffers) {
      a[i] = buffers[0];
      if constexpr (Rule::kBuffers > 1) b[i] = buffers[1];
    }
  };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int k = 0; k < 8; ++k) one(i + k, lanes[k]);
  }
  for (int k = 0; i < n; ++i, ++k) one(i, lanes[k]);
  for (int step = 1; step < 8; step *= 2) {
    for (int k = 0; k < 8; k += 2 * step) lanes[k].join(lanes[k + step]);
  }
  return lanes[0];
}

template <bool kMaster, class T, class Rule, class C = ComputeType<T>>
LATHE_CLONES void step(T* __restrict__ p, C* __restrict__ w, const T* __restrict__ g,
                       C* __restrict__ a, C* __restrict__ b, int64_t n, GradFactor<C> f, Rule rule,
                       C rate) {
  for (int64_t i = 0; i < n; ++i) {
    C buffers[2] = {a[i], C(0)};
    if constexpr (Rule::kBuffers > 1) buffers[1] = b[i];
    store<kMaster>(p, w, i, rule.step(load<kMaster>(p, w, i), f(C(g[i])), buffers, rate));
    if constexpr (Rule::kStepsByGradient) a[i] = buffers[0];
  }
}

/// The sums of a chunk; in scratch they lie behind the item's rate.
double* sums_at(const UpdateItem& item, int64_t chunk) { return item.scratch + 1 + 2 * chunk; }

/// Calls f(rule, tag of its arithmetic type, tag of T) with the item's rule.
template <template <class> class Rule, class Numbers, class F>
void with_rule(const UpdateItem& item, const char* op, const Numbers& numbers, F&& f) {
  visit_float(item.dtype, op, [&](auto tag) {
    f(tag, Rule<ComputeType<typename decltype(tag)::type>>::at(numbers, item.step));
  });
}

template <template <class> class Rule, class Numbers>
void update(std::span<const UpdateItem> items, const char* op, const Numbers& numbers) {
  for_all_chunks(items, [&](const UpdateItem& item, int64_t chunk) {
    with_rule<Rule>(item, op, numbers, [&](auto tag, const auto& rule) {
      using T = typename decltype(tag)::type;
      const Arrays<T, std::decay_t<decltype(rule)>> x(item, chunk);
      with_master<T>(x.master, [&](auto kind) {
        const SquareSums sums =
            measure<decltype(kind)::value>(x.p, x.master, x.g, x.a, x.b, x.n, x.factor, rule);
        sums_at(item, chunk)[0] = sums.p;
        sums_at(item, chunk)[1] = sums.u;
      });
    });
  });
  for (const UpdateItem& item : items) {
    SquareSums sums;
    for (int64_t k = 0; k < chunks_of(item.n); ++k) {
      sums.join({sums_at(item, k)[0], sums_at(item, k)[1]});
    }
    with_rule<Rule>(item, op, numbers, [&](auto tag, const auto& rule) {
      using C = ComputeType<typename decltype(tag)::type>;
      item.scratch[0] = rule.rate(
          sums, static_cast<C*>(item.buffers[static_cast<size_t>(rule.kBuffers)]), item.n);
    });
  }
  for_all_chunks(items, [&](const UpdateItem& item, int64_t chunk) {
    with_rule<Rule>(item, op, numbers, [&](auto tag, const auto& rule) {
      using T = typename decltype(tag)::type;
      const Arrays<T, std::decay_t<decltype(rule)>> x(item, chunk);
      with_master<T>(x.master, [&](auto kind) {
        step<decltype(kind)::value>(x.p, x.master, x.g, x.a, x.b, x.n, x.factor, rule,
                                    ComputeType<T>(item.scratch[0]));
      });
    });
  });
}

}  // namespace

void lars_update(std::span<const UpdateItem> items, const LARSOptions& o) {
  update<LarsMath>(items, "LARS", o);
}
void lamb_update(std::span<const UpdateItem> items, const LAMBOptions& o) {
  update<LambMath>(items, "LAMB", o);
}
void novograd_update(std::span<const UpdateItem> items, const NovoGradOptions& o) {
  update<NovogradMath>(items, "NovoGrad", o);
}
void adafactor_update(std::span<const UpdateItem> items, const AdafactorNumbers& o) {
  update<AdafactorMath>(items, "Adafactor", o);
}

}  // namespace lathe::optim::cpu
