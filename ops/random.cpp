// Random tensors. Contracts: random.h; kernels: random_kernels/random_cpu.cpp.
#include "lathe/ops/random.h"

#include <algorithm>
#include <numeric>

#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/random_source.h"

namespace lathe {

namespace {

Tensor empty_floating(const char* op, const Shape& shape, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_dtype());
  LATHE_CHECK(DTypeError, is_floating(dtype), op, ": expected a floating dtype, got ", dtype);
  return empty(shape, options);
}

[[maybe_unused]] bool uses_curand(const Tensor& out) {
  return out.device().is_cuda() && random_source() != RandomSource::kLathe;
}

/// Words enough for cuRAND, which makes a double from two words, and normals in pairs.
[[maybe_unused]] int64_t curand_words(const Tensor& out) { return 2 * (out.numel() + 1); }

/// Fills a floating tensor; `Draw` is UniformDraw or NormalDraw.
template <class Draw>
void fill(const Tensor& out, const Draw& draw, Generator* generator) {
  if constexpr (kHasCudaLibraries) {
    if (uses_curand(out)) {
      const cuda::DeviceScope on(out.device(), "curand_fill");
      return cuda::curand_fill(out, draw,
                               reserve_words(generator, out.device(), curand_words(out)));
    }
  }
  const RandomStart start = reserve_words(generator, out.device(), out.numel());
  LATHE_DISPATCH(out.device(), fill_random(out, draw, start));
}

/// Fills x in place. The gradient of what x was before is then 0, as after fill_().
template <class Draw>
const Tensor& redraw(const Tensor& x, const Draw& draw, Generator* generator) {
  if (autograd::wants_record_in_place(x, {})) {
    const Tensor drawn = empty_like(x);
    fill(drawn, draw, generator);
    return copy_(x, drawn);
  }
  fill(x, draw, generator);
  x.bump_version();
  return x;
}

}  // namespace

Tensor rand(const Shape& shape, const TensorOptions& options, Generator* generator) {
  const profile::DeviceRange range("rand", options.device);
  const Tensor out = empty_floating("rand", shape, options);
  fill(out, UniformDraw{0, 1}, generator);
  profile::note_output(out);
  if (options.requires_grad) out.requires_grad_();
  return out;
}

Tensor randn(const Shape& shape, const TensorOptions& options, Generator* generator) {
  const profile::DeviceRange range("randn", options.device);
  const Tensor out = empty_floating("randn", shape, options);
  fill(out, NormalDraw{0, 1}, generator);
  profile::note_output(out);
  if (options.requires_grad) out.requires_grad_();
  return out;
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options,
               Generator* generator) {
  const profile::DeviceRange range("randint", options.device);
  LATHE_CHECK(ValueError, low < high, "randint: low ", low, " must be below high ", high);
  LATHE_CHECK(DTypeError, !options.requires_grad, "randint: integers have no gradient");
  TensorOptions complete = options;
  complete.dtype = options.dtype.value_or(kI64);
  check_holds("randint", *complete.dtype, low);
  check_holds("randint", *complete.dtype, high - 1);
  const Tensor out = empty(shape, complete);
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const int64_t words_each = math::is_wide_span(span) ? 2 : 1;
  const RandomStart start = reserve_words(generator, out.device(), words_each * out.numel());
  LATHE_DISPATCH(out.device(), fill_random(out, IntegerDraw{low, span}, start));
  profile::note_output(out);
  return out;
}

Tensor randperm(int64_t n, Generator* generator) {
  const profile::OpRange range("randperm");
  LATHE_CHECK(ValueError, n >= 0, "randperm: n must not be negative, got ", n);
  // Sorted by 64 random bits each; equal keys, if any, keep their order.
  const Tensor keys = randint(INT64_MIN, INT64_MAX, {n}, {}, generator);
  const int64_t* key = n == 0 ? nullptr : keys.data<int64_t>();
  const Tensor out = empty({n}, {.dtype = kI64});
  if (n == 0) return out;
  int64_t* order = out.data<int64_t>();
  std::iota(order, order + n, int64_t{0});
  std::stable_sort(order, order + n, [key](int64_t a, int64_t b) { return key[a] < key[b]; });
  return out;
}

Tensor bernoulli(const Tensor& p, Generator* generator) {
  const profile::OpRange range("bernoulli", {p});
  LATHE_CHECK(DTypeError, is_floating(p.dtype()), "bernoulli: expected a floating p, got ", p);
  const NoGrad off;
  if (p.device().is_cpu()) {  // reading the values of a GPU would wait for it
    for (const double value : p.to_vector<double>()) {
      LATHE_CHECK(ValueError, value >= 0 && value <= 1, "bernoulli: probability ", value,
                  " is outside [0, 1] (p: ", p, ")");
    }
  }
  const Tensor u = empty_like(p, compute_dtype(p.dtype()));
  fill(u, UniformDraw{0, 1}, generator);
  return cast(lt(u, p), p.dtype());
}

Tensor rand_like(const Tensor& like, Generator* generator) {
  const profile::DeviceRange range("rand_like", like.device());
  check_floating("rand_like", like);
  const Tensor out = empty_like(like);
  fill(out, UniformDraw{0, 1}, generator);
  profile::note_output(out);
  return out;
}
Tensor randn_like(const Tensor& like, Generator* generator) {
  const profile::DeviceRange range("randn_like", like.device());
  check_floating("randn_like", like);
  const Tensor out = empty_like(like);
  fill(out, NormalDraw{0, 1}, generator);
  profile::note_output(out);
  return out;
}

const Tensor& uniform_(const Tensor& x, double low, double high, Generator* generator) {
  const profile::OpRange range("uniform_", {x});
  autograd::check_in_place("uniform_", x);
  check_floating("uniform_", x);
  LATHE_CHECK(ValueError, low <= high, "uniform_: low ", low, " is above high ", high);
  return redraw(x, UniformDraw{low, high}, generator);
}

const Tensor& normal_(const Tensor& x, double mean, double std, Generator* generator) {
  const profile::OpRange range("normal_", {x});
  autograd::check_in_place("normal_", x);
  check_floating("normal_", x);
  LATHE_CHECK(ValueError, std >= 0, "normal_: std must not be negative, got ", std);
  return redraw(x, NormalDraw{mean, std}, generator);
}

}  // namespace lathe
