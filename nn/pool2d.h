// Pooling and upsampling as modules. The ops of the same name have the rules and options:
// ops/pool2d.h, ops/pool1d.h and ops/upsample.h.
// None has parameters or state.
#pragma once

#include "lathe/nn/module.h"
#include "lathe/ops/pool1d.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/rearrange.h"
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

class LATHE_API MaxPool1d final : public Module {
 public:
  explicit MaxPool1d(const MaxPool1dOptions& options) : options_(options) {}
  explicit MaxPool1d(int64_t kernel) : MaxPool1d(MaxPool1dOptions{.kernel = kernel}) {}
  MaxPool1d(Module& parent, const std::string& name, const MaxPool1dOptions& options)
      : MaxPool1d(options) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return max_pool1d(x, options_); }
  const MaxPool1dOptions& options() const { return options_; }

 private:
  MaxPool1dOptions options_;
};

class LATHE_API AvgPool1d final : public Module {
 public:
  explicit AvgPool1d(const AvgPool1dOptions& options) : options_(options) {}
  explicit AvgPool1d(int64_t kernel) : AvgPool1d(AvgPool1dOptions{.kernel = kernel}) {}
  AvgPool1d(Module& parent, const std::string& name, const AvgPool1dOptions& options)
      : AvgPool1d(options) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return avg_pool1d(x, options_); }
  const AvgPool1dOptions& options() const { return options_; }

 private:
  AvgPool1dOptions options_;
};

class LATHE_API AdaptiveAvgPool1d final : public Module {
 public:
  explicit AdaptiveAvgPool1d(int64_t out) : out_(out) {}
  AdaptiveAvgPool1d(Module& parent, const std::string& name, int64_t out) : AdaptiveAvgPool1d(out) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool1d(x, out_); }
  int64_t out() const { return out_; }

 private:
  int64_t out_;
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

/// PixelShuffle moves channels into rows and columns, PixelUnshuffle moves them back; see
/// ops/rearrange.h.
class LATHE_API PixelShuffle final : public Module {
 public:
  explicit PixelShuffle(int64_t factor) : factor_(factor) {}
  PixelShuffle(Module& parent, const std::string& name, int64_t factor) : PixelShuffle(factor) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return pixel_shuffle(x, factor_); }
  int64_t factor() const { return factor_; }

 private:
  int64_t factor_;
};

class LATHE_API PixelUnshuffle final : public Module {
 public:
  explicit PixelUnshuffle(int64_t factor) : factor_(factor) {}
  PixelUnshuffle(Module& parent, const std::string& name, int64_t factor) : PixelUnshuffle(factor) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return pixel_unshuffle(x, factor_); }
  int64_t factor() const { return factor_; }

 private:
  int64_t factor_;
};

}  // namespace lathe::nn
