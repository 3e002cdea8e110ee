// Batch norm whose output several ops read: into whose gradients it may write.
#include "compare.h"
#include "lathe/autograd/engine.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE(
    "batch_norm: an output of two ops has the gradients of one, and nobody's gradient changes") {
  const Tensor x = randn({4, 8, 5, 5}).contiguous(kChannelsLast), other = randn_like(x);
  const Tensor weight = rand({8}) + 0.5, bias = randn({8}), dy = randn_like(x), kept = dy.clone();
  enum class Seen { kNo, kHook, kRetained, kAsked };
  // Through a view the engine adds the gradients up before batch norm sees them.
  const auto run = [&](Seen seen, int uses, bool through_view) {
    const auto leaf = [](const Tensor& t) { return t.clone().requires_grad_(); };
    const Tensor a = leaf(x), r = leaf(other), w = leaf(weight), b = leaf(bias);
    const Tensor y = batch_norm_add_relu(a, r, w, b, {}, {}, {.training = true});
    Tensors found;
    if (seen == Seen::kHook) {
      y.register_hook([&](const Tensor& g) {
        found.push_back(g);
        return Tensor();
      });
    }
    if (seen == Seen::kRetained) y.retain_grad();
    const Tensor v = through_view ? y.view(y.shape()) : y;
    Tensor out = uses == 1 ? v : v * 3.0;  // 1: the caller's own dy is what batch norm gets
    for (int i = 1; i < uses; ++i) out = out + square(v + double(i));
    if (seen == Seen::kAsked) return grad({out}, {a, r, w, b, y}, {.grad_outputs = {dy}});
    out.backward(dy);
    if (seen == Seen::kRetained) found.push_back(y.grad());
    found.insert(found.end(), {a.grad(), r.grad(), w.grad(), b.grad()});
    return found;
  };
  for (const Seen seen : {Seen::kNo, Seen::kHook, Seen::kRetained, Seen::kAsked}) {
    for (const int uses : {1, 2, 3}) {
      CAPTURE(static_cast<int>(seen));
      CAPTURE(uses);
      const Tensors got = run(seen, uses, false), want = run(seen, uses, true);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], want[i], 0) == "");
      CHECK(difference(dy, kept, 0) == "");
    }
  }
}
