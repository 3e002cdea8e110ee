// Program: modules from the names of a file, the checks of what goes in, and the way back.
#include "lathe/graph/pt2/program.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/foreign_file.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/log.h"
#include "lathe/graph/module_tree.h"
#include "lathe/graph/pt2/pt2_file.h"
#include "lathe/graph/pt2/pt2_head.h"
#include "lathe/graph/pt2/pt2_inline.h"
#include "lathe/graph/pt2/pt2_steps.h"
#include "lathe/graph/pt2/pt2_write.h"
#include "lathe/ops/creation.h"

namespace lathe::jit {

using pt2::Input;
using pt2::InputKind;
using safetensors::in_quotes;

namespace {

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

ProgramType shown(const pt2::TensorType& type) {
  ProgramType out{.dtype = type.dtype};
  for (const pt2::Size& size : type.shape) {
    const auto* const known = std::get_if<int64_t>(&size);
    out.shape.push_back(known == nullptr ? std::nullopt : std::optional(*known));
  }
  return out;
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

/// throws: ValueError.
std::optional<int64_t> classes_of(const ProgramOptions& options) {
  constexpr int64_t kMostClasses = 1'000'000'000;
  const int64_t classes = options.classes.value_or(1);
  LATHE_CHECK(ValueError, classes > 0 && classes <= kMostClasses,
              "load_program: classes must be from 1 to ", kMostClasses, ", got ", classes);
  return options.classes;
}

}  // namespace

class Program::State {
 public:
  State(pt2::ProgramFile file, std::string name, Program& program, const ProgramOptions& options)
      : name_(std::move(name)),
        program_(program),
        source_(std::move(file.source)),
        text_(std::move(file.program)),
        tree_(
            program,
            [&program](const std::string& own, const Tensor& t, bool is_buffer) {
              is_buffer ? void(program.buffer(own, t)) : void(program.parameter(own, t));
            },
            name_, /*knows_calls=*/true) {
    pt2::check_known(text_.graph, name_);
    text_.graph = pt2::inlined(std::move(text_.graph), name_);
    exported_in_training_ = options.exported_in_training.value_or(was_training(text_.graph));
    for (const Input& input : text_.inputs) {
      if (input.kind == InputKind::kUser) input_names.push_back(input.name);
    }
    output_names = std::move(text_.output_names);
    find_norms();
    for (size_t i = 0; i < text_.inputs.size(); ++i) add_tensor(i, file.tensors[i]);
    const auto find = [this](const std::string& path) -> nn::Module& { return module_at(path); };
    steps_ = pt2::make_steps(std::move(text_.graph), text_.inputs, find, name_);
    pt2::note_layers(steps_, tensors_);
  }

  Tensors run(const Tensors& given) {
    warn_of_evaluation();
    const pt2::Setting setting = setting_for(given);
    check(given, setting);
    Tensors inputs;
    size_t next = 0;
    for (size_t i = 0; i < text_.inputs.size(); ++i) {
      const InputKind kind = text_.inputs[i].kind;
      if (kind == InputKind::kUser) {
        inputs.push_back(given[next++]);
      } else if (kind == InputKind::kConstant) {
        inputs.push_back(constant(i, setting));
      } else {
        inputs.push_back(tensors_[i]);
      }
    }
    return pt2::run_steps(steps_, inputs, setting);
  }

  Tensors example_inputs(int64_t batch) const {
    std::map<std::string, int64_t> sizes = text_.sizes;
    Tensors out;
    for (const Input& input : text_.inputs) {
      if (input.kind != InputKind::kUser) continue;
      Dims shape;
      for (const pt2::Size& size : input.type.shape) {
        const auto* const symbol = std::get_if<std::string>(&size);
        if (symbol != nullptr && out.empty() && shape.empty()) sizes[*symbol] = batch;
        shape.push_back(symbol == nullptr ? std::get<int64_t>(size)
                                          : sizes.emplace(*symbol, batch).first->second);
      }
      const bool floats = is_floating(input.type.dtype);
      out.push_back(full(Shape(shape), floats ? 0.5 : 0.0, {.dtype = input.type.dtype}));
    }
    return out;
  }

  void write(zip::Writer& to, pt2::Weights weights) {
    Tensors tensors = tensors_;
    {
      const std::lock_guard lock(moved_mutex_);
      for (const auto& [i, moved] : moved_) {
        if (moved.defined()) tensors[i] = moved.detach().to(kCPU, tensors_[i].dtype());
      }
    }
    pt2::write_program(to, source_, text_.inputs, tensors, weights);
  }

