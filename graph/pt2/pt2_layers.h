// The options of layers that run alone or as a part of a fusion (pt2_fuse.h). Internal: program.h
// is what others use.
#pragma once

#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/conv2d.h"

namespace lathe::jit::pt2 {

/// Of aten.batch_norm, in the mode of its module.
BatchNormOptions batch_norm_options(const Call& c);

/// Of aten.conv2d, without the bias. The padding is 0 if it is a word.
Conv2dOptions conv2d_options(const Call& c);

}  // namespace lathe::jit::pt2
