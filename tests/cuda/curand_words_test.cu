// Our Philox against the one on NVIDIA's devices: the same words for the same (seed, offset).
#include <curand_kernel.h>

#include "../cuda_case.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/random/philox.h"
#include "lathe/ops/creation.h"

using namespace lathe;

namespace {

__global__ void curand_words_kernel(int32_t* out, uint64_t seed, uint64_t subsequence,
                                    uint64_t counter) {
  curandStatePhilox4_32_10_t state;
  curand_init(seed, subsequence, 4 * (counter + threadIdx.x), &state);
  const uint4 words = curand4(&state);
  const uint32_t v[4] = {words.x, words.y, words.z, words.w};
  for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = static_cast<int32_t>(v[i]);
}

}  // namespace

TEST_CASE("philox: cuRAND's device generator reads the same words" * test::cuda_case()) {
  constexpr unsigned kThreads = 64;
  const Device gpu(DeviceType::kCUDA);
  for (const uint64_t seed : {uint64_t{0}, uint64_t{42}, ~uint64_t{0}}) {
    for (const uint64_t subsequence : {uint64_t{0}, uint64_t{7} << 40}) {
      for (const uint64_t counter : {uint64_t{0}, uint64_t{1} << 33}) {
        const Tensor out = zeros({4 * kThreads}, {.dtype = kI32, .device = gpu});
        launch(curand_words_kernel, dim3(1), dim3(kThreads), 0, current_stream(gpu),
               out.data<int32_t>(), seed, subsequence, counter);
        const auto words = out.cpu().to_vector<int32_t>();
        for (unsigned t = 0; t < kThreads; ++t) {
          const Philox4x32 want = philox4x32_10(seed, counter + t, subsequence);
          for (unsigned i = 0; i < 4; ++i) {
            CHECK(words[4 * t + i] == static_cast<int32_t>(want.v[i]));
          }
        }
      }
    }
  }
}
