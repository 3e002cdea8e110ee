// The linear op behind average pooling and upsampling: one AxisMap along the rows and one along the
// columns. resample.cpp: checks and gradient; window_kernels/resample_cpu.cpp, resample_cuda.cu:
// kernels.
#pragma once

#include <memory>

#include "lathe/core/function_ref.h"
#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/axis_map.h"

namespace lathe {

/// A linear map of planes, shared by an op and its gradient.
struct PlaneMap {
  AxisMap rows, columns;
};
using PlaneMapPtr = std::shared_ptr<const PlaneMap>;

/// y[n,c] = rows * x[n,c] * columns^T for every plane.
///   op  the name of the op that this is part of
///   x  [N,C,rows.in,columns.in], NHWC is kept   →  [N,C,rows.out(),columns.out()]
/// dtypes: floats; sums are kept in f32 or wider.
/// grad: x, twice differentiable, by the map's adjoint.
/// throws: DTypeError, ShapeError, OutOfMemoryError.
LATHE_API Tensor resample(const char* op, const Tensor& x, const PlaneMapPtr& map);

/// Like resample() with a map, for a result of `out` = {rows, columns}. make_map() is called after
/// the result has its memory, so a size that no tensor can have fails before a map is computed.
LATHE_API Tensor resample(const char* op, const Tensor& x, Pair out,
                          FunctionRef<PlaneMap()> make_map);

namespace cpu {
/// x and y are dense in the same order: row-major or NHWC.
void resample(const Tensor& y, const Tensor& x, const PlaneMap& map);
}  // namespace cpu
namespace cuda {
void resample(const Tensor& y, const Tensor& x, const PlaneMap& map);
}  // namespace cuda

}  // namespace lathe
