// Operation graphs of cuDNN: what is to be computed; cudnn_plan.h decides how. Graphs are built and
// finalized without a GPU.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/gpu/cudnn_descriptor.h"
#include "lathe/core/pair.h"

namespace lathe::cudnn {

/// throws: DTypeError for a dtype that cuDNN's convolutions do not take.
cudnnDataType_t data_type(DType dtype);

/// A tensor of a graph, always [N,C,H,W], whatever the order in memory.
struct TensorSpec {
  int64_t uid = 0;  // identifies its memory when the graph is executed
  DType dtype = kF32;
  std::array<int64_t, 4> dims{}, strides{};  // in elements
  int64_t alignment = 16;                    // of its address, in bytes
  bool is_virtual = false;                   // true: exists only inside the graph, has no memory
};

struct ConvolutionSpec {
  Pair stride = 1, pad = 0, dilation = 1;
  DType compute = kF32;  // of the sums
};

/// The tensors of cuDNN's "batch norm backward weights". x and dy are [N,C,H,W], all others
/// [1,C,1,1] in f32. With h = (x - mean) * invstd and sums over each channel:
///   dscale = sum(dy * h),  dbias = sum(dy)
/// and the gradient in x is dy_factor * dy + x_factor * x + constant.
struct BatchNormBackward {
  const Descriptor &x, &dy, &mean, &invstd, &scale;                    // read
  const Descriptor &dscale, &dbias, &dy_factor, &x_factor, &constant;  // written
};

/// Built in this order: tensors, operations on them, finalize(). A convolution's number of groups
/// is the ratio of its tensor's channels to its filter's.
/// throws: ShapeError with cuDNN's reason if sizes do not fit; what check() throws.
class OperationGraph {
 public:
  /// The reference stays valid as long as the graph lives.
  const Descriptor& tensor(const TensorSpec& spec);

  /// y = x * w
  void convolution_forward(const ConvolutionSpec& conv, const Descriptor& x, const Descriptor& w,
                           const Descriptor& y);
  /// dx: the gradient of sum((x * w) dy) in x
  void convolution_backward_data(const ConvolutionSpec& conv, const Descriptor& dx,
                                 const Descriptor& w, const Descriptor& dy);
  /// dw: the gradient of the same in w
  void convolution_backward_filter(const ConvolutionSpec& conv, const Descriptor& x,
                                   const Descriptor& dw, const Descriptor& dy);
  /// y = a + b, a - b or a * b in f32, b broadcast
  void add(const Descriptor& a, const Descriptor& b, const Descriptor& y);
  void subtract(const Descriptor& a, const Descriptor& b, const Descriptor& y);
  void multiply(const Descriptor& a, const Descriptor& b, const Descriptor& y);
  /// y = max(x, 0)
  void relu(const Descriptor& x, const Descriptor& y);
  /// dx = dy where x > 0, else 0
  void relu_backward(const Descriptor& dy, const Descriptor& x, const Descriptor& dx);
  /// The sums of x and of x * x over each channel, [1,C,1,1], in f32
  void statistics(const Descriptor& x, const Descriptor& sum, const Descriptor& square_sum);
  /// Batch norm's gradients but for its last pass over memory.
  void batch_norm_backward(const BatchNormBackward& tensors);

  /// cuDNN 9.19 needs no handle; older versions need that of the device.
  void finalize(cudnnHandle_t handle = nullptr);
  /// throws: StateError before finalize().
  const Descriptor& get() const;

 private:
  Descriptor& add_part(cudnnBackendDescriptorType_t type);
  const Descriptor& convolution(const ConvolutionSpec& spec);
  Descriptor& pointwise(cudnnPointwiseMode_t mode);
  void binary(cudnnPointwiseMode_t mode, const Descriptor& a, const Descriptor& b,
              const Descriptor& y);
  void add_operation(Descriptor& operation);

  std::deque<Descriptor> parts_;  // a deque, so that they do not move
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::optional<Descriptor> graph_;
};

}  // namespace lathe::cudnn
