// What a row of the tables of operators calls: Call is one node while it runs. Each …_targets()
// below names the file of its operators. Internal: program.h is what others use.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lathe/core/scalar.h"
#include "lathe/core/tensor.h"
#include "lathe/core/triple.h"
#include "lathe/graph/pt2/pt2_schema.h"
#include "lathe/nn/lora_layer.h"

namespace lathe::jit::pt2 {

struct Step;

/// A value while the program runs.
using Held = std::variant<std::monostate, Tensor, int64_t, double, bool>;

/// What holds for the whole program.
struct Setting {
  DType from = DType::kF32, to = DType::kF32;  // the parameters' dtype in the file, and now
  Device device = kCPU;                        // where the parameters are
  bool exported_in_training = true;

  /// What stands for a dtype of the file.
  DType dtype(DType asked) const { return asked == from ? to : asked; }
};

/// Arguments go by the names of the operator's schema in PyTorch. One that is missing or None has
/// the value `otherwise`.
/// throws, every function: DataError that names the argument, if it is missing or of another kind.
class Call {
 public:
  Call(const Step& step, std::vector<Held>& held, const Setting& setting)
      : step_(step), held_(held), setting_(setting) {}

  bool has(std::string_view name) const;
  Tensor tensor(std::string_view name) const;
  /// "self" as an operand whose value backward() may read. Where an in-place call writes into that
  /// very tensor while gradients are recorded: a copy.
  Tensor self() const;
  /// `view` of `self`, which PyTorch never copies.
  /// throws: also DataError if it is a copy, and what is written into one would be lost.
  Tensor viewed(const Tensor& self, const Tensor& view) const;
  /// Undefined if there is none.
  Tensor maybe(std::string_view name) const;
  bool is_tensor(std::string_view name) const;
  Tensors tensors(std::string_view name) const;
  int64_t integer(std::string_view name, std::optional<int64_t> otherwise = {}) const;
  Dims dims(std::string_view name) const;
  Dims dims(std::string_view name, const Dims& otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;
  Pair pair(std::string_view name, std::optional<Pair> otherwise = {}) const;
  Triple triple(std::string_view name, std::optional<Triple> otherwise = {}) const;
  double real(std::string_view name, std::optional<double> otherwise = {}) const;
  std::vector<double> reals(std::string_view name) const;
  Scalar number(std::string_view name, std::optional<Scalar> otherwise = {}) const;
  /// The number as PyTorch writes it into a tensor like `t`: without its fraction into integers,
  /// as true or false into bool.
  Scalar number_in(const Tensor& t, std::string_view name,
                   std::optional<Scalar> otherwise = {}) const;
  bool boolean(std::string_view name, bool otherwise) const;
  std::string word(std::string_view name, std::string_view otherwise) const;
  bool is_word(std::string_view name) const;
  /// The dtype in which the program computes what the file asks for.
  DType dtype(std::string_view name, DType otherwise) const;
  MemoryFormat format(std::string_view name, const Tensor& like) const;

  const Setting& setting() const { return setting_; }
  /// True if a later call writes into the memory of the results, and another value there is still
  /// needed: Step::is_shared.
  bool is_shared() const;
  /// True if the module that made the call trains.
  bool trains() const;
  /// Like trains() without a flag, for an operator with one: it was false in a module that did not
  /// train at the export.
  bool trains(std::string_view flag) const;
  bool is_stochastic_depth() const;
  /// True if the argument "other" is the mask of stochastic depth.
  bool is_masked() const;
  /// The counter of a batch norm; undefined if its module has none.
  Tensor num_batches() const;

  /// The result. For an in-place operator: the new value of argument "self", which keeps its dtype
  /// and shape.
  void result(const Tensor& t);
  void results(const Tensors& tensors);
  void result(int64_t number) { result_at(0, number); }
  void result(double number) { result_at(0, number); }
  void result(bool truth) { result_at(0, truth); }
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const Argument* find(std::string_view name) const;
  const Argument& get(std::string_view name) const;
  const Held& held(Value value) const;
  int64_t known(const Integer& integer, std::string_view name) const;
  void result_at(size_t i, Held value);

  const Step& step_;
  std::vector<Held>& held_;
  const Setting& setting_;
};

/// How an operator's results relate to its inputs.
enum class Kind : uint8_t {
  kPlain,
  kView,   // a result may lie in the memory of an input
  kWrite,  // the result is "self" with other values
  kCheck,  // no result: a check that does not run here
};

/// A row of the tables: an operator of PyTorch, without "torch.ops.", and how it runs.
struct Target {
  std::string_view name;
  void (*run)(Call&);
  Kind kind = Kind::kPlain;
};
std::span<const Target> pointwise_targets();  // pt2_pointwise.cpp
std::span<const Target> shape_targets();      // pt2_shapes.cpp
std::span<const Target> product_targets();    // pt2_products.cpp
std::span<const Target> linalg_targets();     // pt2_linalg.cpp
std::span<const Target> reduction_targets();  // pt2_reductions.cpp
std::span<const Target> layer_targets();      // pt2_layers.cpp
std::span<const Target> loss_targets();       // pt2_losses.cpp

/// What a call of an operator computes of `weight`, for LoRA; nullopt if it is no such layer. The
/// result has no weight.
std::optional<nn::LoraLayer> lora_layer_of(const Call& call, std::string_view target,
                                           const Tensor& weight);  // pt2_layers.cpp

/// The row of an operator; null if there is none. A row of the first four tables that is no write
/// also serves the in-place form of the same overload: "aten.tril.default" is "aten.tril_.default",
/// too. And a row serves the operator's other names in PyTorch, such as "multiply".
const Target* find_target(std::string_view name);

}  // namespace lathe::jit::pt2
