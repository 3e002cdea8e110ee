// Program: modules from the names of a file, and the checks of what goes in.
#include "lathe/graph/pt2/program.h"

#include <algorithm>
#include <map>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/foreign_file.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/log.h"
#include "lathe/graph/pt2/pt2_file.h"
#include "lathe/graph/pt2/pt2_steps.h"

namespace lathe::jit {

using pt2::Input;
using pt2::InputKind;
using safetensors::in_quotes;

namespace {

constexpr int kMostLevels = 64;  // modules in modules

/// A module of the exported model: its parameters, its name and its mode.
class Part final : public nn::Module {
 public:
  using nn::Module::buffer, nn::Module::parameter;

  Part() = default;
  Part(nn::Module& parent, const std::string& name) : nn::Module(parent, name) {}

  bool is_batch_norm = false;

 protected:
  DType dtype_for(DType asked) const override {
    return is_batch_norm && is_half(asked) ? kF32 : asked;
  }
};

/// A flag of a node that says whether it trained; null if it has none, or needs none.
const bool* training_flag(const pt2::Node& node) {
  const bool* flag = nullptr;
  for (const pt2::NamedArgument& argument : node.inputs) {
    if (argument.name == "training" || argument.name == "train") {
      flag = std::get_if<bool>(&argument.value);
    }
    // A batch norm without running statistics uses those of the batch in every mode.
    const bool is_none = std::holds_alternative<std::monostate>(argument.value);
    if (argument.name == "running_mean" && is_none) return nullptr;
  }
  return flag;
}

/// Whether the graph was exported in training. One without any layer that has modes was.
bool was_training(const pt2::Graph& graph) {
  bool is_evaluation = false;
  for (const pt2::Node& node : graph.nodes) {
    const bool* const flag = training_flag(node);
    if (flag != nullptr && *flag) return true;
    if (node.target.starts_with("torch.ops.aten.bernoulli_")) return true;
    if (flag != nullptr) is_evaluation = true;
  }
  return !is_evaluation;
}

}  // namespace

class Program::State {
 public:
  State(pt2::ProgramFile file, std::string name, Program& program)
      : name_(std::move(name)), program_(program), text_(std::move(file.program)) {
    setting_.exported_in_training = was_training(text_.graph);
    for (const Input& input : text_.inputs) {
      if (input.kind == InputKind::kUser) input_names.push_back(input.name);
    }
    output_names = std::move(text_.output_names);
    find_norms();
    for (size_t i = 0; i < text_.inputs.size(); ++i) add_tensor(i, file.tensors[i]);
    const auto find = [this](const std::string& path) -> nn::Module& { return module_at(path); };
    steps_ = pt2::make_steps(std::move(text_.graph), text_.inputs, find, name_);
  }

  Tensors run(const Tensors& given) {
    update_setting(given);
    warn_of_evaluation();
    check(given);
    Tensors inputs;
    size_t next = 0;
    for (size_t i = 0; i < text_.inputs.size(); ++i) {
      const InputKind kind = text_.inputs[i].kind;
      if (kind == InputKind::kUser) {
        inputs.push_back(given[next++]);
      } else if (kind == InputKind::kConstant) {
        inputs.push_back(constant(i));
      } else {
        inputs.push_back(tensors_[i]);
      }
    }
    return pt2::run_steps(steps_, inputs, setting_);
  }

  bool exported_in_training() const { return setting_.exported_in_training; }

  std::vector<std::string> input_names, output_names;

 private:
  /// Batch norms keep f32 where the other parameters become f16.
  void find_norms() {
    for (const pt2::Node& node : text_.graph.nodes) {
      if (!node.target.starts_with("torch.ops.aten.batch_norm")) continue;
      for (const pt2::NamedArgument& argument : node.inputs) {
        const auto* const value = std::get_if<pt2::Value>(&argument.value);
        if (value == nullptr) continue;
        const auto number = static_cast<size_t>(value->number);  // inputs are the first values
        if (number < text_.inputs.size()) norms_.push_back(text_.inputs[number].name);
      }
    }
    std::ranges::sort(norms_);
  }

