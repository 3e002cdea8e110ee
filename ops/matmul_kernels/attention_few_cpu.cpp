// CPU kernel of attention for a few queries, as in decoding, where reading the keys and values is
// what takes the time. They are read once, where they lie, in their own dtype. Each task takes a
// chunk of a head's keys for all queries that look at this head; then the chunks' sums are joined.
// Contract: attention.h.
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/core/x86_levels.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/exp_math.h"
#include "lathe/ops/matmul_kernels/attention_rows.h"
#include "lathe/ops/matmul_kernels/few_rows.h"
#include "lathe/ops/matmul_kernels/few_rows_bf16.h"
#include "lathe/ops/reduce_kernels/reduce_fold_cpu.h"

namespace lathe {

namespace {

using attention_rows::finish_scores;
using attention_rows::kInf;
using attention_rows::matrix_start;
using attention_rows::rest_of_scale;
using few_rows::Rows;
using reduce_fold::exp_row;
using reduce_fold::fold_lanes;
using reduce_math::Max;

// The keys of a task, and those that the first-level cache holds at a time.
constexpr int64_t kChunk = 256, kBlock = 32;
static_assert(kChunk <= few_rows::kMostBf16Rows);

// The multiplications worth another thread.
constexpr int64_t kTaskWork = 1 << 16;

/// a = of_a * a + of_b * b
template <class A>
LATHE_CLONES void join_row(A* __restrict__ a, A of_a, const A* __restrict__ b, A of_b, int64_t n) {
  for (int64_t e = 0; e < n; ++e) a[e] = of_a * a[e] + of_b * b[e];
}

/// Sums over a chunk of keys for each of some queries, relative to the largest score.
template <class A>
struct ChunkSums {
  A *largest, *weights;  // [queries]
  A* values;             // [queries,E]
};

template <class T>
class FewQueries {
 public:
  FewQueries(const Tensor& q, const Tensor& k, const Tensor& v, const TiledAttention& how)
      : q_(q), k_(k), v_(v), how_(how) {}

  void write(T* y) const {
    const int64_t tasks = shared_ * chunks_, numbers = std::min(S_, kChunk) * (D_ + E_);
    std::vector<A> room(static_cast<size_t>(tasks * queries_ * (E_ + 2)));
    const auto sums_of = [&](int64_t task) {
      A* const at = room.data() + task * queries_ * (E_ + 2);
      return ChunkSums<A>{at, at + queries_, at + 2 * queries_};
    };
    parallel_for(tasks, std::max<int64_t>(1, kTaskWork / (numbers * queries_)),
                 [&](int64_t begin, int64_t end) {
                   Scratch scratch(*this);
                   for (int64_t t = begin; t < end; ++t) {
                     add_chunk(sums_of(t), scratch, t / chunks_, t % chunks_ * kChunk);
                   }
                 });
    for (int64_t m = 0; m < shared_; ++m) {
      const ChunkSums<A> first = sums_of(m * chunks_);
      for (int64_t c = 1; c < chunks_; ++c) join(first, sums_of(m * chunks_ + c));
      for (int64_t r = 0; r < queries_; ++r) {
        // All weights are 0 if the query may look nowhere.
        const A factor = first.weights[r] == 0 ? A(0) : 1 / first.weights[r];
        const A* values = first.values + r * E_;
        for (int64_t e = 0; e < E_; ++e)
          *y++ = static_cast<T>(factor == 0 ? A(0) : values[e] * factor);
      }
    }
  }

 private:
  using A = ComputeType<T>;

  struct Scratch {
    explicit Scratch(const FewQueries& f)
        : bits(static_cast<size_t>(f.queries_)),
          q(static_cast<size_t>(f.queries_ * f.D_)),
          weights(static_cast<size_t>(f.queries_ * kChunk)) {}
    std::vector<const uint16_t*> bits;  // where queries of bf16 are
    std::vector<A> q, weights;
  };

  /// Matrix `index` of t, from row `first`.
  static Rows<const T> rows_of(const Tensor& t, int64_t index, int64_t first) {
    return {t.data<T>() + matrix_start(t, index) + first * t.stride(-2), t.stride(-2)};
  }

