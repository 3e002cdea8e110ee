// The generator of a GPU's uniform and normal numbers: our Philox, or one of NVIDIA's cuRAND.
#pragma once

#include "lathe/ops/random.h"

namespace lathe {

enum class RandomSource {
  kLathe,           // Philox 4x32-10 as on the CPU: same seed, same numbers everywhere
  kCurandPhilox,    // Philox 4x32-10, too, but in the order in which cuRAND draws its numbers
  kCurandXorwow,    // Marsaglia 2003, doi:10.18637/jss.v008.i14
  kCurandMrg32k3a,  // L'Ecuyer 1999, doi:10.1287/opre.47.1.159
};

/// Sets the source of the numbers that `rand`, `randn`, `uniform_` and `normal_` make on GPUs, for
/// the whole process. All other random ops, such as dropout, draw Lathe's own numbers (kLathe).
/// With a source of cuRAND, a program draws the same numbers again only with the same generator
/// state, device and version of cuRAND. The first call with such a source loads cuRAND.
/// throws: NoCudaError for a source of cuRAND, if the build or the machine lacks cuRAND.
LATHE_API void set_random_source(RandomSource source);
LATHE_API RandomSource random_source() noexcept;

namespace cuda {
/// Loads cuRAND.
/// throws: NoCudaError if it cannot.
void load_curand();
/// Like fill_random (ops/random.h), with numbers from random_source(), which must be cuRAND's.
void curand_fill(const Tensor& out, const UniformDraw& draw, Generator::State start);
void curand_fill(const Tensor& out, const NormalDraw& draw, Generator::State start);
}  // namespace cuda

}  // namespace lathe
