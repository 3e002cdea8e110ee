// compile: all that a call of the function does besides its results stays as it is: gradients, writes,
// random numbers, errors.
#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/generator.h"
#include "lathe/core/profile/watch.h"
#include "lathe/graph/compile.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

using namespace lathe;

namespace {

using Function = std::function<Tensors(const Tensors&)>;

}  // namespace

TEST_CASE("compile: a function that writes its input does so once") {
  const Function f = [](const Tensors& t) {
    t[0].add_(1);
    return Tensors{t[0] * 2};
  };
  const jit::CompiledFunction compiled = jit::compile(f);
  for (int64_t rows : {4, 4, 1, 9}) {
    const Tensor x = zeros({rows, 1}), wide = zeros({rows, 3}), part = wide.slice(1, 0, 2);
    CHECK(equal(compiled({x})[0], full({rows, 1}, 2.0)));
    CHECK(equal(x, ones({rows, 1})));
    CHECK(equal(compiled({part})[0], full({rows, 2}, 2.0)));
    CHECK(equal(part, ones({rows, 2})));
    CHECK(equal(wide.slice(1, 2, 3), zeros({rows, 1})));
  }
  const Tensor leaf = zeros({4, 1}).requires_grad_();
  CHECK_THROWS_AS(jit::compile(f)({leaf}), StateError);
  CHECK(equal(leaf, zeros({4, 1})));
}