  /// The sums over kChunk keys from `first` of head m of the keys.
  void add_chunk(const ChunkSums<A>& sums, Scratch& scratch, int64_t m, int64_t first) const {
    const int64_t keys = std::min(kChunk, S_ - first);
    const int64_t head = m * queries_ / L_;  // the first of the queries
    A* const weights = scratch.weights.data();
    multiply(weights, scratch, head, rows_of(k_, m, first), keys);
    for (int64_t r = 0; r < queries_; ++r) {
      A* const s = weights + r * keys;
      finish_scores(s, how_, head + r / L_, r % L_, first, keys);
      const A scale = rest_of_scale<A>(how_);
      sums.largest[r] = scale * fold_lanes<Max<A>>(s, keys);
      sums.weights[r] = exp_row(s, s, scale, base(sums.largest[r]), keys);
    }
    add_values(sums.values, weights, rows_of(v_, m, first), keys);
  }

  /// The products of the queries, those of the heads from `head`, with rows of keys.
  void multiply(A* out, Scratch& scratch, int64_t head, Rows<const T> k, int64_t keys) const {
    const auto query = [&](int64_t r) { return rows_of(q_, head + r / L_, r % L_).data; };
#if defined(__x86_64__)
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (has_avx512_bf16()) {
        for (int64_t r = 0; r < queries_; ++r) {
          scratch.bits[static_cast<size_t>(r)] = reinterpret_cast<const uint16_t*>(query(r));
        }
        return few_rows::multiply_bf16_rows_avx512(out, scratch.bits.data(), queries_,
                                                   reinterpret_cast<const uint16_t*>(k.data),
                                                   k.step, keys, D_);
      }
    }
#endif
    for (int64_t r = 0; r < queries_; ++r) {
      std::transform(query(r), query(r) + D_, scratch.q.data() + r * D_,
                     [](T x) { return static_cast<A>(x); });
    }
    few_rows::multiply_rows<A, T>({out, keys}, {scratch.q.data(), D_}, k, queries_, keys, D_);
  }

  /// out[query] += weights[query] · rows of values.
  void add_values(A* out, const A* weights, Rows<const T> v, int64_t keys) const {
    // The first-level cache keeps a block for the next query.
    const int64_t block = queries_ == 1 ? keys : kBlock;
    for (int64_t j = 0; j < keys; j += block) {
      const int64_t count = std::min(block, keys - j);
#if defined(__x86_64__)
      if constexpr (std::is_same_v<T, BFloat16>) {
        if (has_avx512_bf16()) {
          for (int64_t r = 0; r < queries_; ++r) {
            few_rows::add_bf16_rows_avx512(out + r * E_, weights + r * keys + j,
                                           reinterpret_cast<const uint16_t*>(v[j]), v.step, count,
                                           E_);
          }
          continue;
        }
      }
#endif
      few_rows::add_rows<A, T>({out, E_}, {weights + j, keys}, {v[j], v.step}, queries_, count, E_);
    }
  }

  /// What scores are relative to. If all are hidden, exp(-inf - 0) is 0 for each.
  static A base(A largest) { return largest == -kInf<A> ? A(0) : largest; }

  /// a becomes the sums over both chunks.
  void join(const ChunkSums<A>& a, const ChunkSums<A>& b) const {
    for (int64_t r = 0; r < queries_; ++r) {
      A largest = a.largest[r];
      Max<A>::step(largest, b.largest[r]);
      const A of_a = math::fast_exp(a.largest[r] - base(largest));
      const A of_b = math::fast_exp(b.largest[r] - base(largest));
      a.largest[r] = largest;
      a.weights[r] = of_a * a.weights[r] + of_b * b.weights[r];
      join_row(a.values + r * E_, of_a, b.values + r * E_, of_b, E_);
    }
  }

  const Tensor &q_, &k_, &v_;
  const TiledAttention& how_;
  const int64_t L_ = q_.dim(-2), D_ = q_.dim(-1), E_ = v_.dim(-1);
  const int64_t S_ = how_.causal ? std::min(L_, k_.dim(-2)) : k_.dim(-2);  // seen by any query
  const int64_t shared_ = k_.numel() / (k_.dim(-2) * D_);                  // heads of keys
  const int64_t queries_ = q_.numel() / D_ / shared_;                      // for each of them
  const int64_t chunks_ = ceil_div(S_, kChunk);
};

}  // namespace

void cpu::attention_of_few(const Tensor& y, const Tensor& q, const Tensor& k, const Tensor& v,
                           const TiledAttention& how) {
  visit_float(q.dtype(), "scaled_dot_product_attention", [&](auto tag) {
    using T = typename decltype(tag)::type;
    FewQueries<T>(q, k, v, how).write(y.data<T>());
  });
}

}  // namespace lathe