  /// The module at this path below the program, made with those above it.
  Part* part_at(std::string_view path, bool make) {
    Part* at = nullptr;
    int levels = 0;
    for (size_t begin = 0; begin < path.size();) {
      const size_t end = std::min(path.find('.', begin), path.size());
      auto& child = parts_[std::string(path.substr(0, end))];
      if (child == nullptr && !make) return nullptr;
      if (child == nullptr) {
        LATHE_CHECK(DataError, ++levels <= kMostLevels, name_, ": ", in_quotes(path),
                    " lies in more than ", kMostLevels, " modules");
        nn::Module& parent = at == nullptr ? static_cast<nn::Module&>(program_) : *at;
        child = std::make_unique<Part>(parent, std::string(path.substr(begin, end - begin)));
      }
      at = child.get();
      begin = end + 1;
    }
    return at;
  }

  nn::Module& module_at(const std::string& path) {
    if (path.empty()) return program_;
    try {
      return *part_at(path, true);
    } catch (const ValueError&) {  // a path that is no list of names: only its mode is lost
      return program_;
    }
  }

  void add_tensor(size_t i, const Tensor& stored) {
    const Input& input = text_.inputs[i];
    tensors_.push_back(stored);
    if (input.kind == InputKind::kUser || input.kind == InputKind::kConstant) return;
    const std::string what = concat(name_, ": ", in_quotes(input.name));
    const size_t dot = input.name.rfind('.');
    const bool at_root = dot == std::string::npos;
    const std::string leaf = at_root ? input.name : input.name.substr(dot + 1);
    try {
      Part* const part = at_root ? nullptr : part_at(input.name.substr(0, dot), true);
      const bool is_norm = std::ranges::binary_search(norms_, input.name);
      if (part != nullptr && is_norm) part->is_batch_norm = true;
      if (input.kind == InputKind::kBuffer) {
        part == nullptr ? program_.buffer(leaf, stored) : part->buffer(leaf, stored);
        return;
      }
      part == nullptr ? program_.parameter(leaf, stored) : part->parameter(leaf, stored);
      stored.requires_grad_(input.type.requires_grad);
      if (leading_ < 0 && !is_norm) {
        leading_ = static_cast<int>(i);
        setting_.from = setting_.to = stored.dtype();
      }
    } catch (const ValueError& error) {
      LATHE_FAIL(DataError, what, " is no name that a module can have: ", error.message());
    } catch (const DTypeError& error) {
      LATHE_FAIL(DataError, what, ": ", error.message());
    }
  }

  void update_setting(const Tensors& given) {
    if (leading_ < 0 && !given.empty() && given[0].defined()) setting_.device = given[0].device();
    if (leading_ < 0) return;
    const Tensor& leading = tensors_[static_cast<size_t>(leading_)];
    if (leading.dtype() == setting_.to && leading.device() == setting_.device) return;
    setting_.to = leading.dtype();
    setting_.device = leading.device();
    moved_.clear();
  }

  /// A constant where the parameters are now. What is written into it stays until they move.
  const Tensor& constant(size_t i) {
    const Tensor& stored = tensors_[i];
    const DType dtype = setting_.dtype(stored.dtype());
    if (stored.device() == setting_.device && stored.dtype() == dtype) return stored;
    Tensor& moved = moved_[i];
    const NoGrad off;
    if (!moved.defined()) moved = stored.to(setting_.device, dtype);
    return moved;
  }

  void warn_of_evaluation() const {
    if (setting_.exported_in_training || !program_.is_training()) return;
    warn_once(concat("exported in evaluation: ", name_),
              concat(name_,
                     " was exported in evaluation: stochastic depth and dropout inside "
                     "attention are not in it. Export it after model.train() to train "
                     "with them"));
  }

  /// throws: ValueError, ShapeError, DTypeError.
  void check(const Tensors& given) const {
    LATHE_CHECK(ValueError, given.size() == input_names.size(), "Program: takes ",
                input_names.size(), " inputs, got ", given.size());
    std::map<std::string_view, int64_t> symbols;
    size_t next = 0;
    for (const Input& input : text_.inputs) {
      if (input.kind == InputKind::kUser) check_input(input, given[next++], symbols);
    }
  }

