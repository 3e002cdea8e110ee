// Questions about what a StepRecording says of one op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lathe/train/plan/step_recording.h"

namespace lathe::plan {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names);

/// Of their values, each block of memory once.
double bytes_of(const std::vector<TensorNote>& tensors);
/// Of a dense tensor.
double dense_bytes(DType dtype, const Shape& shape);

/// True if the gradients of the weight and the bias of layer k are both wanted. `backward` is that
/// of one linear layer or of several. On a GPU one call computes the two.
bool is_joint(const OpNote& backward, size_t k);
/// True if one of the layers is_joint().
bool sums_in_product(const OpNote& backward);

/// In which op each block of memory was taken.
using BlockOps = std::unordered_map<int64_t, int>;
BlockOps blocks_taken(const StepRecording& step);

/// The bytes of those results of op i whose memory it took and that no op inside it computed. The
/// ops inside it end before `next`.
double own_results(const StepRecording& step, const BlockOps& taken_in, int i, int next);

/// True if op i writes out a gradient that is the same for all pixels of an image, that of a mean,
/// which batch norm's kernels read as it is on a GPU.
bool is_expanded_gradient(const StepRecording& step, int i);

/// True for an op that writes over its first input itself.
bool is_in_place(const StepRecording& step, int i, int next);

}  // namespace lathe::plan
