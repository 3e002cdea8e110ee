// What is said of weights that a model does not take: how many entries differ, and a few of them.
#pragma once

#include <string>

#include "lathe/core/config.h"
#include "lathe/core/state_dict.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// True if an entry of a model can take the other tensor's values: the shapes are equal, and both
/// tensors are floats or neither is.
LATHE_API bool same_kind(const Tensor& a, const Tensor& b);

/// "of the model's 122 entries 3 are missing (a, b, c); 20 of the file's are not in the model (…)",
/// with at most three names each. `state`: what would be loaded; `from_file`: all that the file
/// has.   → "" if names, shapes and kinds are the model's
LATHE_API std::string misfit_text(const StateDict& state, const StateDict& from_file,
                                  const Module& model);

}  // namespace lathe::nn
