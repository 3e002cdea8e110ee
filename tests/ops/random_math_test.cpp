// From random words to numbers: normals against Box-Muller in f64, distributions, and the loops of
// the CPU against one functor call per counter. The words are tested in tests/core/philox_test.cpp.
#include "lathe/ops/random_kernels/random_math.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../threads_scope.h"
#include "compare.h"
#include "lathe/core/random/philox.h"

using namespace lathe;
using namespace lathe::test;
using math::NormalPair;
using math::normals_from_bits;

namespace {

/// Kolmogorov-Smirnov distance of the sample from a distribution function.
template <class Cdf>
double ks_distance(std::vector<float> sample, Cdf cdf) {
  std::sort(sample.begin(), sample.end());
  const double n = static_cast<double>(sample.size());
  double distance = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double at = cdf(double{sample[i]}), rank = static_cast<double>(i);
    distance = std::max({distance, at - rank / n, (rank + 1) / n - at});
  }
  return distance;
}

/// What `make` gives for element i of n, one counter after another.
template <class T, class Make>
std::vector<double> one_by_one(const Make& make, Generator::State start, int64_t n) {
  std::vector<double> all;
  for (int64_t i = 0; i < n; ++i) {
    T values[Make::kValues];
    const auto counter = static_cast<uint64_t>(i / Make::kValues);
    make(philox4x32_10(start.seed, start.offset + counter, 0), values);
    all.push_back(static_cast<double>(values[i % Make::kValues]));
  }
  return all;
}

}  // namespace

TEST_CASE("normals_from_bits: finite for the extreme bits") {
  const uint32_t edges[] = {0, 0xff, 0x100, 0x7fffffffu, 0x80000000u, 0xfffffeffu, 0xffffffffu};
  for (const uint32_t a : edges) {
    for (const uint32_t b : edges) {
      const NormalPair pair = normals_from_bits(a, b);
      CHECK(std::isfinite(pair.first));
      CHECK(std::isfinite(pair.second));
      CHECK(std::hypot(pair.first, pair.second) <= 5.7683f);
    }
  }
  CHECK(normals_from_bits(0, 0x12345678u).first == 0.0f);
}

TEST_CASE("normals_from_bits: to 4 ulp of Box-Muller in double") {
  double worst = 0;  // 3.2 over all 2^24 values of either word
  const auto check = [&](float got, double want) {
    int exponent = 0;
    std::frexp(want, &exponent);
    if (want == 0) REQUIRE(got == 0);
    worst = std::max(worst, std::abs(got - want) / std::ldexp(1.0, exponent - 24));
  };
  const auto check_pair = [&](uint32_t a, uint32_t b) {
    const NormalPair got = normals_from_bits(a, b);
    const double radius = std::sqrt(-2 * std::log1p(-((a >> 8) * 0x1p-24)));
    // sin and cos of eighths of a turn and the rest: exact where they are 0
    const uint32_t turn = b >> 8, eighth = turn >> 21, rest = turn & 0x1fffff;
    const double far = M_PI_4 * 0x1p-21 * (eighth % 2 != 0 ? 0x200000 - rest : rest);
    const double s = std::sin(far), c = std::cos(far);
    const double cosines[] = {c, s, -s, -c, -c, -s, s, c}, sines[] = {s, c, c, s, -s, -c, -c, -s};
    check(got.first, radius * cosines[eighth]);
    check(got.second, radius * sines[eighth]);
  };
  for (uint64_t i = 0; i < 200000; ++i) {
    const Philox4x32 bits = philox4x32_10(3, i, 0);
    check_pair(bits.v[0], bits.v[1]);
    const auto n = static_cast<uint32_t>(i) << 8;  // numbers near 0 and near 1
    check_pair(n, bits.v[2]);
    check_pair(~n, bits.v[3]);
    check_pair(bits.v[2], n);
    check_pair(bits.v[3], ~n);
  }
  for (uint32_t eighth = 0; eighth < 8; ++eighth) {
    for (const uint32_t beside : {0u, 0x100u, 0u - 0x100u})
      check_pair(0x12345678u, (eighth << 29) + beside);
  }
  CHECK(worst < 4);
}

TEST_CASE("philox: uniforms and normals follow their distributions") {
  std::vector<float> uniforms, normals;
  for (uint64_t counter = 0; counter < 25000; ++counter) {
    const Philox4x32 bits = philox4x32_10(7, counter, 0);
    for (const uint32_t word : bits.v) uniforms.push_back(uniform_from_bits(word));
    for (int i = 0; i < 4; i += 2) {
      const NormalPair pair = normals_from_bits(bits.v[i], bits.v[i + 1]);
      normals.insert(normals.end(), {pair.first, pair.second});
    }
  }
  const double limit =
      1.95 / std::sqrt(100000.0);  // p = 0.001; the sample is fixed, so this never flickers
  CHECK(ks_distance(uniforms, [](double x) { return x; }) < limit);
  CHECK(ks_distance(normals, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }) <
        limit);
}

TEST_CASE("random: any length, layout and number of threads gives the same bits per element") {
  const RandomDraw draws[] = {UniformDraw{-2, 3}, NormalDraw{0.5, 2}, IntegerDraw{-5, 11},
                              IntegerDraw{INT64_MIN, UINT64_MAX}};
  const Generator::State start{7, 0xffffff80u};  // the counter's low word wraps within a block
  for (const RandomDraw& draw : draws) {
    for (const DType dtype : {kF32, kF64, kF16, kBF16, kI64}) {
      const bool integers = std::holds_alternative<IntegerDraw>(draw);
      if (integers != (dtype == kI64)) continue;
      math::visit_random(draw, dtype, [&]<class T>(TypeTag<T>, const auto& make) {
        const std::vector<double> want = one_by_one<T>(make, start, 70001);
        for (const int threads : {1, 3}) {
          const ThreadsScope scope(threads);
          for (const int64_t n : {1, 2, 3, 5, 63, 511, 513, 1023, 1024, 1025, 4098, 70001}) {
            for (const int64_t step : {1, 2}) {
              CAPTURE(dtype);
              CAPTURE(threads);
              CAPTURE(n);
              CAPTURE(step);
              const Tensor all = zeros({step * n}, {.dtype = dtype});
              cpu::fill_random(all.slice(0, 0, step * n, step), draw, start);
              const std::vector<double> got = all.to_vector<double>();
              bool same = true;
              for (int64_t i = 0; i < step * n; ++i)
                same = same && got[i] == (i % step == 0 ? want[i / step] : 0.0);
              CHECK(same);
            }
          }
        }
      });
    }
  }
}