  /// throws: StateError if the modules have parameters that the file would not have.
  void check_has_no_adapters() const {
    for (const auto& [name, p] : program_.named_parameters()) {
      const bool is_known =
          std::ranges::any_of(tensors_, [&](const Tensor& t) { return t.handle() == p.handle(); });
      LATHE_CHECK(StateError, is_known, "save_program: ", in_quotes(name),
                  " is a parameter that the program was not exported with; merge() adapters first");
    }
  }

  std::vector<std::string> head_parameters() const {
    const std::vector<std::string> names = pt2::head_parameters(source_.json, name_);
    const auto own = program_.named_parameters();
    const bool all = std::ranges::all_of(names, [&](const std::string& name) {  // not if it is tied
      return std::ranges::find(own, name, &std::pair<std::string, Tensor>::first) != own.end();
    });
    return all ? names : std::vector<std::string>();
  }

  bool exported_in_training() const { return exported_in_training_; }
  const ModuleTree& tree() const { return tree_; }

  std::vector<ProgramType> input_types() const {
    std::vector<ProgramType> out;
    for (const Input& input : text_.inputs) {
      if (input.kind == InputKind::kUser) out.push_back(shown(input.type));
    }
    return out;
  }
  std::vector<ProgramType> output_types() const {
    std::vector<ProgramType> out;
    for (const pt2::TensorType& type : text_.output_types) out.push_back(shown(type));
    return out;
  }

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

  nn::Module& module_at(const std::string& path) {
    if (path.empty()) return program_;
    try {
      return tree_.part_at(path);
    } catch (const ValueError&) {  // a path that is no list of names: only its mode is lost
      return program_;
    }
  }

  void add_tensor(size_t i, const Tensor& stored) {
    const Input& input = text_.inputs[i];
    tensors_.push_back(stored);
    if (input.kind == InputKind::kUser || input.kind == InputKind::kConstant) return;
    const bool is_buffer = input.kind == InputKind::kBuffer;
    const bool is_norm = std::ranges::binary_search(norms_, input.name);
    Part* const part = tree_.add(input.name, stored, is_buffer);
    if (is_norm) tree_.note_norm(stored);
    if (!is_buffer) stored.requires_grad_(input.type.requires_grad);
    if (!is_buffer && part != nullptr && input.name.ends_with(".weight")) part->weight = stored;
    if (!is_norm && is_floating(stored.dtype())) {
      int& leading = is_buffer ? leading_buffer_ : leading_;
      if (leading < 0) leading = static_cast<int>(i);
    }
    if (any_ < 0) any_ = static_cast<int>(i);
  }

  /// Parameters show dtype and device of a program; without any, buffers and the inputs do.
  pt2::Setting setting_for(const Tensors& given) const {
    pt2::Setting out{.exported_in_training = exported_in_training_};
    const int leading = leading_ >= 0 ? leading_ : leading_buffer_;
    if (leading >= 0) {
      const auto at = static_cast<size_t>(leading);
      out.from = text_.inputs[at].type.dtype;
      out.to = tensors_[at].dtype();
      out.device = tensors_[at].device();
      return out;
    }
    bool has_device = any_ >= 0, has_dtype = false;
    if (has_device) out.device = tensors_[static_cast<size_t>(any_)].device();
    size_t next = 0;
    for (const Input& input : text_.inputs) {
      if (input.kind != InputKind::kUser || next == given.size()) continue;
      const Tensor& x = given[next++];
      if (!x.defined()) continue;
      if (!has_device) out.device = x.device();
      has_device = true;
      if (has_dtype || !is_floating(input.type.dtype) || !is_floating(x.dtype())) continue;
      out.from = input.type.dtype;
      out.to = x.dtype();
      has_dtype = true;
    }
    return out;
  }

  /// A constant where the parameters are now. What is written into it stays until they move.
  Tensor constant(size_t i, const pt2::Setting& setting) {
    const Tensor& stored = tensors_[i];
    const DType dtype = setting.dtype(stored.dtype());
    const auto fits = [&](const Tensor& t) {
      return t.defined() && t.device() == setting.device && t.dtype() == dtype;
    };
    const std::lock_guard lock(moved_mutex_);
    Tensor& moved = moved_[i];
    if (fits(stored)) {
      moved = {};
      return stored;
    }
    if (!fits(moved)) {
      // It outlives this call, which InferenceMode would mark it for.
      const autograd::ModeScope neither({.grad = false, .inference = false});
      moved = stored.to(setting.device, dtype);
    }
    return moved;
  }

  void warn_of_evaluation() const {
    if (exported_in_training_ || !program_.is_training()) return;
    warn_once(concat("exported in evaluation: ", name_),
              concat(name_,
                     " was exported in evaluation: stochastic depth and dropout inside "
                     "attention are not in it. Export it after model.train() to train "
                     "with them. If its layers were frozen in training, load it with "
                     "ProgramOptions{.exported_in_training = true}"));
  }

