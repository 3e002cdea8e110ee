// cuRAND's generators as the source of random tensors.
#include "lathe/ops/random_source.h"

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "lathe/ops/random.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const Device kGpu(DeviceType::kCUDA);
constexpr RandomSource kCurand[] = {RandomSource::kCurandPhilox, RandomSource::kCurandXorwow,
                                    RandomSource::kCurandMrg32k3a};

struct SourceScope {
  explicit SourceScope(RandomSource source) { set_random_source(source); }
  ~SourceScope() { set_random_source(RandomSource::kLathe); }
};

CudaCase curand_case() {
  if (!kHasCudaLibraries) return {false, "this build has no cuRAND"};
  return cuda_case();
}

}  // namespace

TEST_CASE("random source: cuRAND is refused where the build has none" *
          doctest::skip(kHasCudaLibraries)) {
  for (const RandomSource source : kCurand) CHECK_THROWS_AS(set_random_source(source), NoCudaError);
  set_random_source(RandomSource::kLathe);
  CHECK(random_source() == RandomSource::kLathe);
}

TEST_CASE("random source: cuRAND's numbers have the range and moments asked for, and repeat" *
          curand_case()) {
  constexpr int64_t kCount = 100'001;  // odd: cuRAND makes normals in pairs
  const Tensor ours = rand({kCount}, {.device = kGpu});
  for (const RandomSource source : kCurand) {
    for (const DType dtype : {kF32, kF64, kF16, kBF16}) {
      CAPTURE(static_cast<int>(source));
      CAPTURE(dtype);
      const SourceScope scope(source);
      Generator generator(5), again(5);
      const TensorOptions options{.dtype = dtype, .device = kGpu};
      const Tensor u = rand({kCount}, options, &generator),
                   z = randn({kCount}, options, &generator);
      const auto values = u.to(kF64).cpu(), normals = z.to(kF64).cpu();
      CHECK(values.min().item<double>() >= 0);
      CHECK(values.max().item<double>() <= (dtype == kF16 || dtype == kBF16 ? 1.0 : 1 - 0x1p-24));
      CHECK(values.mean().item<double>() == doctest::Approx(0.5).epsilon(0.01));
      CHECK(std::abs(normals.mean().item<double>()) < 0.02);
      CHECK((normals * normals).mean().item<double>() == doctest::Approx(1).epsilon(0.03));

      CHECK(difference(rand({kCount}, options, &again).cpu(), u.cpu(), 0) == "");
      CHECK(difference(randn({kCount}, options, &again).cpu(), z.cpu(), 0) == "");
      CHECK(difference(rand({kCount}, options, &again).cpu(), u.cpu(), 0) != "");
      CHECK(difference(u.to(kF32).cpu(), ours.cpu(), 0) != "");

      const Tensor wide = zeros({3, 5}, options);
      uniform_(wide.transpose(0, 1), -2, 3, &again);
      CHECK(wide.min().item<double>() >= -2);
      CHECK(wide.max().item<double>() <= 3);
    }
  }
}
