// Ops against what PyTorch and torchvision compute (make_torch_golden.py), with gradients.
#include <set>
#include <string>

#include "compare.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/ops/bitwise.h"
#include "lathe/ops/embedding_bag.h"
#include "lathe/ops/fake_quantize.h"
#include "lathe/ops/roi_align.h"
#include "lathe/ops/scatter_reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using In = const Tensors&;
using Name = const std::string&;

bool has(Name name, const char* word) { return name.find(word) != std::string::npos; }

Tensors bitwise_of(Name name, In x) {
  const Tensor& a = x[0];
  if (has(name, "_of_bool_and_numbers")) return {a & 3, a | 2, a ^ true};
  if (has(name, "_numbers")) return {a & 300, a | 300, a ^ -1, a << 2, a >> 2, a << -1, a >> 9};
  const Tensor& b = x[1];
  if (has(name, "_bool")) return {a & b, a | b, a ^ b, ~a};
  if (has(name, "_promoted")) return {a & b, a | b, a ^ b, a << b, a >> b};
  return {a & b, a | b, a ^ b, ~a, a << b, a >> b};
}

Tensors scatter_reduce_of(Name name, In x) {
  using R = ScatterReduction;
  const auto of = [&](int64_t dim, R r, bool include_self = true) {
    return scatter_reduce(x[0], dim, x[1], x[2], r, {.include_self = include_self});
  };
  if (has(name, "_ties")) return {of(0, R::kAmax), of(0, R::kAmin)};
  if (has(name, "_one_zero")) return {of(0, R::kProd)};
  if (has(name, "_integers")) {
    return {of(0, R::kSum), of(0, R::kProd), of(0, R::kMean), of(0, R::kAmax), of(0, R::kAmin)};
  }
  const R r = has(name, "_sum")    ? R::kSum
              : has(name, "_prod") ? R::kProd
              : has(name, "_mean") ? R::kMean
              : has(name, "_amax") ? R::kAmax
                                   : R::kAmin;
  return {of(has(name, "_lines") ? -1 : 0, r, !has(name, "_without"))};
}

Tensors embedding_bag_of(Name name, In x) {
  using M = EmbeddingBagMode;
  EmbeddingBagOptions o;
  if (x.size() > 2) o.offsets = x[2];
  o.mode = has(name, "_mean") ? M::kMean : has(name, "_max") ? M::kMax : M::kSum;
  if (has(name, "_padding")) o.padding_index = -3;
  o.include_last_offset = has(name, "_ends");
  if (has(name, "_factors")) o.per_sample_weights = x[3], o.padding_index = 2;
  return {embedding_bag(x[0], x[1], o)};
}

Tensors fake_quantize_of(Name name, In x) {
  const auto each = [&](double scale, int64_t zero_point, int64_t least, int64_t most) {
    return Tensors{fake_quantize_per_tensor_affine(x[0], scale, zero_point, least, most)};
  };
  if (has(name, "_small")) return each(0.1, 3, -8, 7);
  if (has(name, "_u8")) return each(0.017, 128, 0, 255);
  if (has(name, "_i8")) return each(0.25, 0, -128, 127);
  if (has(name, "_tensors")) return {fake_quantize_per_tensor_affine(x[0], x[1], x[2], 0, 15)};
  return {fake_quantize_per_channel_affine(x[0], x[1], x[2], 1, -16, 15)};
}

Tensors roi_align_of(Name name, In x) {
  RoiAlignOptions o{.sampling_ratio = has(name, "_-1") ? -1 : 2, .aligned = has(name, "_aligned")};
  const Tensor whole = roi_align(x[0], x[1], {2, 3}, o);
  o.spatial_scale = 0.6;
  return {whole, roi_align(x[0], x[1], 3, o)};
}

Tensors results_of(Name name, In x) {
  if (name.starts_with("bitwise")) return bitwise_of(name, x);
  if (name.starts_with("scatter_reduce")) return scatter_reduce_of(name, x);
  if (name.starts_with("embedding_bag")) return embedding_bag_of(name, x);
  if (name.starts_with("fake_quantize")) return fake_quantize_of(name, x);
  return roi_align_of(name, x);
}

}  // namespace

TEST_CASE("golden: values and gradients are PyTorch's, in every layout, on every device") {
  const StateDict all = safetensors::read(LATHE_GOLDEN_TORCH).tensors;
  std::set<std::string> names;
  for (const auto& [key, tensor] : all) names.insert(key.substr(0, key.find('.')));
  CHECK(names.size() > 60);
  for (const std::string& name : names) {
    const auto entries = [&](const std::string& kind, size_t k) {
      const std::string key = concat(name, ".", kind, k);
      return all.contains(key) ? all[key].clone() : Tensor();
    };
    for (const Device device : devices()) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(name, " ", layout.name, " on ", device));
        Tensors xs;
        for (size_t k = 0; entries("x", k).defined(); ++k) {
          xs.push_back(layout.apply(entries("x", k)).to(device));
          if (entries("g", k).defined()) xs.back().requires_grad_();
        }
        const Tensors got = results_of(name, xs);
        REQUIRE_FALSE(entries("y", got.size()).defined());
        Tensor loss;
        for (size_t k = 0; k < got.size(); ++k) {
          const Tensor want = entries("y", k), y = got[k];
          CHECK(y.dtype() == want.dtype());
          CHECK(difference(y.detach().cpu(), want, tolerance_of(want.dtype())) == "");
          if (!y.requires_grad()) continue;
          const Tensor at = arange(y.numel(), y.options()) + static_cast<double>(k);
          const Tensor part = (y.reshape({-1}) * cos(at)).sum();
          loss = loss.defined() ? loss + part : part;
        }
        if (!loss.defined()) continue;
        loss.backward();
        for (size_t k = 0; k < xs.size(); ++k) {
          const Tensor want = entries("g", k);
          if (!want.defined()) continue;
          REQUIRE(xs[k].grad().defined());
          CHECK(difference(xs[k].grad().cpu(), want, 10 * tolerance_of(want.dtype())) == "");
        }
      }
    }
  }
}
