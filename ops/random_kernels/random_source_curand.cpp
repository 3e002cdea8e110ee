// The cuRAND generators of ops/random_source.h. cuRAND writes contiguous f32 or f64, an even number
// of normals, and uniforms in (0, 1]. Ops of ours turn them into other dtypes, strides and ranges.
// Contract: ops/random_source.h.
#include <memory>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/curand_functions.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/random_source.h"
#include "lathe/ops/unary.h"

namespace lathe::cuda {

namespace {

void check(curandStatus_t status, const char* call) {
  LATHE_CHECK(CudaError, status == CURAND_STATUS_SUCCESS, call, ": cuRAND status ",
              static_cast<int>(status));
}

curandRngType_t type_of(RandomSource source) {
  switch (source) {
    case RandomSource::kCurandXorwow: return CURAND_RNG_PSEUDO_XORWOW;
    case RandomSource::kCurandMrg32k3a: return CURAND_RNG_PSEUDO_MRG32K3A;
    default: return CURAND_RNG_PSEUDO_PHILOX4_32_10;
  }
}

/// A generator of cuRAND's, made when a thread first needs it on a device.
class Handle {
 public:
  explicit Handle(RandomSource source) : source_(source) {
    check(curand::functions().curandCreateGenerator(&handle_, type_of(source)),
          "curandCreateGenerator");
  }
  ~Handle() { curand::functions().curandDestroyGenerator(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  RandomSource source() const { return source_; }
  curandGenerator_t get() const { return handle_; }

 private:
  const RandomSource source_;
  curandGenerator_t handle_ = nullptr;
};

/// This thread's generator for `device`, at the position in its sequence that `start` names. Every
/// call seeds it anew, although the next one often starts where the last one ended, because the
/// numbers must be those of `start`, whatever was drawn before. cuRAND promises that only for a
/// seed and an offset. Its position after a call depends on its ordering and on the call (4096
/// sequences side by side, normals in pairs), and a call takes whole counters. For
/// speed take our Philox, which has no state to set up.
curandGenerator_t generator_at(Device device, Generator::State start) {
  thread_local std::unique_ptr<Handle> t_handles[kMaxDevices];
  std::unique_ptr<Handle>& handle = t_handles[device.index];
  if (handle == nullptr || handle->source() != random_source()) {
    handle = std::make_unique<Handle>(random_source());
  }
  const curandGenerator_t out = handle->get();
  check(curand::functions().curandSetStream(
            out, static_cast<cudaStream_t>(current_stream(device).native)),
        "curandSetStream");
  check(curand::functions().curandSetPseudoRandomGeneratorSeed(out, start.seed),
        "curandSetPseudoRandomGeneratorSeed");
  check(curand::functions().curandSetGeneratorOffset(out, 4 * start.offset),
        "curandSetGeneratorOffset");
  return out;
}

/// Memory for `out`'s elements, and for one more if their number is odd.
Tensor room_for(const Tensor& out) {
  const DType dtype = out.dtype() == kF64 ? kF64 : kF32;
  return empty({out.numel() + out.numel() % 2}, {.dtype = dtype, .device = out.device()});
}

void put(const Tensor& out, const Tensor& values) {
  copy_values(out, alias(values, out.shape(), contiguous_strides(out.shape()), 0));
}

}  // namespace

void load_curand() {
  curand::functions();
  warn_of_other_libraries();
}

void curand_fill(const Tensor& out, const UniformDraw& draw, Generator::State start) {
  if (out.numel() == 0) return;
  const NoGrad off;
  const Tensor u = room_for(out);
  const auto n = static_cast<size_t>(u.numel());
  const curandGenerator_t generator = generator_at(out.device(), start);
  if (u.dtype() == kF64) {
    check(curand::functions().curandGenerateUniformDouble(generator, u.data<double>(), n),
          "curandGenerateUniformDouble");
  } else {
    check(curand::functions().curandGenerateUniform(generator, u.data<float>(), n),
          "curandGenerateUniform");
  }
  // (0, 1] is mirrored to [0, 1). A value that rounds to 1 becomes the largest number below 1.
  const double below_one = u.dtype() == kF64 ? 1 - 0x1p-53 : 1 - 0x1p-24;
  put(out, add(mul(clamp(sub(1.0, u), 0.0, below_one), draw.high - draw.low), draw.low));
}

void curand_fill(const Tensor& out, const NormalDraw& draw, Generator::State start) {
  if (out.numel() == 0) return;
  const NoGrad off;
  const Tensor z = room_for(out);
  const auto n = static_cast<size_t>(z.numel());
  const curandGenerator_t generator = generator_at(out.device(), start);
  if (z.dtype() == kF64) {
    check(curand::functions().curandGenerateNormalDouble(generator, z.data<double>(), n, draw.mean,
                                                         draw.std),
          "curandGenerateNormalDouble");
  } else {
    check(curand::functions().curandGenerateNormal(generator, z.data<float>(), n,
                                                   static_cast<float>(draw.mean),
                                                   static_cast<float>(draw.std)),
          "curandGenerateNormal");
  }
  put(out, z);
}

}  // namespace lathe::cuda
