// NoSearch: convolutions without a search for the fastest engine.
#pragma once

#include "lathe/ops/conv_search/cpu_settings.h"
#include "lathe/ops/conv_search/cudnn_settings.h"

namespace lathe::cli {

/// While it lives, convolutions take the engine that the heuristics name: for batches of sizes that
/// do not come again.
class NoSearch {
 public:
  NoSearch() {
    cudnn::set_benchmark(false);
    cpu::set_conv_benchmark(false);
  }
  ~NoSearch() {
    cudnn::set_benchmark(on_gpu_);
    cpu::set_conv_benchmark(on_cpu_);
  }
  NoSearch(const NoSearch&) = delete;
  NoSearch& operator=(const NoSearch&) = delete;

 private:
  const bool on_gpu_ = cudnn::benchmark(), on_cpu_ = cpu::conv_benchmark();
};

}  // namespace lathe::cli
