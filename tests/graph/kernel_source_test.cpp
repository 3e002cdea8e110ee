// The text of fused kernels; tests/ptx/fused_test.cpp compiles and runs them.
#include "lathe/graph/fused/kernel_source.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/graph/fused/kernel_compiler.h"
#include "lathe/graph/op_table.h"

using namespace lathe;

namespace {

using Kind = jit::InputForm::Kind;

jit::PointwiseProgram::Step step(const char* name, std::vector<int> operands, DType dtype,
                                 std::vector<jit::Attribute> attributes = {}) {
  const auto op = std::ranges::find_if(jit::all_ops(), [&](const jit::Op& each) {
    return each.name == name && each.attributes.size() == attributes.size();
  });
  return {&*op, std::move(operands), std::move(attributes), dtype};
}

std::optional<jit::KernelSource> source_of(const jit::PointwiseProgram& program,
                                           const jit::InputForms& forms) {
  const std::optional<jit::PointwisePlan> plan = jit::PointwisePlan::of(program, forms);
  REQUIRE(plan);
  return jit::kernel_source(*plan, "fused");
}

}  // namespace

TEST_CASE("kernel source: each op is a line, in the ops' own arithmetic and rounding") {
  // y0 = relu(x * c) and y1 = y0 as f32, clamped.
  const jit::PointwiseProgram program{
      .shape = {100},
      .inputs = 2,
      .steps = {step("mul", {0, 1}, kF16), step("relu", {2}, kF16),
                step("cast", {3}, kF32, {"f32"}), step("clamp", {4}, kF32, {0.5, 1.0})},
      .results = {1, 3}};
  const auto source = source_of(program, {{kF16, Kind::kFull}, {kF32, Kind::kZeroDim}});
  REQUIRE(source);
  CHECK(source->text == R"(#include "lathe/graph/fused/fused_kernel.cuh"

using namespace lathe;
using namespace lathe::cuda;
using namespace lathe::math;

extern "C" __global__ void fused(int64_t n, int64_t packets,
    const Half* __restrict__ x0,
    Number<Half> n0,
    Half* __restrict__ y0,
    float* __restrict__ y1) {
  const Half c0 = n0.get();
  each_piece<4>(n, packets, [&]<int V>(Neighbours<V>, int64_t i) {
    const auto p0 = load_packet<V>(x0 + i);
    Packet<Half, V> q0;
    Packet<float, V> q1;
    for (int k = 0; k < V; ++k) {
      const Half v0 = Half(Mul{}(float(p0.v[k]), float(c0)));
      const Half v1 = Half(Relu{}(float(v0)));
      q0.v[k] = v1;
      const float v2 = float(v1);
      const float v3 = Clamp<float>{0x1p-1f, 0x1p+0f}(v2);
      q1.v[k] = v3;
    }
    store_packet(y0 + i, q0);
    store_packet(y1 + i, q1);
  });
}
)");
  CHECK(source->packet == 4);
  CHECK(source->inputs == std::vector<int>{0});
  REQUIRE(source->numbers.size() == 1);
  CHECK(source->numbers[0].input == 1);
  CHECK(source->numbers[0].dtype == kF16);
  CHECK(source->results == std::vector<DType>{kF16, kF32});
}

TEST_CASE("kernel source: numbers stand in the text with all their bits") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const double number :
       {-0.0, 0.0, 1.0, 0.1, -3e-8, 0x1p63, 0x1p64, 1e30, 1e300, 1e-40, 5e-324, 1e-310,
        double{FLT_MAX}, DBL_MAX, double(INFINITY), -double(INFINITY), kNaN}) {
    for (const DType dtype : {kF16, kF32, kF64}) {
      const auto source = source_of({.shape = {9},
                                     .inputs = 1,
                                     .steps = {step("leaky_relu", {0}, dtype, {number})},
                                     .results = {0}},
                                    {{dtype, Kind::kFull}});
      REQUIRE(source);
      const size_t begin = source->text.find(">{") + 2;
      const std::string text = source->text.substr(begin, source->text.find('}', begin) - begin);
      const std::string bits = dtype == kF64 ? "(double, " : "(float, ";
      const size_t at = text.find(bits);
      const auto of = [&]<class T, class Bits>(T want, Bits, const std::string& suffix) {
        CAPTURE(text);
        if (at != std::string::npos) {
          CHECK(std::bit_cast<Bits>(want) == std::stoull(text.substr(at + bits.size())));
          return;
        }
        CHECK(text.find("0x") <= 1);  // a floating literal: an exponent, and no double for a float
        CHECK(text.find('p') != std::string::npos);
        CHECK(text.ends_with('f') == (suffix == "f"));
        const T got = static_cast<T>(std::strtod(text.c_str(), nullptr));
        CHECK(std::bit_cast<Bits>(got) == std::bit_cast<Bits>(want));
      };
      if (dtype == kF64) {
        of(number, uint64_t{}, "");
      } else {
        of(Scalar(number).to<float>(), uint32_t{}, "f");
      }
    }
  }
}

TEST_CASE("kernel source: a total and integers have none") {
  jit::PointwiseProgram program{.shape = {100},
                                .inputs = 1,
                                .steps = {step("square", {0}, kF32), step("neg", {1}, kF32)},
                                .results = {0}};
  CHECK(source_of(program, {{kF32, Kind::kFull}}));
  program.total = {.step = 1};
  CHECK(!source_of(program, {{kF32, Kind::kFull}}));
  program = {
      .shape = {100}, .inputs = 1, .steps = {step("cast", {0}, kF32, {"f32"})}, .results = {0}};
  CHECK(!source_of(program, {{kI32, Kind::kFull}}));
}

TEST_CASE("kernel compiler: a build without CUDA's toolkit says so") {
  if (kHasCudaLibraries) return;
  CHECK_THROWS_WITH_AS(jit::compile_kernels("", "sm_90"),
                       doctest::Contains("configured without CUDA's toolkit"), NoCudaError);
  CHECK_THROWS_AS(jit::kernel_target(9, 0), NoCudaError);
}
