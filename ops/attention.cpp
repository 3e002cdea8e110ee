// Attention: checks, gradient, and the form by matrix products and a softmax. Contract:
// attention.h, which names the kernels, too.
#include "lathe/ops/attention.h"

#include <cmath>
#include <limits>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/random/random_start.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;
using autograd::SavedOutput;

static void check_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor* t : {&q, &k, &v}) check_floating("scaled_dot_product_attention", *t);
  LATHE_CHECK(ShapeError,
              q.ndim() >= 2 && k.ndim() >= 2 && v.ndim() >= 2 && q.dim(-1) == k.dim(-1) &&
                  k.dim(-2) == v.dim(-2),
              "scaled_dot_product_attention: expected […,L,D], […,S,D] and […,S,E] (query: ", q,
              ", key: ", k, ", value: ", v, ")");
}

/// Each head of x as often as query has heads for it.
static Tensor repeated(const Tensor& x, const Tensor& query) {
  LATHE_CHECK(ShapeError,
              x.ndim() >= 3 && query.ndim() >= 3 && x.dim(-3) > 0 && query.dim(-3) % x.dim(-3) == 0,
              "scaled_dot_product_attention: ", query, " has no multiple of the heads of ", x);
  return repeat_interleave(x, query.dim(-3) / x.dim(-3), -3);
}

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// What `causal` and a mask of bools do to the scores […,L,S]. Undefined: nothing.
struct Masking {
  Tensor hidden;  // bool: become -inf
  Tensor blind;   // bool […,L,1]: queries that may look nowhere, whose scores stay
};

Masking masking_of(const Tensor& q, const Tensor& k, const AttentionOptions& opt) {
  Tensor looks = {};  // where a query may look
  if (opt.causal) {
    looks = tril(ones({q.dim(-2), k.dim(-2)}, {.dtype = kBool, .device = q.device()}));
  }
  if (opt.mask.defined() && opt.mask.dtype() == kBool) {
    looks = looks.defined() ? logical_and(looks, opt.mask) : opt.mask;
  }
  if (!looks.defined()) return {};
  const Tensor blind = logical_not(any(looks, {-1}, {.keepdim = true}));
  return {logical_not(logical_or(looks, blind)), blind};
}

}  // namespace

/// By matrix products and a softmax, which hold […,L,S]. The options have a scale.
static Tensor composed(Tensor q, Tensor k, Tensor v, const AttentionOptions& opt, Masking mask,
                       Generator* generator) {
  const bool adds = opt.mask.defined() && opt.mask.dtype() != kBool;
  if (opt.grouped && k.ndim() >= 3 && q.ndim() >= 3 && k.dim(-3) != q.dim(-3)) {
    k = repeated(k, q);
    v = repeated(v, q);
  }
  Tensor scores = matmul(mul(q, *opt.scale), transpose(k, -2, -1));  // […,L,S]
  if (adds) scores = add(scores, cast(opt.mask, scores.dtype()));
  if (mask.hidden.defined()) scores = masked_fill(scores, mask.hidden, kNever);
  if (adds) {  // The sums say who looks nowhere: large negative numbers are -inf in half precision.
    mask.blind = all(eq(scores, kNever), {-1}, {.keepdim = true});
    scores = masked_fill(scores, mask.blind, 0);
  }
  Tensor weights = softmax(scores, -1);
  if (mask.blind.defined()) weights = masked_fill(weights, mask.blind, 0);
  return matmul(
      dropout(cast(weights, v.dtype()), {.p = opt.dropout, .train = true, .generator = generator}),
      v);
}

/// The shape of query's heads: all leading dimensions, broadcast.
static Shape heads_shape(const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionOptions& opt) {
  constexpr const char* kName = "scaled_dot_product_attention";
  const auto leading = [&](const Tensor& t, bool grouped) {
    Shape shape;
    for (int d = 0; d + 2 < t.ndim(); ++d) {
      shape.push_back(grouped && d + 3 == t.ndim() ? 1 : t.dim(d));
    }
    return shape;
  };
  Shape heads = broadcast_shapes(kName, leading(q, false), leading(k, opt.grouped));
  heads = broadcast_shapes(kName, heads, leading(v, opt.grouped));
  return opt.mask.defined() ? broadcast_shapes(kName, heads, leading(opt.mask, false)) : heads;
}

