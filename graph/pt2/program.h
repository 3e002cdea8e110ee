// Program: a model that PyTorch exported, as a module that trains.
//   torch.export.save(torch.export.export(model.train(), (x,)), "m.pt2")
//   jit::Program model = jit::load_program("m.pt2");
//   const Tensor loss = cross_entropy(model(images), labels);
//   …
//   jit::save_program(model, "trained.pt2");  // torch.export.load("trained.pt2").module()
// graph/ stands above nn/, so this module is not in nn. pt2_file.h: the archive; pt2_schema.h: its
// JSON; pt2_write.h: how the archive is written; pt2_steps.h: the graph made ready to run;
// pt2_call.h: what an operator's row calls.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/state_dict.h"
#include "lathe/nn/fine_tuning.h"
#include "lathe/nn/module.h"

namespace lathe {
class ByteSource;
}

namespace lathe::jit {

struct ProgramOptions {
  /// Whether the model was in training mode (true) or in evaluation mode (false) when it was
  /// exported; the file does not say it. Unset: evaluation if the model has batch norms or dropouts
  /// and all of these were in evaluation mode, otherwise training. Set it to true for a model that
  /// was exported in training with all batch norms and dropouts frozen: they stay frozen.
  std::optional<bool> exported_in_training = {};
  /// For fine-tuning: replaces the program's last layer by a new one for this many classes.
  /// Everything else stays. The last layer is the linear layer or convolution after which only
  /// pooling, activations and views follow before the program's only result. The new weight and
  /// bias are drawn from U(±1/sqrt(fan_in)) and are trainable. They have the names and dtypes of
  /// the old ones.
  std::optional<int64_t> classes = {};
};

/// The type of an input or a result of a program. A size that was dynamic in the export is nullopt.
struct ProgramType {
  DType dtype = DType::kF32;
  std::vector<std::optional<int64_t>> shape = {};
};

/// The exported program. It runs with the library's ops, so gradients, autocast, recomputation and
/// jit::compile work as for any module. Its parameters, persistent buffers and modules have
/// PyTorch's names; names that are tied in PyTorch are one parameter. Non-persistent buffers and
/// constants are not in the state dict; to() moves and converts them together with the parameters.
///
/// The mode that train() or eval() sets, for the program or for a module in it, decides what batch
/// norm, dropout and stochastic depth (DropPath, StochasticDepth) do. The mode of the export has no
/// influence, with two exceptions:
///   - If such a layer was in evaluation mode in a program exported in training mode, it stays in
///     evaluation mode.
///   - A program exported in evaluation mode holds no stochastic depth and no dropout inside
///     attention. A warning says so when the program trains.
///
/// A program computes in the dtype of its parameters: after to(kF16), ops that were f32 in the
/// export compute in f16. If it has no floating parameters and buffers besides those of batch
/// norms, it computes in the dtype of its first floating input. Several threads may run it in
/// evaluation mode.
class LATHE_API Program final : public nn::Module, public nn::KnowsHead {
 public:
  ~Program() override;
  Program(Program&&) = delete;

  /// Runs a program that has one input. Returns its result, or the first of several results.
  /// throws: ValueError for a program with several inputs; what run() throws.
  Tensor forward(const Tensor& x) override;
  /// Runs the program. Returns its results in the order of output_names(). Hooks:
  ///   - CallHooks of the program see its inputs and results. CallHooks of a module in the program
  ///     see the tensors that go into each call of the module, and the results that other modules
  ///     use.
  ///   - ForwardPreHooks and ForwardHooks of the program need a program with one input and one
  ///     result.
  ///   - A module in the program refuses ForwardPreHooks. It takes ForwardHooks if each call of the
  ///     module takes one tensor and gives one tensor.
  ///   inputs  in the order of input_names(), with the dtypes and sizes of the export. A size that
  ///           was dynamic in the export may have any value, but sizes with the same symbol in the
  ///           export must be equal.
  /// throws: ValueError for another number of inputs; ShapeError, DTypeError for an input that does
  /// not fit; what the ops throw, with the module and the line of Python that called the op.
  Tensors run(const Tensors& inputs);
  /// Like run() with a list, but the inputs have names.
  /// throws: as run() with a list; ValueError for a name that is missing, unknown or given twice.
  Tensors run(const Named<Tensor>& inputs);

