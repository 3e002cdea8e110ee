// Pairs of layers that fuse, and their launches. Contract: fused_launches.h.
#include "lathe/train/plan/fused_launches.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

namespace lathe::plan {
namespace {

/// "layer1.0" of "layer1.0.bn1"
std::string_view module_of(std::string_view layer) {
  return layer.substr(0, std::min(layer.rfind('.'), layer.size()));
}

bool is_of_one_module(const Launch& norm, const Launch& convolution) {
  const bool inner = norm.layer.find('.') != std::string::npos;
  return inner && module_of(norm.layer) == module_of(convolution.layer);
}

/// Norm by convolution and convolution by norm: the layers that fuse.
using Pairs = std::map<std::string, std::string>;

Pairs pairs_of(const std::vector<Launch>& launches) {
  Pairs pairs;
  for (size_t i = 0; i + 1 < launches.size(); ++i) {
    const Launch &norm = launches[i], &next = launches[i + 1];
    const bool fuses = norm.op == "batch_norm_relu" && norm.kernel == "train_kernel" &&
                       next.op == "conv2d" && next.fuses && is_of_one_module(norm, next);
    if (fuses) pairs[norm.layer] = next.layer;
  }
  return pairs;
}

}  // namespace

FusedStep fused_step(const std::vector<Launch>& launches) {
  const Pairs pairs = pairs_of(launches);
  FusedStep step{.layers = static_cast<int64_t>(pairs.size())};
  const auto is_fused_convolution = [&](const std::string& layer) {
    return std::ranges::any_of(pairs, [&](const auto& pair) { return pair.second == layer; });
  };
  const auto add_small = [&](Launch launch, const char* kernel, bool library = false) {
    launch.kernel = kernel;  // numbers per channel only
    launch.library = library;
    launch.read_bytes = launch.written_bytes = launch.again_bytes = launch.flops =
        launch.masked_bytes = 0;
    step.launches.push_back(std::move(launch));
  };
  bool has_sums = false;  // of the norm that comes next
  for (size_t i = 0; i < launches.size(); ++i) {
    Launch launch = launches[i];
    const bool norm = pairs.contains(launch.layer);
    // What the plain kernels have computed for them again, the fused ones compute themselves.
    if (launch.op == "batch_norm_again" && is_fused_convolution(launch.layer)) continue;
    if (launch.kernel == "stats_kernel") {
      has_sums = i > 0 && launches[i - 1].op == "conv2d" && launches[i - 1].fuses;
      step.sums += has_sums;
      if (has_sums) {
        add_small(launch, "bn_stats_kernel", true);
        add_small(std::move(launch), "finalize_kernel");
        continue;
      }
    }
    if (launch.kernel == "train_kernel" && norm) {
      if (!has_sums) add_small(std::move(launch), "coefficients_kernel");
      continue;
    }
    if (launch.kernel == "train_kernel" && has_sums) launch.kernel = "apply_kernel";
    if (norm && launch.op == "batch_norm_relu backward") {
      if (launch.kernel == "sums_kernel") continue;
      launch.kernel = "combine_kernel";
    }
    const bool leaves_gradients =
        launch.op == "conv2d_input_grad" && launch.library && is_fused_convolution(launch.layer);
    if (leaves_gradients) launch.read_bytes += launch.written_bytes;  // what was normalised
    step.launches.push_back(launch);
    if (leaves_gradients) add_small(std::move(launch), "dbn_stats_kernel", true);
  }
  return step;
}

}  // namespace lathe::plan