/// t with the leading dimensions `heads`.
static Tensor with_heads(const Tensor& t, Shape heads) {
  heads.push_back(t.dim(-2));
  heads.push_back(t.dim(-1));
  return expand(t, heads);
}

/// t with the leading dimensions `heads` as one.
static Tensor flat(const Tensor& t, const Shape& heads) {
  return contiguous(reshape(with_heads(t, heads), {numel_of(heads), t.dim(-2), t.dim(-1)}));
}

/// The gradients by the composed form, which can be differentiated again.
static Tensors composed_gradients(const Tensor& dy, const Tensors& inputs,
                                  const TiledAttention& how) {
  Tensors own;  // nodes of their own: inputs may be one tensor
  for (const Tensor& t : inputs) {
    own.push_back(t.requires_grad() ? view(t, t.shape()) : t.detach().requires_grad_());
  }
  const AttentionOptions opt{
      .mask = how.mask.defined() ? reshape(how.mask, {own[0].dim(0), own[0].dim(1), own[1].dim(1)})
                                 : Tensor(),
      .causal = how.causal,
      .dropout = how.dropout,
      .scale = how.scale,
      .grouped = true};
  Generator again(how.start.seed);
  again.set_state(how.start);
  const DType wide = compute_dtype(own[0].dtype());
  const Tensor y = composed(cast(own[0], wide), cast(own[1], wide), cast(own[2], wide), opt,
                            masking_of(own[0], own[1], opt), &again);
  return lathe::grad({y}, own, {.grad_outputs = {cast(dy, wide)}, .create_graph = true});
}

/// q, k, v as cpu::attention_forward() takes them.
static Tensor tiled(const Tensor& q, const Tensor& k, const Tensor& v, const TiledAttention& how) {
  const Tensor y = empty({q.dim(0), q.dim(1), v.dim(2)}, {.dtype = q.dtype()});
  const Tensor logsumexp = empty({q.dim(0), q.dim(1)}, {.dtype = compute_dtype(q.dtype())});
  cpu::attention_forward(y, logsumexp, q, k, v, how);
  TiledAttention rest = how;
  rest.mask = {};
  autograd::record(
      "scaled_dot_product_attention", y, {q, k, v},
      [q = Saved(q), k = Saved(k), v = Saved(v), y = SavedOutput(y), sums = Saved(logsumexp),
       mask = Saved(how.mask), rest](const Tensor& dy, const Needs&) {
        TiledAttention again = rest;
        again.mask = mask.get();
        if (grad_enabled()) return composed_gradients(dy, {q.get(), k.get(), v.get()}, again);
        // A hook that unpacks may return other strides.
        const Tensor qs = contiguous(q.get()), ks = contiguous(k.get()), vs = contiguous(v.get());
        const AttentionGradients g{empty_like(qs), empty_like(ks), empty_like(vs)};
        cpu::attention_backward(g, contiguous(dy), contiguous(y.get()), contiguous(sums.get()), qs,
                                ks, vs, again);
        return Tensors{g.dq, g.dk, g.dv};
      });
  return y;
}

/// Whether the CPU's tiles can do it. They have no gradient of the mask, which is most often as
/// large as the scores; and a watcher may want the ops of a GPU, as train/plan does.
static bool can_tile(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  for (const Tensor* t : {&q, &k, &v}) {
    if (!t->device().is_cpu() || t->numel() == 0 || t->dtype() != q.dtype()) return false;
  }
  if (profile::watched()) return false;
  if (!mask.defined()) return true;
  const autograd::TensorRef ref = mask;
  return mask.device().is_cpu() && mask.numel() > 0 && !autograd::wants_record(&ref, 1);
}

