// Which generator makes a GPU's uniform and normal numbers: our Philox, or one of NVIDIA's cuRAND.
#pragma once

#include "lathe/ops/random.h"

namespace lathe {

enum class RandomSource {
  kLathe,           // Philox 4x32-10 as on the CPU: same seed, same numbers everywhere
  kCurandPhilox,    // the same bits in cuRAND's order
  kCurandXorwow,    // Marsaglia 2003, doi:10.18637/jss.v008.i14
  kCurandMrg32k3a,  // L'Ecuyer 1999, doi:10.1287/opre.47.1.159
};

/// From now on `rand`, `randn`, `uniform_` and `normal_` on GPUs take their numbers from `source`.
/// Everything else that is random, dropout included, keeps ours. With one of cuRAND's a sequence of
/// calls repeats only for the same generator state, device and version of cuRAND. For the whole
/// process. The first of cuRAND's opens cuRAND.
/// throws: NoCudaError for one of cuRAND's where the build or the machine has none.
LATHE_API void set_random_source(RandomSource source);
LATHE_API RandomSource random_source() noexcept;

namespace cuda {
/// Opens cuRAND.
/// throws: NoCudaError if it cannot.
void load_curand();
/// As fill_random (ops/random.h), with numbers from random_source(), which must be one of cuRAND's.
void curand_fill(const Tensor& out, const UniformDraw& draw, Generator::State start);
void curand_fill(const Tensor& out, const NormalDraw& draw, Generator::State start);
}  // namespace cuda

}  // namespace lathe
