// One recorded step: the loss, its backward pass, and the names of the leaves.
#include "lathe/train/report/recorded_step.h"

#include <cmath>
#include <unordered_map>

#include "lathe/core/copy.h"
#include "lathe/core/format.h"
#include "lathe/core/text/formatted.h"
#include "lathe/ops/creation.h"

namespace lathe::report {
namespace {

double norm_of(const Tensor& t) {
  const Tensor host = empty(t.shape(), {.dtype = kF64});
  copy_values(host, t);
  double sum = 0;
  for (int64_t i = 0; i < host.numel(); ++i) sum += host.data<double>()[i] * host.data<double>()[i];
  return std::sqrt(sum);
}

std::vector<RecordedLeaf> named_leaves(const autograd::RecordedGraph& graph,
                                       const nn::Module& model) {
  std::unordered_map<const TensorImpl*, std::string> names;
  for (const auto& [name, p] : model.named_parameters()) names.emplace(p.handle().get(), name);
  std::vector<RecordedLeaf> leaves;
  for (const Tensor& leaf : graph.leaves) {
    const auto at = names.find(leaf.handle().get());
    leaves.push_back({.name = at == names.end() ? "" : at->second,
                      .shape = leaf.shape(),
                      .dtype = leaf.dtype()});
    if (leaf.grad().defined()) leaves.back().gradient_norm = norm_of(leaf.grad());
  }
  return leaves;
}

}  // namespace

RecordedStep record_step(const nn::Module& model, const std::function<Tensor()>& loss,
                         bool ranges) {
  RecordedStep step{.model = {}, .data = {}, .input = {}, .graph = {}};
  std::optional<debug::ValueRanges> watched;
  if (ranges) watched.emplace();
  autograd::GraphRecorder recorder;
  const Tensor value = loss();
  value.backward();
  step.graph = recorder.graph({value});
  step.leaves = named_leaves(step.graph, model);
  step.loss = value.item<double>();
  if (watched) {
    step.ranges = watched->rows();
    step.ranges_table = watched->table();
  }
  return step;
}

std::string tensor_text(DType dtype, const Shape& shape) { return concat(dtype, shape); }

std::string short_layer(const std::string& path) {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::string size_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1024) return formatted("{} B", bytes);
  if (bytes < 1024 * 1024) return formatted("{:.1f} KiB", value / 1024);
  if (bytes < 1024 * 1024 * 1024) return formatted("{:.2f} MiB", value / (1 << 20));
  return formatted("{:.2f} GiB", value / (1 << 30));
}

double gradient_norm(const RecordedStep& step) {
  double sum = 0;
  for (const RecordedLeaf& leaf : step.leaves) {
    const double norm = leaf.gradient_norm.value_or(0);
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

}  // namespace lathe::report
