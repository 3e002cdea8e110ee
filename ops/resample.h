// The linear op behind average pooling and upsampling: one AxisMap along the rows, one along the
// columns.
#pragma once

#include <memory>

#include "lathe/core/function_ref.h"
#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/axis_map.h"

namespace lathe {

/// A map of planes, shared by an op and its gradient.
struct PlaneMap {
  AxisMap rows, columns;
};
using PlaneMapPtr = std::shared_ptr<const PlaneMap>;

/// y[n,c] = rows * x[n,c] * columns^T for every plane.
///   x  [N,C,rows.in,columns.in], NHWC kept   →  [N,C,rows.out(),columns.out()]
/// `op` is the name of the op that it is part of. dtypes: floating; sums are kept in f32 or wider.
/// grad: x (twice), the map's adjoint.   throws: DTypeError, ShapeError, OutOfMemoryError.
LATHE_API Tensor resample(const char* op, const Tensor& x, const PlaneMapPtr& map);

/// The same, with a map of planes to `out` = {rows, columns} that is made when the result has its
/// memory: a size that no tensor can have costs nothing.
LATHE_API Tensor resample(const char* op, const Tensor& x, Pair out,
                          FunctionRef<PlaneMap()> make_map);

namespace cpu {
/// x and y in one dense order: row-major or NHWC.
void resample(const Tensor& y, const Tensor& x, const PlaneMap& map);
}  // namespace cpu
namespace cuda {
void resample(const Tensor& y, const Tensor& x, const PlaneMap& map);
}  // namespace cuda

}  // namespace lathe
