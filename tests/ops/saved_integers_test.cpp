// Integers that a gradient needs, such as labels: writing them before the backward pass is noticed.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "lathe/ops/argmax.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/losses/nll_loss.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/sort.h"

using namespace lathe;

TEST_CASE("saved integers: labels and indices that are written before backward are an error") {
  struct Case {
    const char* name;
    std::function<Tensor(const Tensor& x, Tensor& integers)> loss;
  };
  const Case cases[] = {
      {"cross_entropy", [](const Tensor& x, Tensor& labels) { return cross_entropy(x, labels); }},
      {"nll_loss", [](const Tensor& x, Tensor& labels) { return nll_loss(x, labels); }},
      {"max",
       [](const Tensor& x, Tensor& indices) {
         const auto [values, at] = max(x, 1);
         indices = at;
         return values.sum();
       }},
      {"sort",
       [](const Tensor& x, Tensor& indices) {
         const auto [values, at] = sort(x, 1);
         indices = at;
         return values.sum();
       }},
  };
  for (const Case& c : cases) {
    INFO(std::string(c.name));
    const Tensor x = tensor({{1.f, 2.f, 3.f}, {6.f, 5.f, 4.f}}).requires_grad_();
    Tensor integers = tensor({2, 0}).to(kI64);
    const Tensor loss = c.loss(x, integers);
    loss.backward({.retain_graph = true});
    integers.zero_();
    CHECK_THROWS_WITH_AS(loss.backward(), doctest::Contains("modified by an in-place operation"),
                         StateError);
  }
}
