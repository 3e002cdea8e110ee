// The convolution search (conv_search/conv_search.h) over a CPU's ways (conv2d_ways_cpu.h): while
// cpu::conv_benchmark() is on, each pass of each new problem in f32 is timed in all ways, and the
// fastest is remembered. What is timed is the convolution without bias, sum and relu; where
// moments are wanted, with what makes them.
#pragma once

#include <optional>

#include "lathe/core/function_ref.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv_pass.h"
#include "lathe/ops/conv_search/conv_key.h"
#include "lathe/ops/conv_search/conv_ways.h"

namespace lathe::cpu {

/// True if passes that compute in this dtype are measured now: f32, cpu::conv_benchmark(), and not
/// deterministic(). One or two loads where the mode is off.
bool conv2d_is_measured(DType dtype) noexcept;

/// One pass of one call. Dense f32 tensors, images in one order; no size is trivial.
struct MeasuredConv2d {
  ConvPass pass;
  const Conv2dGeometry& g;
  const Tensor& x;       // the images, or for kBackwardInput dy
  const Tensor& other;   // the filters, or for kBackwardWeight dy
  const Tensor& result;  // y, dx or dw
  bool moments = false;  // kForward: the moments of y are wanted

  const Tensor& w() const { return pass == ConvPass::kBackwardWeight ? result : other; }  // or dw
};

/// True where gradients are recorded, and in the first call of checkpoint(), which must compute the
/// same bits as the second one.
bool conv2d_is_training() noexcept;

/// The pass's key. Besides the sizes it has: the processor, the instruction sets that are used
/// (oneDNN's own limit counts), the threads, the versions of lathe and oneDNN, cpu::conv_exact(),
/// and whether copies of the filters are kept.
ConvKey conv2d_key(const MeasuredConv2d& call);

/// Computes a pass in a way, from x and `other`.
using TimeConv2d =
    FunctionRef<void(ConvWay, const Tensor& x, const Tensor& other, const Tensor& result)>;

/// Runs the pass in the fastest way; if that is unknown, all are timed first. A way that runs out
/// of memory, or at which oneDNN fails, is given up for the next fastest. A way that was far slower
/// than the fastest twice in turn does not run again.
///   rule  what is tried first (conv2d_rule)
///   run   computes the call in a way
///   time  computes it in a way from copies of x and `other`, into a result of their own
/// Several sets of copies take turns, as far as there is memory: in a network the tensors come from
/// memory, too. What ways keep of filters goes with the copies.
/// throws: what `run` throws; OutOfMemoryError if no way has enough.
void run_measured_conv2d(const MeasuredConv2d& call, ConvWay rule, FunctionRef<void(ConvWay)> run,
                         TimeConv2d time);

/// The pass's way if it is known already.
std::optional<ConvWay> measured_conv2d_way(const MeasuredConv2d& call);

}  // namespace lathe::cpu
