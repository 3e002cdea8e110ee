// Random tensors. Philox 4x32-10 computes every value from (seed, offset, element index), so values
// depend on neither threads nor device. Each call takes a range of offsets from its generator.
// random.cpp: checks; random_kernels/random_cpu.cpp, random_cuda.cu,
// random_source_curand.cpp: kernels.
#pragma once

#include <cstdint>
#include <variant>

#include "lathe/core/config.h"
#include "lathe/core/random/random_start.h"
#include "lathe/core/tensor.h"

namespace lathe {

// Every function takes an optional generator. The default is the default generator of the device.

/// Random numbers, uniform in [0, 1): (u >> 8) * 2^-24, where u is an integer of 32 random bits.
/// Half types get only as many bits as they hold exactly.
/// throws: DTypeError if not floating.
LATHE_API Tensor rand(const Shape& shape, const TensorOptions& options = {},
                      Generator* generator = nullptr);
/// Normal with mean 0 and variance 1, by Box-Muller: never infinite.
LATHE_API Tensor randn(const Shape& shape, const TensorOptions& options = {},
                       Generator* generator = nullptr);
inline Tensor rand(const Shape& shape, DType dtype) { return rand(shape, {.dtype = dtype}); }
inline Tensor randn(const Shape& shape, DType dtype) { return randn(shape, {.dtype = dtype}); }
/// Random integers in [low, high); i64 unless a dtype is set. Each is made from 32 random bits, or
/// from 64 if high - low is above 2^32 - 1.
/// throws: ValueError unless low < high.
LATHE_API Tensor randint(int64_t low, int64_t high, const Shape& shape,
                         const TensorOptions& options = {}, Generator* generator = nullptr);
/// The numbers 0 … n-1 in random order; i64.
LATHE_API Tensor randperm(int64_t n, Generator* generator = nullptr);
/// y[i] = 1 with probability p[i], else 0, in p's dtype. On a GPU, a p outside [0, 1] counts as the
/// nearer of 0 and 1 (NaN as 0), because a check would wait for the device.
/// throws: on a CPU, ValueError for a p outside [0, 1].
LATHE_API Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

LATHE_API Tensor rand_like(const Tensor& like, Generator* generator = nullptr);
LATHE_API Tensor randn_like(const Tensor& like, Generator* generator = nullptr);

// Fill x in place with uniform numbers in [low, high), or with normal numbers. The values that x
// had before get a gradient of 0.
LATHE_API const Tensor& uniform_(const Tensor& x, double low, double high,
                                 Generator* generator = nullptr);
LATHE_API const Tensor& normal_(const Tensor& x, double mean, double std,
                                Generator* generator = nullptr);

// The distribution that fill_random draws every element of a tensor from. uniform(i) is the number
// in [0, 1) that the generator makes for element i, in row-major order.
struct UniformDraw {
  double low, high;  // low + (high - low) * uniform(i)
};
struct NormalDraw {
  double mean, std;
};
struct IntegerDraw {
  int64_t low;  // in [low, low + span)
  uint64_t span;
};
using RandomDraw = std::variant<UniformDraw, NormalDraw, IntegerDraw>;

namespace math {
/// True if a random integer from a range of `span` values needs two 32-bit words.
LATHE_HD constexpr bool is_wide_span(uint64_t span) { return span > UINT32_MAX; }
}  // namespace math

// From `start` on there is one word per element, or two for integers if math::is_wide_span(span).
namespace cpu {
void fill_random(const Tensor& out, const RandomDraw& draw, Generator::State start);
}
namespace cuda {
void fill_random(const Tensor& out, const RandomDraw& draw, const RandomStart& start);
}

}  // namespace lathe
