// Building operation graphs: tensors, convolutions, pointwise operations.
#include "lathe/core/gpu/cudnn_graph.h"

#include "lathe/core/error.h"

namespace lathe::cudnn {

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kF16: return CUDNN_DATA_HALF;
    case DType::kBF16: return CUDNN_DATA_BFLOAT16;
    case DType::kF32: return CUDNN_DATA_FLOAT;
    default: LATHE_FAIL(DTypeError, "cudnn: no convolution of ", dtype, " tensors is built");
  }
}

Descriptor& OperationGraph::add_part(cudnnBackendDescriptorType_t type) {
  return parts_.emplace_back(type);
}

void OperationGraph::add_operation(Descriptor& operation) {
  operation.finalize();
  operations_.push_back(operation.object());
}

const Descriptor& OperationGraph::tensor(const TensorSpec& spec) {
  Descriptor& t = add_part(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, spec.uid);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(spec.dtype));
  t.set_array(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(spec.dims));
  t.set_array(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(spec.strides));
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, spec.alignment);
  t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, spec.is_virtual);
  t.finalize();
  return t;
}

const Descriptor& OperationGraph::convolution(const ConvolutionSpec& spec) {
  const auto set_pair = [](Descriptor& d, cudnnBackendAttributeName_t name, Pair pair) {
    d.set_array(name, std::span<const int64_t>(std::array{pair.rows, pair.cols}));
  };
  Descriptor& d = add_part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, data_type(spec.compute));
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  set_pair(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spec.pad);
  set_pair(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spec.pad);
  set_pair(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, spec.dilation);
  set_pair(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spec.stride);
  d.finalize();
  return d;
}

void OperationGraph::convolution_forward(const ConvolutionSpec& conv, const Descriptor& x,
                                         const Descriptor& w, const Descriptor& y) {
  const Descriptor& how = convolution(conv);
  Descriptor& op = add_part(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.f);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.f);
  add_operation(op);
}

void OperationGraph::convolution_backward_data(const ConvolutionSpec& conv, const Descriptor& dx,
                                               const Descriptor& w, const Descriptor& dy) {
  const Descriptor& how = convolution(conv);
  Descriptor& op = add_part(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, how);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.f);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.f);
  add_operation(op);
}

// The same as cudnnConvolutionBackwardFilter, from before cuDNN had graphs.
void OperationGraph::convolution_backward_filter(const ConvolutionSpec& conv, const Descriptor& x,
                                                 const Descriptor& dw, const Descriptor& dy) {
  const Descriptor& how = convolution(conv);
  Descriptor& op = add_part(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, how);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.f);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.f);
  add_operation(op);
}

// An operation of a function that is computed in f32; its tensors are set by the caller.
Descriptor& OperationGraph::pointwise(cudnnPointwiseMode_t mode) {
  Descriptor& function = add_part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  function.finalize();
  Descriptor& op = add_part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  return op;
}

void OperationGraph::binary(cudnnPointwiseMode_t mode, const Descriptor& a, const Descriptor& b,
                            const Descriptor& y) {
  Descriptor& op = pointwise(mode);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add_operation(op);
}

void OperationGraph::add(const Descriptor& a, const Descriptor& b, const Descriptor& y) {
  binary(CUDNN_POINTWISE_ADD, a, b, y);
}
void OperationGraph::subtract(const Descriptor& a, const Descriptor& b, const Descriptor& y) {
  binary(CUDNN_POINTWISE_SUB, a, b, y);
}
void OperationGraph::multiply(const Descriptor& a, const Descriptor& b, const Descriptor& y) {
  binary(CUDNN_POINTWISE_MUL, a, b, y);
}

void OperationGraph::relu(const Descriptor& x, const Descriptor& y) {
  Descriptor& op = pointwise(CUDNN_POINTWISE_RELU_FWD);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add_operation(op);
}

void OperationGraph::relu_backward(const Descriptor& dy, const Descriptor& x,
                                   const Descriptor& dx) {
  Descriptor& op = pointwise(CUDNN_POINTWISE_RELU_BWD);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx);
  add_operation(op);
}

void OperationGraph::statistics(const Descriptor& x, const Descriptor& sum,
                                const Descriptor& square_sum) {
  Descriptor& op = add_part(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM);
  op.set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT);
  op.set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x);
  op.set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
  op.set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, square_sum);
  add_operation(op);
}

void OperationGraph::batch_norm_backward(const BatchNormBackward& t) {
  Descriptor& op = add_part(CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_DATA_FLOAT);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, t.x);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, t.dy);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, t.mean);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, t.invstd);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, t.scale);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, t.dscale);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, t.dbias);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, t.dy_factor);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, t.x_factor);
  op.set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, t.constant);
  add_operation(op);
}

void OperationGraph::finalize(cudnnHandle_t handle) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set_objects(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  graph.finalize();
  graph_ = std::move(graph);
}

const Descriptor& OperationGraph::get() const {
  LATHE_CHECK(StateError, graph_.has_value(), "cudnn: the operation graph is not finalized");
  return *graph_;
}

}  // namespace lathe::cudnn
