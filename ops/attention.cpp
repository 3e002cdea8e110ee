// Attention, by matrix products and softmax. Contract: attention.h.
#include "lathe/ops/attention.h"

#include <cmath>
#include <limits>

#include "lathe/core/hooks/range.h"
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

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& opt) {
  check_attention(query, key, value);
  const bool adds = opt.mask.defined() && opt.mask.dtype() != kBool;
  if (adds) check_floating("scaled_dot_product_attention", opt.mask);
  // Before the range: inside an op that reads traced tensors, a trace takes no constants.
  Masking mask = masking_of(query, key, opt);
  const profile::OpRange range("scaled_dot_product_attention", {query, key, value});
  auto [q, k, v] = amp::cast(amp::kHalf, query, key, value);
  if (opt.grouped && k.ndim() >= 3 && q.ndim() >= 3 && k.dim(-3) != q.dim(-3)) {
    k = repeated(k, q);
    v = repeated(v, q);
  }
  const double scale = opt.scale.value_or(1 / std::sqrt(static_cast<double>(q.dim(-1))));
  Tensor scores = matmul(mul(q, scale), transpose(k, -2, -1));  // […,L,S]
  if (adds) scores = add(scores, cast(opt.mask, scores.dtype()));
  if (mask.hidden.defined()) scores = masked_fill(scores, mask.hidden, kNever);
  if (adds) {  // The sums say who looks nowhere: large negative numbers are -inf in half precision.
    mask.blind = all(eq(scores, kNever), {-1}, {.keepdim = true});
    scores = masked_fill(scores, mask.blind, 0);
  }
  Tensor weights = softmax(scores, -1);
  if (mask.blind.defined()) weights = masked_fill(weights, mask.blind, 0);
  return matmul(dropout(cast(weights, v.dtype()), {.p = opt.dropout, .train = true}), v);
}

}  // namespace lathe
