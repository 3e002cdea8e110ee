// Scaled dot-product attention. attention.cpp: checks, gradient, and the form made of other ops;
// matmul_kernels/: attention_cpu.cpp, tiles of the CPU; attention_bf16_cpu.cpp, in tile registers;
// attention_few_cpu.cpp, few queries.
#pragma once

#include <optional>

#include "lathe/core/random/generator.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct AttentionOptions {
  // bool: true where a query may attend; floats: added to the scores. It broadcasts to the scores.
  Tensor mask = {};
  bool causal = false;               // a query attends only to keys up to its own position
  double dropout = 0;                // probability of dropping a weight; pass 0 in evaluation
  std::optional<double> scale = {};  // unset: 1 / sqrt(D)
  bool grouped = false;              // key and value have fewer heads, each for several of query
};

/// softmax(scale * query key^T + mask) value.
///   query  […,L,D]   key  […,S,D]   value  […,S,E], leading dimensions broadcast   →  […,L,E]
///   mask   broadcasts to […,L,S]
/// With `grouped`, query's number of heads (dimension -3) must be a multiple of key's and value's.
/// If the mask hides every key from a query (all false, or all its sums with the scores are -inf),
/// the query's result is 0.
/// Dropout draws one uniform number for each weight, in row-major order of […,L,S].
/// A CPU with instructions for bf16 products multiplies operands of bf16 by them, unless weights
/// are dropped: subnormal numbers count as 0, and with AMX the weights are rounded to bf16.
/// On the CPU memory grows with L + S, in the backward pass too. It grows with L * S
///   - on a GPU,
///   - for second derivatives,
///   - if the mask needs a gradient,
///   - if query, key and value differ in dtype,
///   - while ops are watched (core/hooks/watch.h).
/// dtypes: floats.   grad: query, key, value, mask, twice differentiable.   amp: half.
/// throws: ShapeError, DTypeError, ValueError (dropout outside [0, 1]).
/// ref: Vaswani et al. 2017 (arXiv:1706.03762); torch.nn.functional.scaled_dot_product_attention.
LATHE_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                              const Tensor& value,
                                              const AttentionOptions& options = {});

/// What the CPU's kernels do beside the products.
struct TiledAttention {
  Tensor mask;  // undefined, bool, or of compute_dtype(q's); expanded to […,L,S] of q's heads
  double scale = 1;
  double least = 0;  // a sum of score and mask up to this is -inf
  double dropout = 0;
  bool causal = false;
  Generator::State start{};  // of the words of dropout
};

struct AttentionGradients {
  Tensor dq, dk, dv;
};

namespace cpu {
/// The dtype in which the kernels below compute: bf16 for bf16 where the processor multiplies tiles
/// of it and no weight is dropped, else f64 or f32.
DType attention_dtype(DType dtype, const TiledAttention& how) noexcept;
/// All tensors are dense, of one attention_dtype(), and have elements; logsumexp is of its
/// compute_dtype(). q's N heads are a multiple of k's M.
///   q  [N,L,D]   k  [M,S,D]   v  [M,S,E]   →  y  [N,L,E]   logsumexp  [N,L], inf for a row of 0
void attention_forward(const Tensor& y, const Tensor& logsumexp, const Tensor& q, const Tensor& k,
                       const Tensor& v, const TiledAttention& how);
/// Writes all three gradients.
void attention_backward(const AttentionGradients& grads, const Tensor& dy, const Tensor& y,
                        const Tensor& logsumexp, const Tensor& q, const Tensor& k, const Tensor& v,
                        const TiledAttention& how);
/// For few queries, without dropout. The tensors have one floating dtype, elements, and dense rows;
/// y is dense. q's N heads, the product of its leading dimensions, are a multiple of k's and v's.
///   q  […,L,D]   k  […,S,D]   v  […,S,E]   →  y  […,L,E], of q's heads
void attention_of_few(const Tensor& y, const Tensor& q, const Tensor& k, const Tensor& v,
                      const TiledAttention& how);
}  // namespace cpu

}  // namespace lathe
