// gradcheck must catch wrong gradients: each case is an op with one deliberate mistake.
#include "lathe/autograd/gradcheck.h"

#include <doctest/doctest.h>

#include <atomic>

#include "lathe/autograd/record.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

/// y = f(x) with the gradient g(dy, x), right or wrong.
template <class F, class G>
std::function<Tensor(const Tensors&)> with_gradient(F f, G g) {
  return [f, g](const Tensors& in) {
    Tensor y;
    {
      const NoGrad off;
      y = f(in[0]).clone();
    }
    autograd::record("custom", y, {in[0]},
                     [x = autograd::Saved(in[0]), g](const Tensor& dy, const autograd::Needs&) {
                       return Tensors{g(dy, x.get())};
                     });
    return y;
  };
}

using T = const Tensor&;
const Tensor kX = randn({3, 4}, {.dtype = kF64});

struct WrongCase {
  std::string mistake;
  std::function<Tensor(const Tensors&)> f;
};

std::atomic<int> g_calls{0};

// clang-format off
const WrongCase kWrong[] = {
    {"wrong sign", with_gradient([](T x) { return tanh(x); }, [](T dy, T x) { return neg(tanh_grad(dy, tanh(x))); })},
    {"factor 2 missing", with_gradient([](T x) { return square(x); }, [](T dy, T x) { return dy * x; })},
    {"dy ignored", with_gradient([](T x) { return square(x); }, [](T, T x) { return x * 2.0; })},
    {"always zero", with_gradient([](T x) { return exp(x); }, [](T dy, T) { return dy * 0.0; })},
    {"undefined although needed", with_gradient([](T x) { return exp(x); }, [](T, T) { return Tensor(); })},
    {"transposed", with_gradient([](T x) { return square(x.narrow(1, 0, 3).transpose(0, 1)); }, [](T dy, T x) {
       const Tensor dx = zeros_like(x);
       dx.narrow(1, 0, 3).copy_(dy * x.narrow(1, 0, 3) * 2.0);
       return dx; })},
    {"a term dropped", with_gradient([](T x) { return x * sin(x); }, [](T dy, T x) { return dy * sin(x); })},
    {"input in place of output", with_gradient([](T x) { return exp(x); }, [](T dy, T x) { return dy * x; })},
    {"mean without dividing", with_gradient([](T x) { return square(mean(x)); }, [](T dy, T x) { return (dy * (mean(x) * 2.0)).expand(x.shape()); })},
    {"one element wrong", with_gradient([](T x) { return square(x); }, [](T dy, T x) {
       Tensor dx = (dy * x * 2.0).clone();
       dx[1][2].zero_();
       return dx; })},
    {"off by 0.5 %", with_gradient([](T x) { return exp(x); }, [](T dy, T x) { return dy * exp(x) * 1.005; })},
    {"broadcast summed over the wrong dimension", with_gradient([](T x) { return square(x.sum({0}, {.keepdim = true}).expand({3, 4})); },
       [](T dy, T x) { return (dy * x.sum({0}, {.keepdim = true}) * 2.0).sum({1}, {.keepdim = true}).expand({3, 4}); })},
    {"differs from run to run", with_gradient([](T x) { return square(x); }, [](T dy, T x) { return dy * x * (2.0 + 1e-9 * ++g_calls); })},
};
// clang-format on

}  // namespace

TEST_CASE("gradcheck: a right gradient passes, once and twice") {
  const auto right =
      with_gradient([](T x) { return tanh(x); }, [](T dy, T x) { return tanh_grad(dy, tanh(x)); });
  CHECK(gradcheck(right, {kX}).ok);
  CHECK(gradgradcheck(right, {kX}).ok);
}

TEST_CASE("gradcheck: every deliberate mistake is caught") {
  for (const WrongCase& c : kWrong) {
    for (const bool fast : {false, true}) {
      const GradReport report = gradcheck(c.f, {kX}, {.fast_mode = fast});
      CHECK_MESSAGE(!report.ok, c.mistake);
      CHECK_MESSAGE(report.text.find("input 0") != std::string::npos, c.mistake);
    }
  }
}

TEST_CASE("gradgradcheck: a first order that is right hides no wrong second order") {
  // The first gradient is right but detached from x: its own gradient misses a term.
  const auto detached = with_gradient([](T x) { return square(x); },
                                      [](T dy, T x) { return dy * (x * 2.0).detach(); });
  CHECK(gradcheck(detached, {kX}).ok);
  CHECK_FALSE(gradgradcheck(detached, {kX}).ok);
  CHECK_FALSE(gradgradcheck(detached, {kX}, {.fast_mode = true}).ok);
}

TEST_CASE("gradcheck: the function gets its inputs in their strides") {
  const Tensor transposed = kX.transpose(0, 1), sliced = kX.slice(1, 0, 4, 2);
  const Tensor expanded = kX.narrow(1, 0, 1).expand({3, 4});
  for (const bool fast : {false, true}) {
    for (const Tensor& x : {transposed, sliced, expanded}) {
      const auto f = [&](const Tensors& in) {
        if (has_overlap(x)) {
          CHECK(in[0].is_contiguous());  // or moving one element would move others
        } else {
          CHECK(in[0].strides() == x.strides());
        }
        return square(in[0]);
      };
      CHECK(gradcheck(f, {x}, {.fast_mode = fast}).ok);
      CHECK(gradgradcheck(f, {x}, {.fast_mode = fast}).ok);
    }
  }
}

TEST_CASE("gradcheck: the fast mode calls the function twice per input") {
  int calls = 0;
  const auto f = [&](const Tensors& in) {
    ++calls;
    return square(in[0]) * in[1];
  };
  CHECK(gradcheck(f, {randn({50, 60}, {.dtype = kF64}), randn({60}, {.dtype = kF64})},
                  {.fast_mode = true})
            .ok);
  CHECK(calls == 2 + 2 * 2);  // two backward passes
}

TEST_CASE("gradgradcheck: the gradient with create_graph must be the one without") {
  // Two paths, as an op has that computes its gradient in one pass unless that is to be
  // differentiated: each is right by its own numbers, and they are different functions.
  const auto two_paths =
      with_gradient([](T x) { return square(x); },
                    [](T dy, T x) { return dy * x * (grad_enabled() ? 3.0 : 2.0); });
  CHECK(gradcheck(two_paths, {kX}).ok);
  const GradReport report = gradgradcheck(two_paths, {kX});
  CHECK_FALSE(report.ok);
  CHECK(report.text.find("input 0, element [0,0]: ") != std::string::npos);
  CHECK(report.text.find("with create_graph") != std::string::npos);
}

TEST_CASE("gradcheck: f32 inputs are refused") {
  CHECK_THROWS_AS(gradcheck([](const Tensors& in) { return in[0]; }, {randn({2})}), DTypeError);
}
