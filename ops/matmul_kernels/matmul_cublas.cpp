// Matrix products on the GPU by cuBLASLt: factors of any layout that cuBLAS can read in place,
// copies of the others, plans kept by shape. Contracts: matmul.h.
#include <cstdint>
#include <memory>
#include <optional>

#include "lathe/core/alignment.h"
#include "lathe/core/copy.h"
#include "lathe/core/log.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/matmul_kernels/matmul_cublas.h"
#include "lathe/ops/matmul_kernels/matmul_cuda.h"
#include "lathe/ops/plans/backoff.h"
#include "lathe/ops/plans/lru_cache.h"
#include "lathe/ops/reduce.h"

namespace lathe::cuda {

namespace {

/// The layout of a row-major matrix, or batch, whose transpose cuBLAS sees; empty if cuBLAS cannot
/// read it.
std::optional<MatmulLayout> layout_of(const Tensor& t) {
  const int64_t rows = t.dim(-2), cols = t.dim(-1), down = t.stride(-2), across = t.stride(-1);
  const int64_t batch_step = t.ndim() == 3 ? t.stride(0) : 0;
  MatmulLayout layout{.batch_step = batch_step, .alignment = alignment_of(t.raw_data())};
  if ((across == 1 || cols == 1) && (down >= cols || rows == 1)) {
    layout.ld = rows == 1 ? cols : down;
    return layout;
  }
  if ((down == 1 || rows == 1) && (across >= rows || cols == 1)) {
    layout.transposed = true;
    layout.ld = cols == 1 ? rows : across;
    return layout;
  }
  return std::nullopt;
}

int64_t batch_of(const Tensor& y) { return y.ndim() == 3 ? y.dim(0) : 1; }

/// cuBLAS takes a bias with adjacent elements, and it assumes an address that is a multiple of 16.
bool is_readable_bias(const Tensor& bias) {
  return (bias.dim(0) <= 1 || bias.stride(0) == 1) && alignment_of(bias.raw_data()) == 16;
}

/// What a thread keeps of a key from call to call.
struct Kept {
  std::unique_ptr<MatmulPlan> plan;  // null: not made yet, or cuBLAS refused the key
  Backoff backoff;                   // from cuBLAS, where it could not compute the key
};

/// True if it is logged when cuBLAS refuses the epilogue: nearly every shape has this one.
bool is_common(MatmulEpilogue epilogue) { return epilogue == MatmulEpilogue::kNone; }

/// The distance between the rows of `kept`, in the unit that cuBLAS counts.
int64_t kept_ld(const MatmulExtras& extras) {
  if (!extras.kept.defined()) return 0;
  return extras.kept.dtype() == kU8 ? extras.kept.stride(0) * 8 : extras.kept.stride(0);
}

void* address(const Tensor& t) { return t.defined() ? t.raw_data() : nullptr; }

}  // namespace

// cuBLAS counts a batch in 32 bits.
bool is_cublas_product(const Tensor& y, int64_t terms) {
  return is_floating(y.dtype()) && y.numel() > 0 && terms > 0 && batch_of(y) <= INT32_MAX;
}

Tensor readable_matrix(const Tensor& t) {
  if (layout_of(t).has_value()) return t;
  const Tensor copy = empty(t.shape(), {.dtype = t.dtype(), .device = t.device()});
  copy_values(copy, t);
  return copy;
}

Tensor readable_bias(const Tensor& bias) {
  if (!bias.defined() || is_readable_bias(bias)) return bias;
  const Tensor copy = empty(bias.shape(), {.dtype = bias.dtype(), .device = bias.device()});
  copy_values(copy, bias);
  return copy;
}

Tensor make_kept(MatmulEpilogue epilogue, const Tensor& y) {
  const int64_t ld = kept_ld(epilogue, y.dim(1));
  if (epilogue == MatmulEpilogue::kRelu) {
    return empty({y.dim(0), ld / 8}, {.dtype = kU8, .device = y.device()});
  }
  const Tensor room = empty({y.dim(0), ld}, {.dtype = y.dtype(), .device = y.device()});
  return alias(room, y.shape(), room.strides(), 0);
}

bool cublas_multiply(const Tensor& y, const Tensor& a, const Tensor& b,
                     const MatmulExtras& extras) {
  const MatmulKey key{
      .dtype = y.dtype(),
      .tf32 = y.dtype() == kF32 && tf32(),
      .deterministic = deterministic(),
      .rows = y.dim(-1),
      .cols = y.dim(-2),
      .terms = a.dim(-1),
      .batch = batch_of(y),
      .left = *layout_of(b),
      .right = *layout_of(a),
      .result = *layout_of(y),
      .epilogue = extras.epilogue,
      .bias = extras.bias.defined() && extras.epilogue != MatmulEpilogue::kRightSums,
      .kept_ld = kept_ld(extras),
      .device = y.device().index};
  const auto report = [&](const Error& e) {
    if (!is_common(extras.epilogue)) return;
    const std::string text = concat("matmul: cuBLAS does not compute ", a, " x ", b, ": ",
                                    e.message(), "; our own kernel does");
    warn_once(text, text);
  };
  // Plans hold the bias's address, so each thread has its own. A known one is found without lock or
  // allocation.
  constexpr size_t kPlans = 1024;
  thread_local LruMap<MatmulKey, Kept, MatmulKeyHash> t_plans(kPlans);
  Kept* const known = t_plans.find(key);
  Kept& kept = known != nullptr ? *known : t_plans.add(key, {});
  if (kept.backoff.skips()) return false;
  try {
    if (kept.plan == nullptr) kept.plan = std::make_unique<MatmulPlan>(key);
    kept.plan->execute(b.raw_data(), a.raw_data(), y.raw_data(),
                       {address(extras.bias), address(extras.kept)});
    kept.backoff.succeeded();
    return true;
  } catch (const OutOfMemoryError& e) {
    if (key.deterministic) throw;  // our own kernel gives other bits
    kept.backoff.failed();
    report(e);
  } catch (const CudaError& e) {
    if (kept.plan == nullptr) {
      kept.backoff.failed_for_good();
    } else {
      LATHE_CHECK(CudaError, !key.deterministic, "matmul: cuBLAS failed to compute ", a, " x ", b,
                  ", and our own kernel has other bits: ", e.message());
      kept.backoff.failed();
    }
    report(e);
  }
  return false;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape[a.ndim() - 1] = b.dim(-1);
  const Tensor y = empty(shape, {.dtype = a.dtype(), .device = a.device()});
  const bool done =
      is_cublas_product(y, a.dim(-1)) && cublas_multiply(y, readable_matrix(a), readable_matrix(b));
  return done ? y : portable_matmul(a, b);
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor w_t = alias(w, {w.dim(1), w.dim(0)}, {w.stride(1), w.stride(0)}, w.offset());
  const bool done =
      is_cublas_product(y, x.dim(1)) &&
      cublas_multiply(y, readable_matrix(x), readable_matrix(w_t), {.bias = readable_bias(bias)});
  return done ? y : portable_linear(x, w, bias);
}

// One kernel if cuBLAS has one for both. Not in deterministic mode, because the order in which it
// adds up the columns is not documented.
LinearParamGrads linear_param_grads(const Tensor& dy, const Tensor& x) {
  const TensorOptions options{.dtype = dy.dtype(), .device = dy.device()};
  const Tensor dy_t = alias(dy, {dy.dim(1), dy.dim(0)}, {dy.stride(1), dy.stride(0)}, dy.offset());
  const LinearParamGrads out{empty({dy.dim(1), x.dim(1)}, options), empty({dy.dim(1)}, options)};
  const bool done = !deterministic() && is_cublas_product(out.dw, dy.dim(0)) &&
                    cublas_multiply(out.dw, readable_matrix(dy_t), readable_matrix(x),
                                    {.epilogue = MatmulEpilogue::kRightSums, .bias = out.db});
  return done ? out : LinearParamGrads{cuda::matmul(dy_t, x), sum(dy, {0})};
}

}  // namespace lathe::cuda
