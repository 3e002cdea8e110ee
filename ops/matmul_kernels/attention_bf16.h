// Attention of bf16 in tile registers (Intel's Advanced Matrix Extensions). Included by
// attention_cpu.cpp and tests.
#pragma once

#include "lathe/ops/attention.h"
#include "lathe/ops/matmul_kernels/amx_kernels.h"
#include "lathe/ops/matmul_kernels/attention_tiles.h"

namespace lathe::cpu {

struct Bf16AttentionKernels {
  AmxKernels products;
  AttentionTiles tiles;
};

/// The instructions where this process has them, else plain loops.
const Bf16AttentionKernels& bf16_kernels();

/// As attention_forward() and attention_backward() (attention.h), for dense bf16, without dropout.
/// logsumexp and a mask of floats are f32. Scores and sums are f32; weights, and in the backward
/// pass the scores' gradients, are rounded to bf16 as factors of products. Subnormal numbers are
/// taken for 0. The number of threads changes no bit.
void attention_forward_bf16(const Bf16AttentionKernels& kernels, const Tensor& y,
                            const Tensor& logsumexp, const Tensor& q, const Tensor& k,
                            const Tensor& v, const TiledAttention& how);
void attention_backward_bf16(const Bf16AttentionKernels& kernels, const AttentionGradients& grads,
                             const Tensor& dy, const Tensor& y, const Tensor& logsumexp,
                             const Tensor& q, const Tensor& k, const Tensor& v,
                             const TiledAttention& how);

}  // namespace lathe::cpu
