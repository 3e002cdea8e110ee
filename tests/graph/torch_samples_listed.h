// The cases of golden_torch_samples.txt in which this library does not do what PyTorch does.
#pragma once

namespace lathe::testing {

struct Listed {
  const char* sample;  // an operator, a dtype, or a whole name: "add", "bool" or "add f32 3"
  const char* wrong;   // a part of the message
  const char* reason;
};

// clang-format off
inline constexpr Listed kListed[] = {
    // Errors where PyTorch has a result.
    {"bool", "not defined for bool", "arithmetic of bool is an error: convert first"},
    {"i64", "expected a floating dtype", "integers are an error where PyTorch counts with integers, or converts them first"},
    {"bool", "expected a floating dtype", "as with integers"},
    {"i64", "expected floating dtypes", "integers are an error where PyTorch converts them first"},
    {"bool", "expected floating dtypes", "as with integers"},
    {"i64", "must have one floating dtype", "convolutions and linear layers of integers"},
    {"i64", "x must be floating", "pools of integers"},
    {"addmv", "0.2 does not fit i64", "PyTorch cuts the factors of a product of integers"},
    {"nn.functional.adaptive_max_pool2d", "needs windows of equal size", "no op has windows of several sizes"},
    {"nn.functional.avg_pool3d", "has a divisor of its own", "avg_pool3d has no divisor"},
    {"nn.functional.embedding", "how often a row is looked up", "no scale_grad_by_freq"},
    {"nn.functional.batch_norm", "batch_norm: x must be [N,C]", "an input without channels"},
    {"nn.functional.multilabel_margin_loss", "must be [N,C] or [C]", "an input without classes"},
    {"gather f32 3", "index must be i64 or i32", "an empty index of another dtype"},
    {"gather f32 4", "index must have x's number of dimensions", "an empty index of another rank"},
    {"tensordot", "the sizes of dimensions", "PyTorch broadcasts a size of 1 that is summed over"},
    {"unfold", "a 0-d tensor has no dimension", "PyTorch makes a window of a 0-d tensor"},
    {"bincount", "weights must be floating", "weights that are integers"},
    {"linalg.pinv", "has limits that are tensors", "the limits are numbers"},
    {"linalg.pinv:hermitian", "reads one triangle only", "no matrix is taken to be symmetric"},
    {"masked_scatter", "mask does not broadcast to x", "a mask that is larger than what is written into"},
    {"nn.functional.instance_norm", "has running statistics", "statistics of an instance norm that trains"},
    {"searchsorted", "takes the order of its numbers", "numbers with an order beside them"},
    // Other values.
    {"digamma", "gradient of input 0", "infinite at a negative integer; PyTorch's is a large number"},
    {"polygamma:polygamma_n_0", "result 0", "infinite at a negative integer; PyTorch's is a large number"},
    {"special.polygamma:special_polygamma_n_0", "result 0", "infinite at a negative integer; PyTorch's is a large number"},
    {"arange i64 31", "result 0", "PyTorch cuts the step of an arange of integers, so -0.5 is 0"},
    {"masked.amax", "gradient of input 0", "where the largest element is NaN, PyTorch's gradient is NaN at all"},
    {"masked.amin", "gradient of input 0", "as masked.amax"},
    {"masked.prod", "gradient of input 0", "PyTorch divides by NaN where this library multiplies the others"},
    {"nn.functional.hardtanh", "want i64", "of integers: the default dtype here"},
    {"nn.functional.relu6", "want i64", "of integers: the default dtype here"},
    // Gradients that this library does not have.
    {"nn.functional.cross_entropy", "gradient of input 2", "no gradient for the weights of the classes"},
    {"nn.functional.linear_cross_entropy", "gradient of input 3", "no gradient for the weights of the classes"},
    {"nn.functional.linear_cross_entropy:chunked", "gradient of input 3", "no gradient for the weights of the classes"},
    {"nn.functional.linear_cross_entropy:chunked_none", "gradient of input 3", "no gradient for the weights of the classes"},
    {"nn.functional.linear_cross_entropy", "gradient of input 4", "no gradient for the weights of the classes"},
    {"nn.functional.linear_cross_entropy:chunked_none", "gradient of input 4", "no gradient for the weights of the classes"},
    {"nn.functional.margin_ranking_loss", "gradient of input 2", "no gradient for the target"},
};
// clang-format on

}  // namespace lathe::testing
