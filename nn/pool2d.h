// Pooling and upsampling as modules. The rules are at ops/pool2d.h and ops/upsample.h.
#pragma once

#include "lathe/nn/module.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/upsample.h"

namespace lathe::nn {

class LATHE_API MaxPool2d final : public Module {
 public:
  explicit MaxPool2d(const MaxPool2dOptions& options) : options_(options) {}
  explicit MaxPool2d(int64_t kernel) : MaxPool2d(MaxPool2dOptions{.kernel = kernel}) {}
  MaxPool2d(Module& parent, const std::string& name, const MaxPool2dOptions& options)
      : MaxPool2d(options) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options_); }
  const MaxPool2dOptions& options() const { return options_; }

 private:
  MaxPool2dOptions options_;
};

class LATHE_API AvgPool2d final : public Module {
 public:
  explicit AvgPool2d(const AvgPool2dOptions& options) : options_(options) {}
  explicit AvgPool2d(int64_t kernel) : AvgPool2d(AvgPool2dOptions{.kernel = kernel}) {}
  AvgPool2d(Module& parent, const std::string& name, const AvgPool2dOptions& options)
      : AvgPool2d(options) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options_); }
  const AvgPool2dOptions& options() const { return options_; }

 private:
  AvgPool2dOptions options_;
};

/// AdaptiveAvgPool2d(1) is global average pooling.
class LATHE_API AdaptiveAvgPool2d final : public Module {
 public:
  explicit AdaptiveAvgPool2d(Pair out) : out_(out) {}
  AdaptiveAvgPool2d(Module& parent, const std::string& name, Pair out) : AdaptiveAvgPool2d(out) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, out_); }
  Pair out() const { return out_; }

 private:
  Pair out_;
};

class LATHE_API Upsample final : public Module {
 public:
  explicit Upsample(const UpsampleOptions& options) : options_(options) {}
  Upsample(Module& parent, const std::string& name, const UpsampleOptions& options)
      : Upsample(options) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return upsample(x, options_); }

 private:
  UpsampleOptions options_;
};

}  // namespace lathe::nn
