// The steps of lstm in tile registers. Contract: recurrent_lstm_bf16.h.
//
// A forward step goes over 32 units at a time: the products of their four gates stay in the
// first-level cache until the units are computed. A backward step computes all gates first, since
// each number of dh is a product with all of them.
#include <algorithm>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/compute_alone.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/recurrent_kernels/lstm_units.h"
#include "lathe/ops/recurrent_kernels/recurrent_lstm_bf16.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kUnits = kAmxBlock;

uint16_t* bf16_data(const Tensor& t) { return reinterpret_cast<uint16_t*>(t.data<BFloat16>()); }

Tensor bf16_workspace(int64_t elements) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  return empty({elements}, {.dtype = kBF16});
}

/// Pointers to 32 rows of w from `first`, to zeros from `end` on.
struct WeightRows {
  WeightRows(const Tensor& w, const uint16_t* zeros, int64_t first, int64_t end) {
    for (int64_t i = 0; i < kAmxBlock; ++i)
      rows[i] = first + i < end ? bf16_data(w) + (first + i) * w.dim(1) : zeros;
  }
  const uint16_t* rows[kAmxBlock];
};

/// Calls body(first, count) for up to 32 of the N sequences, on all threads. Each row of a product
/// has the same bits in any group.
template <class Body>
void share_out_tile_rows(const AmxKernels& kernels, int64_t N, const Body& body) {
  constexpr int64_t kLeast = 8;
  const int64_t grain = std::clamp(ceil_div(N, int64_t{num_threads()}), kLeast, kAmxBlock);
  parallel_for(N, grain, [&](int64_t begin, int64_t end) {
    const ComputeAlone alone;
    for (int64_t first = begin; first < end; first += kAmxBlock) {
      const int64_t rows = std::min(kAmxBlock, end - first);
      const AmxScope products(kernels, rows);
      body(first, rows);
    }
  });
}

}  // namespace

void lstm_steps_bf16(const AmxKernels& kernels, const RecurrentSteps& s, const Tensor& from_x,
                     const Tensor& w_h, const Tensor& bias) {
  const int64_t T = from_x.dim(0), N = from_x.dim(1), H = w_h.dim(1), G = 4 * H;
  const int64_t blocks = ceil_div(H, kUnits), wide_H = blocks * kUnits;
  const bool keep = s.gates.dim(0) == T;
  // w_h as columns of the products: [gate, block of units, 32 columns of H terms].
  const Tensor packed = bf16_workspace(4 * wide_H * wide_H);
  const std::vector<uint16_t> zeros(static_cast<size_t>(H));
  for (int64_t at = 0; at < 4 * blocks; ++at) {
    const int64_t gate = at / blocks, unit = at % blocks * kUnits;
    const WeightRows w(w_h, zeros.data(), gate * H + unit, (gate + 1) * H);
    kernels.columns(bf16_data(packed) + at * kUnits * wide_H, w.rows, H);
  }
  share_out_tile_rows(kernels, N, [&](int64_t first, int64_t rows) {
    // h before and after the step, padded with zeros.
    std::vector<uint16_t> before(static_cast<size_t>(rows * wide_H)), after(before.size());
    float sums[4 * kAmxBlock * kAmxBlock];
    const auto states = [&](int64_t t) { return bf16_data(s.states) + (t * N + first) * H; };
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(states(0) + r * H, H, before.data() + r * wide_H);
    for (int64_t t = 0; t < T; ++t) {
      const int64_t row = t * N + first;
      for (int64_t b = 0; b < blocks; ++b) {
        for (int64_t gate = 0; gate < 4; ++gate) {
          kernels.multiply({.sums = sums + gate * kAmxBlock * kAmxBlock,
                            .rows = rows,
                            .a = before.data(),
                            .a_row = wide_H,
                            .b = bf16_data(packed) + (gate * blocks + b) * kUnits * wide_H,
                            .steps = blocks,
                            .add = false});
        }
        const int64_t u = b * kUnits;
        float* const cells = s.cells.data<float>() + row * H + u;
        lstm_forward(LstmForward<uint16_t, float>{
            .size = {rows, std::min(kUnits, H - u), H},
            .sums = sums,
            .sum_row = kAmxBlock,
            .sum_gate = kAmxBlock * kAmxBlock,
            .x = bf16_data(from_x) + row * G + u,
            .bias = bias.data<float>() + u,
            .c_before = cells,
            .c = cells + N * H,
            .gates = s.gates.data<float>() + ((keep ? t * N : 0) + first) * G + u,
            .h = after.data() + u,
            .h_row = wide_H});
      }
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(after.data() + r * wide_H, H, states(t + 1) + r * H);
      before.swap(after);
    }
  });
}

void lstm_step_gradients_bf16(const AmxKernels& kernels, const RecurrentGradients& grads,
                              const RecurrentSteps& s, const Tensor& w_h, const Tensor& dy) {
  const int64_t T = dy.dim(0), N = dy.dim(1), H = dy.dim(2), G = 4 * H;
  const int64_t wide_G = round_up(G, kAmxTerms), blocks = ceil_div(H, kUnits);
  // w_h as terms of the products: [block of units, G terms of 32 columns].
  const Tensor packed = bf16_workspace(blocks * kUnits * wide_G);
  const std::vector<uint16_t> zeros(static_cast<size_t>(H));
  for (int64_t term = 0; term < G; term += kAmxTerms) {
    const WeightRows w(w_h, zeros.data(), term, G);
    kernels.interleave(bf16_data(packed) + term * kUnits, wide_G * kUnits, w.rows, H);
  }
  share_out_tile_rows(kernels, N, [&](int64_t first, int64_t rows) {
    std::vector<uint16_t> d_gates(static_cast<size_t>(rows * wide_G));   // padded with zeros
    std::vector<float> dh(static_cast<size_t>(blocks * kUnits * rows));  // [blocks, rows, 32]
    for (int64_t t = T; t-- > 0;) {
      const int64_t row = t * N + first;
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t u = b * kUnits;
        lstm_backward(LstmBackward<uint16_t, float>{.size = {rows, std::min(kUnits, H - u), H},
                                                    .dh = dh.data() + u * rows,
                                                    .dh_row = kUnits,
                                                    .dy = bf16_data(dy) + row * H + u,
                                                    .dc = grads.c.data<float>() + first * H + u,
                                                    .gates = s.gates.data<float>() + row * G + u,
                                                    .c = s.cells.data<float>() + (row + N) * H + u,
                                                    .c_before = s.cells.data<float>() + row * H + u,
                                                    .d_gates = d_gates.data() + u,
                                                    .d_row = wide_G});
      }
      for (int64_t b = 0; b < blocks; ++b) {
        kernels.multiply({.sums = dh.data() + b * kUnits * rows,
                          .rows = rows,
                          .a = d_gates.data(),
                          .a_row = wide_G,
                          .b = bf16_data(packed) + b * kUnits * wide_G,
                          .steps = wide_G / kAmxTerms,
                          .add = false});
      }
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(d_gates.data() + r * wide_G, G, bf16_data(grads.from_x) + (row + r) * G);
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t u = 0; u < H; ++u)
        grads.h.data<float>()[(first + r) * H + u] =
            dh[static_cast<size_t>((u / kUnits * rows + r) * kUnits + u % kUnits)];
    }
  });
}

}  // namespace lathe::cpu
