// What cuDNN would compute convolutions with on a GPU that is only described.
#pragma once

#include <memory>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/machine/gpu_description.h"
#include "lathe/ops/conv/search/conv_choice.h"
#include "lathe/ops/conv/search/conv_key.h"

namespace lathe {

/// Asks cuDNN alone: neither a GPU nor a driver is needed. For one thread.
class LATHE_API Conv2dPlanner {
 public:
  /// throws: NoCudaError in a build without cuDNN, or if it cannot be loaded; CudaError if it is
  /// older than 9.8 or refuses the description.
  explicit Conv2dPlanner(const GpuDescription& gpu);
  ~Conv2dPlanner();
  Conv2dPlanner(const Conv2dPlanner&) = delete;
  Conv2dPlanner& operator=(const Conv2dPlanner&) = delete;

  /// Lists the engines for the key, and chooses one as the search does where nothing is timed
  /// (choose_engine).
  /// throws: ShapeError with cuDNN's reason; what choose_engine() throws if none can be used.
  ConvChoice plan(const ConvKey& key) const;

  /// The library that is asked: "cudnn 9.19.0".
  std::string library() const;

 private:
  struct Gpu;
  std::unique_ptr<const Gpu> gpu_;
};

}  // namespace lathe
