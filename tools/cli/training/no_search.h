// NoSearch: convolutions without a search for the fastest engine.
#pragma once

#include "lathe/ops/conv/search/cudnn_settings.h"

namespace lathe::cli {

/// While a NoSearch exists, convolutions use the engine that cuDNN's heuristics choose. No engine
/// is timed. Use it for batches of a size that occurs only once.
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