/// Whether attention_of_few() can do it, and reading the keys takes longer than multiplying them.
///   queries  those of all heads that share a head of keys
///   inner    attention_dtype()
static bool are_few(int64_t queries, DType inner, const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionOptions& opt) {
  constexpr int64_t kFewOfAllHeads = 64;
  // Tile registers multiply 32 queries as fast as one. Otherwise, few queries gain most where the
  // tiles would convert the keys.
  const int64_t few = inner == kBF16 ? 2 : inner == q.dtype() ? 5 : 8;
  const autograd::TensorRef inputs[] = {q, k, v};
  return q.dim(-2) <= few && queries <= kFewOfAllHeads && opt.dropout == 0 &&
         !autograd::wants_record(inputs, 3);
}

/// Casts and shapes for tiled() and attention_of_few(). The options have a scale.
static Tensor in_tiles(const Tensor& q, Tensor k, Tensor v, const AttentionOptions& opt) {
  const DType dtype = q.dtype(), wide = compute_dtype(dtype);
  AttentionOptions how = opt;
  how.grouped = opt.grouped && k.ndim() >= 3 && q.ndim() >= 3 && k.dim(-3) != q.dim(-3);
  if (how.grouped && (v.ndim() < 3 || k.dim(-3) != v.dim(-3) || q.dim(-3) % k.dim(-3) != 0)) {
    k = repeated(k, q);
    v = repeated(v, q);
    how.grouped = false;
  }
  const Shape heads = heads_shape(q, k, v, how);
  Shape shared = heads;
  if (how.grouped) shared[shared.size() - 1] = k.dim(-3);
  TiledAttention tiles{
      .scale = *opt.scale, .least = kNever, .dropout = opt.dropout, .causal = opt.causal};
  Shape full = heads;
  full.push_back(q.dim(-2));
  full.push_back(k.dim(-2));
  if (opt.mask.defined()) {
    // Sums that f16 or bf16 rounds to -inf are -inf.
    if (dtype == kF16) tiles.least = -65520;
    if (dtype == kBF16) tiles.least = -0x1.ffp127;
    const bool is_bool = opt.mask.dtype() == kBool;
    tiles.mask = expand(is_bool ? opt.mask : cast(cast(opt.mask, dtype), wide), full).detach();
  }
  if (opt.dropout > 0) tiles.start = reserve_words(nullptr, kCPU, numel_of(full));
  const int64_t sharing = numel_of(heads) / numel_of(shared);  // heads of queries for one of keys
  const DType inner = cpu::attention_dtype(dtype, tiles);
  if (are_few(sharing * q.dim(-2), inner, q, k, v, opt)) {
    full[full.size() - 1] = v.dim(-1);
    const Tensor y = empty(full, {.dtype = dtype});
    const auto rows = [](const Tensor& t) { return t.stride(-1) == 1 ? t : contiguous(t); };
    cpu::attention_of_few(y, with_heads(rows(q), heads), with_heads(rows(k), shared),
                          with_heads(rows(v), shared), tiles);
    // No gradient is wanted, so this only marks y under InferenceMode.
    autograd::record("scaled_dot_product_attention", y, {},
                     [](const Tensor&, const Needs&) { return Tensors(); });
    return y;
  }
  const Tensor y = tiled(flat(cast(q, inner), heads), flat(cast(k, inner), shared),
                         flat(cast(v, inner), shared), tiles);
  full[full.size() - 1] = v.dim(-1);
  return cast(reshape(y, full), dtype);
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  check_attention(query, key, value);
  const bool adds = options.mask.defined() && options.mask.dtype() != kBool;
  if (adds) check_floating("scaled_dot_product_attention", options.mask);
  LATHE_CHECK(ValueError, options.dropout >= 0 && options.dropout <= 1,
              "scaled_dot_product_attention: dropout must be in [0, 1], got ", options.dropout);
  AttentionOptions opt = options;
  if (!opt.scale) opt.scale = 1 / std::sqrt(static_cast<double>(query.dim(-1)));
  const profile::OpRange range("scaled_dot_product_attention", {query, key, value});
  profile::note_arguments(opt);
  const auto [q, k, v] = amp::cast(amp::kHalf, query, key, value);
  if (can_tile(q, k, v, opt.mask)) return in_tiles(q, k, v, opt);
  return composed(q, k, v, opt, masking_of(q, k, opt), nullptr);
}

}  // namespace lathe
