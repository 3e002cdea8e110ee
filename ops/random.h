// Random tensors. Every value is a function of (seed, offset, element index) through Philox
// 4x32-10, so that it depends on neither threads nor device; each call takes a block of offsets
// from its generator.
#pragma once

#include "lathe/core/generator.h"
#include "lathe/core/tensor.h"

namespace lathe {

// All take an optional generator; absent: the default one of the device.

/// Uniform in [0, 1): (u >> 8) * 2^-24.   throws: DTypeError if not floating.
LATHE_API Tensor rand(const Shape& shape, const TensorOptions& options = {},
                      Generator* generator = nullptr);
/// Normal with mean 0 and variance 1, by Box-Muller: never infinite.
LATHE_API Tensor randn(const Shape& shape, const TensorOptions& options = {},
                       Generator* generator = nullptr);
/// Integers in [low, high); i64 unless a dtype is set. Up to a span of 2^32 - 1 each is made of 32
/// random bits, beyond that of 64.   throws: ValueError unless low < high.
LATHE_API Tensor randint(int64_t low, int64_t high, const Shape& shape,
                         const TensorOptions& options = {}, Generator* generator = nullptr);
/// The numbers 0 … n-1 in random order; i64.
LATHE_API Tensor randperm(int64_t n, Generator* generator = nullptr);
/// 1 with probability p[i], else 0; p's dtype.   throws: ValueError for a p outside [0, 1]; on a
/// GPU such a p counts as the nearer end (NaN as 0), because looking at it would wait for the
/// device.
LATHE_API Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

LATHE_API Tensor rand_like(const Tensor& like, Generator* generator = nullptr);
LATHE_API Tensor randn_like(const Tensor& like, Generator* generator = nullptr);

// In place, never recorded as a function of the old values.
LATHE_API const Tensor& uniform_(const Tensor& x, double low, double high,
                                 Generator* generator = nullptr);
LATHE_API const Tensor& normal_(const Tensor& x, double mean, double std,
                                Generator* generator = nullptr);

namespace cpu {
/// out[i] = low + (high - low) * uniform(i), in row-major order of the elements.
void fill_uniform(const Tensor& out, double low, double high, Generator::Block block);
void fill_normal(const Tensor& out, double mean, double std, Generator::Block block);
/// out[i] in [low, low + span). The block holds two words per element where
/// math::is_wide_span(span) (ops/random_math.h), else one.
void fill_integers(const Tensor& out, int64_t low, uint64_t span, Generator::Block block);
}  // namespace cpu
namespace cuda {
void fill_uniform(const Tensor& out, double low, double high, Generator::Block block);
void fill_normal(const Tensor& out, double mean, double std, Generator::Block block);
void fill_integers(const Tensor& out, int64_t low, uint64_t span, Generator::Block block);
}  // namespace cuda

}  // namespace lathe
