// cuda::capture(): calls that launch do what calls that run do, and what a graph takes for granted
// is checked.
#include "lathe/core/capture/cuda_capture.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/stream.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/reduce.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

Tensor gpu(const Shape& shape, double value) { return full(shape, value, {.device = kGpu}); }

std::vector<float> values(const Tensor& t) { return t.to(kCPU).to_vector<float>(); }

/// The message of the error of type E that `call` throws.
template <class E, class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const E& e) {
    return e.message();
  }
  return "no such error";
}

bool says(const std::string& message, const char* part) {
  CAPTURE(message);
  CAPTURE(part);
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cuda capture: a training step that is launched has the bits of one that runs" *
          test::cuda_case()) {
  const auto train = [](int eager_calls) {
    manual_seed(4);
    const Tensor w = gpu({6}, 0.5).requires_grad_();
    cuda::CapturedStep step = cuda::capture(
        [&](const Tensors& in) {
          const Tensor loss = sum(mul(dropout(mul(w, in[0]), {.p = 0.3}), in[1]));
          loss.backward();
          w.detach().add_(mul(w.grad(), -0.01));
          w.set_grad({});
          return Tensors{loss};
        },
        {.eager_calls = eager_calls, .state = {w}});
    std::vector<float> losses;
    for (int i = 0; i < 8; ++i) {
      CHECK(step.is_captured() == (i > eager_calls));
      const Tensor loss = step({gpu({6}, 1 + i), gpu({6}, 2 - 0.1 * i)})[0];
      losses.push_back(loss.item<float>());
    }
    CHECK((step.size() > 0) == step.is_captured());
    return std::pair(losses, values(w.detach()));
  };
  const auto expected = train(100);
  CHECK(train(0) == expected);
  CHECK(train(2) == expected);
}

TEST_CASE("cuda capture: inputs that do not fit are errors with both values" * test::cuda_case()) {
  cuda::CapturedStep step =
      cuda::capture([](const Tensors& in) { return Tensors{mul(in[0], 2.0)}; }, {.eager_calls = 1});
  CHECK(says(error_of<DeviceError>([&] { step({zeros({2, 3})}); }), "input 0"));
  for (int i = 0; i < 3; ++i) {
    CHECK(values(step({gpu({2, 3}, i)})[0]) == std::vector<float>(6, 2.0F * static_cast<float>(i)));
    CHECK(says(error_of<ShapeError>([&] { step({gpu({3, 2}, 1)}); }), "[3,2]"));
    CHECK(says(error_of<DTypeError>([&] {
                 step({full({2, 3}, 1.0, {.dtype = kF64, .device = kGpu})});
               }),
               "f64"));
    CHECK(says(error_of<DeviceError>([&] { step({zeros({2, 3})}); }), "@cpu"));
    CHECK(says(error_of<ValueError>([&] {
                 step({gpu({2, 3}, 1), gpu({2, 3}, 1)});
               }),
               "got 2 inputs, and 1"));
    CHECK_THROWS_WITH_AS(step({}), doctest::Contains("there are no inputs"), ValueError);
  }
  CHECK_THROWS_WITH_AS(cuda::capture({}), doctest::Contains("the step is empty"), ValueError);
  CHECK_THROWS_WITH_AS(cuda::capture([](const Tensors& in) { return in; }, {.eager_calls = -1}),
                       doctest::Contains("eager_calls must not be negative, got -1"), ValueError);
}

TEST_CASE("cuda capture: state with other memory than when it was recorded is an error" *
          test::cuda_case()) {
  const Tensor a = gpu({4}, 2), b = gpu({4}, 3), own = b.detach();
  cuda::CapturedStep step =
      cuda::capture([&](const Tensors& in) { return Tensors{mul(mul(in[0], a), b)}; },
                    {.eager_calls = 0, .state = {a, b}});
  const Tensor x = gpu({4}, 1);
  CHECK(values(step({x})[0]) == std::vector<float>(4, 6));
  b.set_data(gpu({4}, 10));
  CHECK(says(error_of<StateError>([&] { step({x}); }), "tensor 1 of the state"));
  b.set_data(own);
  fill_values(b, 5.0);
  CHECK(values(step({x})[0]) == std::vector<float>(4, 10));
}

TEST_CASE("cuda capture: a call on another stream does not overwrite what is still read" *
          test::cuda_case()) {
  const Tensor total = zeros({1 << 16}, {.device = kGpu});
  cuda::CapturedStep step = cuda::capture(
      [&](const Tensors& in) {
        Tensor y = mul(total, 0.0);
        for (int i = 0; i < 50; ++i) y = add(y, 0.0);  // so that the input is read late
        total.add_(add(in[0], y));
        return Tensors{};
      },
      {.eager_calls = 0, .state = {total}});
  std::vector<Tensor> inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(gpu({1 << 16}, i));
  cuda::synchronize(kGpu);
  const OwnedStream streams[] = {OwnedStream(kGpu), OwnedStream(kGpu)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const StreamScope on(streams[i % 2]);
    step({inputs[i]});
  }
  cuda::synchronize(kGpu);
  CHECK(values(total) == std::vector<float>(1 << 16, 15));
}

TEST_CASE("cuda capture: a step that waits for the GPU is an error that names the op" *
          test::cuda_case()) {
  bool waits = true;
  int runs = 0;
  cuda::CapturedStep step = cuda::capture(
      [&](const Tensors& in) {
        ++runs;
        const Tensor y = mul(in[0], 2.0);
        return Tensors{waits ? mul(y, sum(y).item<double>()) : y};
      },
      {.eager_calls = 0});
  const Tensor x = gpu({4}, 1);
  CHECK(
      says(error_of<StateError>([&] { step({x}); }), "item: a step that is captured cannot wait"));
  CHECK_FALSE(step.is_captured());
  waits = false;  // the next call records again
  CHECK(values(step({x})[0]) == std::vector<float>(4, 2));
  CHECK(values(step({gpu({4}, 3)})[0]) == std::vector<float>(4, 6));
  CHECK(runs == 2);
}
