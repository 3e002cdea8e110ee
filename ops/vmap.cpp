// vmap as a loop over samples. Contract: vmap.h.
#include "lathe/ops/vmap.h"

#include "lathe/ops/join.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

/// The size of the batch.
int64_t check_inputs(const Tensors& inputs, const VmapOptions& options) {
  const std::vector<int64_t>& dims = options.in_dims;
  LATHE_CHECK(ValueError, dims.empty() || dims.size() == inputs.size(), "vmap: ", dims.size(),
              " in_dims for ", inputs.size(), " inputs");
  int64_t size = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!dims.empty() && dims[i] == VmapOptions::kWhole) continue;
    LATHE_CHECK(ShapeError, inputs[i].ndim() > 0, "vmap: input ", i, " has no dimension (",
                inputs[i], ")");
    const int64_t here =
        inputs[i].shape()[wrap_dim("vmap", dims.empty() ? 0 : dims[i], inputs[i].ndim())];
    LATHE_CHECK(ShapeError, size < 0 || size == here, "vmap: input ", i, " has a batch of ", here,
                ", another one of ", size);
    size = here;
  }
  LATHE_CHECK(ValueError, size >= 0, "vmap: no input has a batch dimension");
  LATHE_CHECK(ValueError, size > 0, "vmap: the batch is empty, so f's outputs are unknown");
  return size;
}

/// An empty list for each of the first sample's results.
std::vector<Tensors> start_outputs(const Tensors& results, const VmapOptions& options) {
  LATHE_CHECK(ValueError, !results.empty(), "vmap: f returned no tensors");
  LATHE_CHECK(ValueError, options.out_dims.empty() || options.out_dims.size() == results.size(),
              "vmap: ", options.out_dims.size(), " out_dims for ", results.size(), " outputs");
  return std::vector<Tensors>(results.size());
}

}  // namespace

Tensors vmap(const TensorsFunction& f, const Tensors& inputs, const VmapOptions& options) {
  const int64_t size = check_inputs(inputs, options);
  std::vector<Tensors> outputs;  // [output][sample]
  for (int64_t n = 0; n < size; ++n) {
    Tensors sample;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t dim = options.in_dims.empty() ? 0 : options.in_dims[i];
      sample.push_back(dim == VmapOptions::kWhole ? inputs[i] : select(inputs[i], dim, n));
    }
    const Tensors results = f(sample);
    if (n == 0) outputs = start_outputs(results, options);
    LATHE_CHECK(ValueError, results.size() == outputs.size(), "vmap: f returned ", results.size(),
                " tensors for sample ", n, ", and ", outputs.size(), " before");
    for (size_t k = 0; k < results.size(); ++k) outputs[k].push_back(results[k]);
  }
  const std::vector<int64_t>& at = options.out_dims;
  Tensors stacked;
  for (size_t k = 0; k < outputs.size(); ++k) {
    stacked.push_back(stack(outputs[k], at.empty() ? 0 : at[k]));
  }
  return stacked;
}

}  // namespace lathe
