// Fine-tuning: training that begins with another model's weights. Finds a model's head, loads all
// weights but the head's, and freezes parameters.
//
//   nn::load_without_head(net, "resnet18.pth");            // the classifier is new
//   const nn::Frozen frozen = nn::freeze(net, {"conv1", "bn1", "layer1"});
//   net.train();
//   frozen.hold();                                         // batch norms of frozen layers
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// A model that knows which layer makes its result. A program from a file needs this, because its
/// parameters may come in any order.
class LATHE_API KnowsHead {
 public:
  virtual ~KnowsHead() = default;
  /// The names of the parameters of the layer that makes the result; none if no single layer does.
  virtual std::vector<std::string> head_parameters() const = 0;
};

/// The name of a model's head (its classifier). The head is the module of the model's
/// head_parameters() (KnowsHead) or, without these, the last module with parameters of its own. The
/// name is empty if the head is the whole model, or if its parameters are not in one module.
LATHE_API std::string head_of(const Module& model);

/// True if `name` is the name of an entry below `module`; `module` is not below itself. Every name
/// is below "".
LATHE_API bool is_below(std::string_view name, std::string_view module);

/// Splits `parameters` in two.   → the parameters outside the head, and those of the head
LATHE_API std::pair<Tensors, Tensors> split_by_head(const Module& model, const Tensors& parameters);

/// The entries of a file for a model that gets a new head.
struct WithoutHead {
  StateDict state;                       // for load_state_dict(): the file's, and the model's head
  std::vector<StateDict::Entry> fresh;   // the model's head, which the file does not replace
  std::vector<StateDict::Entry> unused;  // the file's head, and entries that the model lacks
};
LATHE_API WithoutHead without_head(const StateDict& from_file, const Module& model);

/// Loads a weights file (read_weights()) into the model, except for the model's head, which keeps
/// its values. If it throws, nothing has changed.
/// throws: what load() throws.
LATHE_API void load_without_head(Module& model, const std::string& path);

/// The result of freeze(). Refers to the model, which must outlive it.
struct Frozen {
  int64_t parameters = 0, values = 0;  // tensors, and numbers in them
  // Modules with running statistics, such as batch norms, that have every parameter frozen. After
  // hold(), training uses their running statistics and does not change them.
  std::vector<Module*> norms = {};

  /// Puts the frozen batch norms into evaluation mode. Call it after every model.train().
  LATHE_API void hold() const;
};

/// True if `pattern` matches the entry `name` or a module above this entry. freeze() says what a
/// pattern is; "backbone" has no special meaning here.
LATHE_API bool matches_pattern(const std::string& pattern, const std::string& name);

/// The parameters that match a pattern. freeze() says what a pattern is.
/// throws: ValueError, whose message begins with `what`, for a pattern that matches nothing.
LATHE_API Module::Named<Tensor> matching_parameters(const Module& model,
                                                    const std::vector<std::string>& patterns,
                                                    std::string_view what);

/// Freezes all parameters except those in `trained`, and all batch norms that have no parameter in
/// `trained`.
LATHE_API Frozen freeze_all_but(Module& model, const Tensors& trained);

/// Makes parameters not require a gradient, so that optimisers neither update nor decay them. A
/// pattern is the name of a parameter or of a module above it. In a pattern * stands for any text,
/// ? for one character, and [ab] for a or b. The pattern "backbone" stands for everything but the
/// head.
/// throws: ValueError for a pattern that matches nothing (with the nearest name), or if no
/// parameter is left to train. Nothing has changed then.
LATHE_API Frozen freeze(Module& model, const std::vector<std::string>& patterns);

}  // namespace lathe::nn
