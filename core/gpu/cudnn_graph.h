// Operation graphs of cuDNN: what is to be computed, before it is decided how (cudnn_plan.h). They
// are built and finalized without a GPU.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/gpu/cudnn_descriptor.h"
#include "lathe/core/pair.h"

namespace lathe::cudnn {

/// throws: DTypeError for one that cuDNN's convolutions do not take.
cudnnDataType_t data_type(DType dtype);

/// A tensor of a graph. Four dimensions: N C H W, whatever the order in memory.
struct TensorSpec {
  int64_t uid = 0;  // by which its memory is named when the graph is executed
  DType dtype = kF32;
  std::array<int64_t, 4> dims{}, strides{};  // of elements
  int64_t alignment = 16;                    // of its address, in bytes
  bool is_virtual = false;                   // stays inside the graph: has no memory
};

struct ConvolutionSpec {
  Pair stride = 1, pad = 0, dilation = 1;
  DType compute = kF32;  // of the sums
};

/// Built in this order: tensors, operations on them, finalize(). The number of groups of a
/// convolution is the ratio of the channels of its tensor and of its filter.
/// throws: ShapeError with cuDNN's reason where sizes do not fit; what check() throws.
class OperationGraph {
 public:
  /// The tensor stays where it is for as long as the graph lives.
  const Descriptor& tensor(const TensorSpec& spec);

  /// y = x * w
  void convolution_forward(const ConvolutionSpec& conv, const Descriptor& x, const Descriptor& w,
                           const Descriptor& y);
  /// dx: the gradient in x of sum((x * w) dy)
  void convolution_backward_data(const ConvolutionSpec& conv, const Descriptor& dx,
                                 const Descriptor& w, const Descriptor& dy);
  /// dw: the gradient in w
  void convolution_backward_filter(const ConvolutionSpec& conv, const Descriptor& x,
                                   const Descriptor& dw, const Descriptor& dy);
  /// y = a + b in f32, b broadcast
  void add(const Descriptor& a, const Descriptor& b, const Descriptor& y);
  /// y = max(x, 0) in f32
  void relu(const Descriptor& x, const Descriptor& y);

  /// cuDNN 9.19 needs no handle; where there is a device, older ones want its.
  void finalize(cudnnHandle_t handle = nullptr);
  /// throws: StateError before finalize().
  const Descriptor& get() const;

 private:
  Descriptor& add_part(cudnnBackendDescriptorType_t type);
  const Descriptor& convolution(const ConvolutionSpec& spec);
  Descriptor& pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor& y);
  void add_operation(Descriptor& operation);

  std::deque<Descriptor> parts_;  // which do not move
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::optional<Descriptor> graph_;
};

}  // namespace lathe::cudnn
