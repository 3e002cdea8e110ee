// A pointwise program as a list of kernels to call on a few thousand elements at a time, so that
// what is between the ops stays in the first-level cache. Nothing is decided, checked or allocated
// per op and piece; pointwise_run.h decides when a program runs in this way.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/row_kernel.h"
#include "lathe/core/tensor.h"
#include "lathe/graph/fused/pointwise_run.h"

namespace lathe::jit {

/// What a plan depends on in an input.
struct InputForm {
  enum class Kind : uint8_t {
    kUndefined,
    kFull,    // of the program's shape, dense, and in the same order as all full inputs
    kNumber,  // one element for all; in promotion it counts as a tensor of the program's shape
    kZeroDim  // a number of shape []
  };
  DType dtype = DType::kF32;
  Kind kind = Kind::kUndefined;
};
using InputForms = std::vector<InputForm>;

/// The forms of tensors as inputs of programs of `shape`. Nothing if one is neither full nor a
/// number, if full ones lie in memory with gaps or in different orders, if none is full, or if they
/// are on different devices: only numbers of shape [] may be on the CPU beside a GPU's tensors.
LATHE_API std::optional<InputForms> input_forms(const Shape& shape, const Tensors& inputs);

/// All that a plan depends on, as text: equal texts give equal plans.
std::string key_of(const PointwiseProgram& program, const InputForms& inputs);

class LATHE_API PointwisePlan {
 public:
  /// Where a kernel finds an operand.
  struct Place {
    enum class Kind : uint8_t {
      kInput,    // a full input
      kNumber,   // an input of one element
      kUniform,  // a step of numbers only, computed once
      kSlot,     // a piece of memory that steps use in turn
      kResult
    };
    Kind kind = Kind::kInput;
    int index = 0;
    DType dtype = DType::kF32;
  };
  struct Call {
    RowKernel kernel;
    std::string code;             // its functor on a GPU (pointwise_kernels.h)
    int operands = 0;             // the result included
    std::array<Place, 4> places;  // the result's first
  };
  struct Number {
    int input;
    DType dtype;  // what it is cast to
  };

  /// Nothing if a step has no kernel of its own (pointwise_kernels.h), or if a result is the same
  /// number everywhere.
  static std::optional<PointwisePlan> of(const PointwiseProgram& program, const InputForms& inputs);

  /// The values of program.results, with the bits of the ops, in the order in memory of the full
  /// inputs, and the total, if there is one. The inputs have the forms that the plan was made for,
  /// and are on the CPU; group_kernel.h runs plans on a GPU.
  /// Records no gradients.
  Tensors run(const Tensors& inputs) const;

  /// What the plan does, for the text of a GPU's kernel (kernel_source.h): calls for numbers, made
  /// once, and those for each element; the dtypes of the memory that they make.
  const std::vector<Call>& once() const { return once_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Number>& numbers() const { return numbers_; }
  const std::vector<DType>& made() const { return made_; }
  /// Which of these each result is.
  const std::vector<int>& results() const { return results_; }
  bool has_total() const { return total_.has_value(); }

 private:
  class Builder;
  class Piece;

  std::vector<Number> numbers_;
  std::vector<Call> once_, calls_;
  int uniforms_ = 0, slots_ = 0;
  std::vector<DType> made_;   // the dtypes of the results' memory
  std::vector<int> results_;  // which of these each result is
  std::optional<Place> total_;
  bool total_is_mean_ = false;
};

}  // namespace lathe::jit
