// Convolution layers: Conv1d, Conv2d, ConvTranspose2d. The ops of the same names have the shape
// rules.
#pragma once

#include "lathe/core/pair.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/module.h"
#include "lathe/ops/conv2d.h"

namespace lathe::nn {

struct Conv2dOptions {
  Pair kernel = 0;  // must be set
  Pair stride = 1;
  Pair pad = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;  // false where a batch norm follows
  bool init = true;  // false: the caller fills the weight next (init::left_open)
};

/// [N,in,H,W] → [N,out,P,Q], or both without N; see ops/conv2d.h.
/// weight [out,in/groups,R,S] and bias [out], U(±1/sqrt(fan_in)).
/// throws: ValueError unless the kernel is positive and groups divide in and out.
class LATHE_API Conv2d final : public Module {
 public:
  Conv2d(int64_t in, int64_t out, const Conv2dOptions& options);
  Conv2d(int64_t in, int64_t out, int64_t kernel)
      : Conv2d(in, out, Conv2dOptions{.kernel = kernel}) {}
  Conv2d(Module& parent, const std::string& name, int64_t in, int64_t out,
         const Conv2dOptions& options)
      : Conv2d(in, out, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// For conv(norm.relu(x)): batch norm, relu and convolution can run as one op (NormRelu).
  Tensor operator()(NormRelu&& x);
  int64_t macs(const Shape& x, const Shape& y) const override;
  /// What an adapter of LoRA needs to know; nullopt with several groups.
  std::optional<LoraLayer> lora_layer() const override;
  const Conv2dOptions& options() const { return options_; }

  Parameter weight, bias;

 private:
  lathe::Conv2dOptions op_options() const;

  Conv2dOptions options_;
};

struct Conv1dOptions {
  int64_t kernel = 0;  // must be set
  int64_t stride = 1;
  int64_t pad = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// [N,in,W] → [N,out,Q], or both without N; see ops/conv1d.h.
/// weight [out,in/groups,S] and bias [out]. Initial values and errors are those of Conv2d.
class LATHE_API Conv1d final : public Module {
 public:
  Conv1d(int64_t in, int64_t out, const Conv1dOptions& options);
  Conv1d(Module& parent, const std::string& name, int64_t in, int64_t out,
         const Conv1dOptions& options)
      : Conv1d(in, out, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;
  int64_t macs(const Shape& x, const Shape& y) const override;

  Parameter weight, bias;

 private:
  Conv1dOptions options_;
};

struct ConvTranspose2dOptions {
  Pair kernel = 0;  // must be set
  Pair stride = 1;
  Pair pad = 0;
  Pair output_pad = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// [N,in,H,W] → [N,out,P,Q], or both without N; see ops/conv_transpose2d.h.
/// weight [in,out/groups,R,S] and bias [out]. Initial values and errors are those of Conv2d.
class LATHE_API ConvTranspose2d final : public Module {
 public:
  ConvTranspose2d(int64_t in, int64_t out, const ConvTranspose2dOptions& options);
  ConvTranspose2d(Module& parent, const std::string& name, int64_t in, int64_t out,
                  const ConvTranspose2dOptions& options)
      : ConvTranspose2d(in, out, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;
  int64_t macs(const Shape& x, const Shape& y) const override;

  Parameter weight, bias;

 private:
  ConvTranspose2dOptions options_;
};

}  // namespace lathe::nn
