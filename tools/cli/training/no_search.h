// NoSearch: convolutions without a search for the fastest engine.
#pragma once

#include "lathe/ops/conv/search/cudnn_settings.h"

namespace lathe::cli {

/// While it lives, convolutions take the engine that the heuristics name: for batches of sizes that
/// do not come again.
class NoSearch {
 public:
  NoSearch() { cudnn::set_benchmark(false); }
  ~NoSearch() { cudnn::set_benchmark(was_on_); }
  NoSearch(const NoSearch&) = delete;
  NoSearch& operator=(const NoSearch&) = delete;

 private:
  const bool was_on_ = cudnn::benchmark();
};

}  // namespace lathe::cli