  void check_input(const Input& input, const Tensor& x,
                   std::map<std::string_view, int64_t>& symbols) const {
    LATHE_CHECK(ValueError, x.defined(), "Program: input ", in_quotes(input.name), " is undefined");
    const DType dtype = setting_.dtype(input.type.dtype);
    const bool fits = x.dtype() == dtype || (is_floating(dtype) && is_floating(x.dtype()));
    LATHE_CHECK(DTypeError, fits, "Program: input ", in_quotes(input.name), " must be ", dtype,
                " (", x, ")");
    const auto& shape = input.type.shape;
    LATHE_CHECK(ShapeError, static_cast<size_t>(x.ndim()) == shape.size(), "Program: input ",
                in_quotes(input.name), " must have ", shape.size(), " dimensions (", x, ")");
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t size = x.shape()[static_cast<int>(d)];
      if (const auto* const fixed = std::get_if<int64_t>(&shape[d])) {
        LATHE_CHECK(ShapeError, size == *fixed, "Program: input ", in_quotes(input.name),
                    " was exported with a size of ", *fixed, " in dimension ", d, ", got ", size,
                    " (", x, "); torch.export.export(…, dynamic_shapes=…) leaves a size free");
        continue;
      }
      const std::string& symbol = std::get<std::string>(shape[d]);
      const auto [known, is_new] = symbols.emplace(symbol, size);
      LATHE_CHECK(ShapeError, is_new || known->second == size, "Program: input ",
                  in_quotes(input.name), " has a size of ", size, " in dimension ", d, ", but ",
                  known->second, " stands elsewhere for the same (", x, ")");
      for (const pt2::Range& range : text_.ranges) {
        // PyTorch begins at 2 because it never assumes 1; programs take it.
        const bool above = range.least <= 2 || size >= range.least;
        LATHE_CHECK(ShapeError, range.symbol != symbol || (above && size <= range.most),
                    "Program: input ", in_quotes(input.name), " has a size of ", size,
                    " in dimension ", d, ", and was exported for ", range.least, " to ", range.most,
                    " (", x, ")");
      }
    }
  }

  std::string name_;
  Program& program_;
  pt2::ProgramText text_;
  Tensors tensors_;  // of text_.inputs; undefined for the user's
  std::map<std::string, std::unique_ptr<Part>, std::less<>> parts_;  // by their paths
  std::vector<std::string> norms_;  // tensors of batch norms, sorted
  int leading_ = -1;                // a parameter that shows the dtype and the device of all
  std::map<size_t, Tensor> moved_;  // constants on other devices, or of other dtypes
  pt2::Setting setting_;
  pt2::Steps steps_;
};

Program::Program(pt2::ProgramFile file, std::string_view name)
    : state_(std::make_unique<State>(std::move(file), std::string(name), *this)) {
  train(state_->exported_in_training());
}

Program::~Program() = default;

Tensor Program::forward(const Tensor& x) { return state_->run({x})[0]; }

Tensors Program::run(const Tensors& inputs) {
  Tensors out;
  call([&] {
    out = state_->run(inputs);
    if (has_hooks()) run_call_hooks(inputs, out);
  });
  return out;
}

Tensors Program::run(const Named<Tensor>& inputs) {
  Tensors in(input_names().size());
  for (const auto& [name, tensor] : inputs) {
    const auto at = std::ranges::find(input_names(), name);
    LATHE_CHECK(ValueError, at != input_names().end(), "Program: has no input ", in_quotes(name));
    Tensor& place = in[static_cast<size_t>(at - input_names().begin())];
    LATHE_CHECK(ValueError, !place.defined(), "Program: input ", in_quotes(name), " comes twice");
    place = tensor;
  }
  return run(in);
}

const std::vector<std::string>& Program::input_names() const { return state_->input_names; }
const std::vector<std::string>& Program::output_names() const { return state_->output_names; }

Program load_program(std::span<const std::byte> bytes, std::string_view name) {
  return Program(pt2::read_program(ByteSource(bytes, name)), name);
}

Program load_program(const std::string& path) {
  return Program(pt2::read_program(ByteSource(path)), path);
}

}  // namespace lathe::jit