  /// throws: ValueError, ShapeError, DTypeError.
  void check(const Tensors& given, const pt2::Setting& setting) const {
    LATHE_CHECK(ValueError, given.size() == input_names.size(), "Program: takes ",
                input_names.size(), " inputs, got ", given.size());
    std::map<std::string_view, int64_t> symbols;
    size_t next = 0;
    for (const Input& input : text_.inputs) {
      if (input.kind == InputKind::kUser) check_input(input, given[next++], setting, symbols);
    }
  }

  void check_input(const Input& input, const Tensor& x, const pt2::Setting& setting,
                   std::map<std::string_view, int64_t>& symbols) const {
    LATHE_CHECK(ValueError, x.defined(), "Program: input ", in_quotes(input.name), " is undefined");
    const DType dtype = setting.dtype(input.type.dtype);
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
                  known->second, " where the export requires the same size (", x, ")");
      for (const pt2::Range& range : text_.ranges) {
        // PyTorch begins at 2 because it never assumes 1; programs take it.
        const bool above = range.least <= 2 || size >= range.least;
        LATHE_CHECK(ShapeError, range.symbol != symbol || (above && size <= range.most),
                    "Program: input ", in_quotes(input.name), " has a size of ", size,
                    " in dimension ", d, ", but the export allows ", range.least, " to ",
                    range.most, " (", x, ")");
      }
    }
  }

  std::string name_;
  Program& program_;
  pt2::ProgramSource source_;
  pt2::ProgramText text_;
  Tensors tensors_;  // of text_.inputs; undefined for the user's
  ModuleTree tree_;
  std::vector<std::string> norms_;  // tensors of batch norms, sorted
  // The first floating parameter and buffer that are of no batch norm, and the first of all; or -1.
  int leading_ = -1, leading_buffer_ = -1, any_ = -1;
  std::mutex moved_mutex_;
  std::map<size_t, Tensor> moved_;  // constants on other devices, or of other dtypes
  bool exported_in_training_ = true;
  pt2::Steps steps_;
};

Program::Program(const ByteSource& source, const ProgramOptions& options,
                 const StateDict* weights) {
  pt2::ProgramFile file = pt2::read_program(source, weights, classes_of(options));
  const std::vector<std::string> drawn = std::move(file.drawn);
  state_ = std::make_unique<State>(std::move(file), source.name(), *this, options);
  if (weights != nullptr) {
    StateDict all = *weights;
    const StateDict own = state_dict();
    for (const std::string& name : drawn) {
      if (!all.contains(name)) all.add(name, own.at(name));
    }
    load_state_dict(all);
  }
  train(state_->exported_in_training());
}

Program::~Program() = default;

bool Program::takes_one_tensor() const {
  return input_names().size() == 1 && output_names().size() == 1;
}

DType Program::dtype_for(DType asked, const Tensor& own) const {
  return state_->tree().dtype_for(asked, own);
}

Tensor Program::forward(const Tensor& x) { return state_->run({x})[0]; }

Tensors Program::run(const Tensors& inputs) {
  if (takes_one_tensor() && inputs.size() == 1) return {(*this)(inputs[0])};
  return with_call_hooks(inputs, [&] { return state_->run(inputs); });
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
std::vector<ProgramType> Program::input_types() const { return state_->input_types(); }
std::vector<ProgramType> Program::output_types() const { return state_->output_types(); }

Tensors Program::example_inputs(int64_t batch) const { return state_->example_inputs(batch); }

std::vector<std::string> Program::head_parameters() const { return state_->head_parameters(); }

std::string Program::architecture() const {
  std::string out;
  zip::Writer writer(zip::InMemory{out});
  state_->write(writer, pt2::Weights::kLeftOut);
  writer.commit();
  return out;
}

Program load_program(const std::string& path, const ProgramOptions& options) {
  return Program(ByteSource(path), options, nullptr);
}

Program load_program(std::span<const std::byte> bytes, std::string_view name,
                     const ProgramOptions& options) {
  return Program(ByteSource(bytes, name), options, nullptr);
}

Program load_program(std::span<const std::byte> bytes, std::string_view name,
                     const StateDict& weights, const ProgramOptions& options) {
  return Program(ByteSource(bytes, name), options, &weights);
}

void save_program(const Program& program, const std::string& path) {
  program.state_->check_has_no_adapters();
  zip::Writer writer(path);
  program.state_->write(writer, pt2::Weights::kWritten);
  writer.commit();
}

}  // namespace lathe::jit