  /// The names of the inputs that are tensors. Inputs that are numbers, strings or None are not
  /// listed: they keep the values of the export.
  const std::vector<std::string>& input_names() const;
  /// The names of the results: the keys if the model returns a dictionary, else the names of the
  /// values in the program, such as "linear_3".
  const std::vector<std::string>& output_names() const;
  /// The types of inputs and results as they were exported, in the order of the names.
  std::vector<ProgramType> input_types() const;
  std::vector<ProgramType> output_types() const;

  /// Inputs on the CPU with the dtypes and sizes of the export, for jit::trace and summaries.
  /// Elements are 0.5 in floating inputs, otherwise 0. The batch size is dimension 0 of the first
  /// input, and all sizes tied to it. If the batch size was dynamic in the export, it is `batch`.
  /// Other dynamic sizes are those of the export.
  Tensors example_inputs(int64_t batch = 2) const;

  /// The weight and the bias that ProgramOptions::classes would replace; none if it cannot.
  std::vector<std::string> head_parameters() const override;

  /// The program as bytes, without the values of parameters and persistent buffers. A checkpoint
  /// holds these bytes beside its weights. load_program() takes the bytes and the weights, which
  /// must not include entries of adapters (nn/lora.h). The bytes are as large as the program's
  /// JSON, constants and sample inputs: 0.4 MB for a resnet18.
  std::string architecture() const;

 private:
  Program(const ByteSource& source, const ProgramOptions& options, const StateDict* weights);
  friend Program load_program(const std::string&, const ProgramOptions&);
  friend Program load_program(std::span<const std::byte>, std::string_view, const ProgramOptions&);
  friend Program load_program(std::span<const std::byte>, std::string_view, const StateDict&,
                              const ProgramOptions&);
  friend void save_program(const Program&, const std::string&);
  bool takes_one_tensor() const override;
  DType dtype_for(DType asked, const Tensor& own) const override;

  class State;
  std::unique_ptr<State> state_;
};

/// Reads a file of torch.export.save (PyTorch 2.8 or later, schema 8). Nothing in the file is
/// executed before run(). The program is in the mode in which it was exported.
/// throws: FileError; ValueError for `classes` below 1; DataError that names the file, the node and
/// the value that does not fit, for one of these:
///   - a damaged or hostile archive, or an older format (the message says what to do)
///   - weights outside of their storage, or of another shape than the program's
///   - modules nested more than 64 deep, with more than 10,000 tensors and modules in one, or with
///     a name of more than 1,000 bytes
///   - operators that have no counterpart here: one message lists them all, each with the module
///     and the line of Python that called it
///   - with `classes`: a program whose last layer cannot be replaced; the message says why
/// Memory: about the file's size if it is mostly weights. In any case at most
///   - 64 MiB plus 32 times the file's size for tensors,
///   - 200 times the size of the file's JSON while load_program() reads. The JSON is no larger than
///     the file.
LATHE_API Program load_program(const std::string& path, const ProgramOptions& options = {});
/// Like load_program() of a path, for a file's bytes; `name` stands for the file in messages.
/// throws: DataError; ValueError.
LATHE_API Program load_program(std::span<const std::byte> bytes, std::string_view name,
                               const ProgramOptions& options = {});
/// Makes a program from a file's bytes, or from Program::architecture(), and from `weights`: the
/// values of all parameters and persistent buffers, by the names of state_dict(). Copies the
/// weights. With options.classes the program has a new last layer with the old one's names. Its
/// values are those that `weights` has under these names or, without such entries, random.
/// throws: DataError; ValueError if weights are missing, unknown or of another shape.
/// Memory: that of load_program() of a path, for a file that contains `weights`.
LATHE_API Program load_program(std::span<const std::byte> bytes, std::string_view name,
                               const StateDict& weights, const ProgramOptions& options = {});

/// Writes a file that torch.export.load of PyTorch 2.15 opens: the program as PyTorch exported it,
/// with the weights, buffers and constants as they are now. At any moment `path` is the complete
/// old file or the complete new one.
/// - Parameters and buffers are written in the dtypes of the export, also after to(dtype).
/// - Tied weights stay tied. A parameter that got a new shape, such as a new head, is written with
///   the new shape.
/// - Sample inputs and extra files of the file that was loaded are written again, up to 4 MiB in
///   all.
/// throws: FileError; StateError if the program has adapters (nn/lora.h) that are not merged.
LATHE_API void save_program(const Program& program, const std::string& path);

}  // namespace lathe::jit
