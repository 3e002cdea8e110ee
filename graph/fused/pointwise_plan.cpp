// Plans of pointwise programs: which kernel works on which memory, and the loop over pieces.
// Contract: pointwise_plan.h.
#include "lathe/graph/fused/pointwise_plan.h"

#include <algorithm>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/dense.h"
#include "lathe/core/thread_pool.h"
#include "lathe/graph/fused/pointwise_kernels.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/row_kernels.h"

namespace lathe::jit {

namespace {

/// Elements of a piece: the values of a chain of f32, three or four at a time, take half of a
/// first-level cache of 48 KiB, and a call costs a tenth of its loop.
constexpr int64_t kPiece = 2048;
/// Elements of the largest pieces of work that threads share.
constexpr int64_t kChunk = 16 * kPiece;
constexpr int64_t kSlotBytes = kPiece * 8;  // of any dtype

using Kind = InputForm::Kind;

static_assert(kPiece % cpu::kSumBlock == 0 && cpu::kSumChunk % kPiece == 0);

/// The sum of a value's elements, by chunks and their blocks.
class Total {
 public:
  Total(DType dtype, int64_t chunks)
      : dtype_(dtype), chunks_(chunks), partials_(static_cast<size_t>(chunks)) {}

  /// Adds a piece of a chunk, whose pieces come in their order.
  void add(int64_t chunk, const char* values, int64_t n) {
    const auto bytes = static_cast<int64_t>(size_of(dtype_));
    char* const partial = reinterpret_cast<char*>(partials_.data()) + chunk * bytes;
    for (int64_t i = 0; i < n; i += cpu::kSumBlock)
      cpu::add_block_sum(dtype_, partial, values + i * bytes, std::min(cpu::kSumBlock, n - i));
  }

  Tensor joined(int64_t divisor) {
    Tensor y = empty({}, {.dtype = dtype_});
    cpu::join_sums(dtype_, y.raw_data(), partials_.data(), chunks_, divisor);
    return y;
  }

 private:
  DType dtype_;
  int64_t chunks_;
  std::vector<double> partials_;  // memory for numbers of `dtype_`: zeros
};

}  // namespace

std::optional<InputForms> input_forms(const Shape& shape, const Tensors& inputs) {
  InputForms forms;
  const int64_t all = numel_of(shape);
  const Tensor* first = nullptr;  // of the full ones
  for (const Tensor& t : inputs) {
    if (!t.defined()) {
      forms.push_back({});
      continue;
    }
    Kind kind = t.ndim() == 0 ? Kind::kZeroDim : Kind::kNumber;
    if (t.numel() != 1 || all == 1) {
      if (t.numel() != all || t.shape() != shape || !is_dense(t)) return std::nullopt;
      if (first != nullptr && !same_order(*first, t)) return std::nullopt;
      if (first == nullptr) first = &t;
      kind = Kind::kFull;
    }
    forms.push_back({t.dtype(), kind});
  }
  if (first == nullptr) return std::nullopt;
  for (const Tensor& t : inputs) {
    if (t.defined() && t.device() != first->device() && !(t.ndim() == 0 && t.device().is_cpu()))
      return std::nullopt;
  }
  return forms;
}

std::string key_of(const PointwiseProgram& program, const InputForms& inputs) {
  std::string key;
  const auto number = [&key](int64_t n) { key += std::to_string(n) + ','; };
  for (const PointwiseProgram::Step& step : program.steps) {
    key += step.op->name + '(';
    for (const int operand : step.operands) number(operand);
    for (const Attribute& attribute : step.attributes) key += to_text(attribute) + ',';
    number(static_cast<int>(step.dtype));
  }
  key += '|';
  for (const int k : program.results) number(k);
  key += '|';
  number(program.total.step);
  number(program.total.mean);
  for (const InputForm& form : inputs) {
    number(static_cast<int>(form.dtype));
    number(static_cast<int>(form.kind));
  }
  return key;
}

/// Gives each step its kernel and places. Memory of a value is free again after its last reader.
class PointwisePlan::Builder {
 public:
  Builder(const PointwiseProgram& program, const InputForms& inputs)
      : program_(program), inputs_(inputs), last_(program.steps.size(), -1) {
    for (size_t k = 0; k < program.steps.size(); ++k) {
      for (const int operand : program.steps[k].operands) {
        if (operand >= program.inputs) last_[step_of(operand)] = static_cast<int>(k);
      }
    }
  }

  std::optional<PointwisePlan> build() {
    for (const int k : program_.results) {
      const auto at = std::ranges::find(made_by_, k);
      plan_.results_.push_back(static_cast<int>(at - made_by_.begin()));
      if (at != made_by_.end()) continue;
      made_by_.push_back(k);
      plan_.made_.push_back(program_.steps[static_cast<size_t>(k)].dtype);
    }
    for (size_t k = 0; k < program_.steps.size(); ++k) {
      if (!add(k)) return std::nullopt;
    }
    if (program_.total.step >= 0) {
      plan_.total_ = places_[static_cast<size_t>(program_.total.step)];
      plan_.total_is_mean_ = program_.total.mean;
      if (plan_.total_->kind != Place::Kind::kSlot || !cpu::has_sum_kernel(plan_.total_->dtype))
        return std::nullopt;
    }
    return std::move(plan_);
  }

 private:
  size_t step_of(int operand) const { return static_cast<size_t>(operand - program_.inputs); }
  bool is_input(int operand) const { return operand < program_.inputs; }
  const InputForm& form(int input) const { return inputs_[static_cast<size_t>(input)]; }

  /// The dtypes that the op computes with, 0-d numbers cast as promotion would; nothing if it
  /// would cast another operand.
  std::optional<std::vector<DType>> dtypes_of(const PointwiseProgram::Step& step) const {
    std::vector<DType> dtypes;
    std::optional<DType> common;  // of what counts as a tensor with dimensions, conditions apart
    for (const int operand : step.operands) {
      if (operand < 0 || (is_input(operand) && form(operand).kind == Kind::kUndefined))
        return std::nullopt;
      dtypes.push_back(is_input(operand) ? form(operand).dtype
                                         : program_.steps[step_of(operand)].dtype);
      const bool zero_dim = is_input(operand) && form(operand).kind == Kind::kZeroDim;
      if (!zero_dim && (dtypes.back() != kBool || !common)) common = dtypes.back();
    }
    if (!common) return std::nullopt;
    for (size_t i = 0; i < dtypes.size(); ++i) {
      const int operand = step.operands[i];
      if (!is_input(operand) || form(operand).kind != Kind::kZeroDim || dtypes[i] == kBool)
        continue;
      if (category_of(dtypes[i]) > category_of(*common)) return std::nullopt;
      dtypes[i] = *common;
    }
    return dtypes;
  }

  Place place_of(int operand, DType dtype) {
    if (!is_input(operand)) return places_[step_of(operand)];
    if (form(operand).kind == Kind::kFull) return {Place::Kind::kInput, operand, dtype};
    const auto at = std::ranges::find_if(
        plan_.numbers_, [&](const Number& n) { return n.input == operand && n.dtype == dtype; });
    const auto index = static_cast<int>(at - plan_.numbers_.begin());
    if (at == plan_.numbers_.end()) plan_.numbers_.push_back({operand, dtype});
    return {Place::Kind::kNumber, index, dtype};
  }

  bool add(size_t k) {
    const PointwiseProgram::Step& step = program_.steps[k];
    const std::optional<std::vector<DType>> dtypes = dtypes_of(step);
    if (!dtypes) return false;
    const std::optional<PointwiseKernel> chosen = kernel_of(step, *dtypes);
    if (!chosen) return false;
    Call call{.kernel = chosen->kernel,
              .code = chosen->code,
              .operands = chosen->count + 1,
              .places = {}};
    bool uniform = true;
    for (int i = 0; i < chosen->count; ++i) {
      const auto from = static_cast<size_t>(chosen->order[i]);
      const Place place = place_of(step.operands[from], (*dtypes)[from]);
      uniform &= place.kind == Place::Kind::kNumber || place.kind == Place::Kind::kUniform;
      call.places[static_cast<size_t>(i) + 1] = place;
    }
    const auto made = std::ranges::find(made_by_, static_cast<int>(k));
    if (made != made_by_.end()) {
      if (uniform) return false;
      call.places[0] = {Place::Kind::kResult, static_cast<int>(made - made_by_.begin())};
    } else {
      call.places[0] = uniform ? Place{Place::Kind::kUniform, plan_.uniforms_++} : free_slot();
    }
    call.places[0].dtype = step.dtype;
    places_.push_back(call.places[0]);
    (uniform ? plan_.once_ : plan_.calls_).push_back(call);
    // Not before: a kernel's result may not lie over its operands.
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const int operand = step.operands[i];
      const bool seen =
          std::find(step.operands.begin(), step.operands.begin() + static_cast<int>(i), operand) !=
          step.operands.begin() + static_cast<int>(i);
      if (!is_input(operand) && !seen && last_[step_of(operand)] == static_cast<int>(k))
        release(step_of(operand));
    }
    if (last_[k] < 0) release(k);  // nobody reads it
    return true;
  }

  Place free_slot() {
    if (free_.empty()) return {Place::Kind::kSlot, plan_.slots_++};
    const int slot = free_.back();  // the one that was used last is still in the cache
    free_.pop_back();
    return {Place::Kind::kSlot, slot};
  }
  void release(size_t step) {
    const Place& place = places_[step];
    if (static_cast<int>(step) == program_.total.step) return;  // it is read behind the last step
    if (place.kind == Place::Kind::kSlot) free_.push_back(place.index);
  }

  const PointwiseProgram& program_;
  const InputForms& inputs_;
  std::vector<int> last_;      // the last reader of each step
  std::vector<int> made_by_;   // the steps whose values are results
  std::vector<Place> places_;  // of the steps
  std::vector<int> free_;      // slots
  PointwisePlan plan_;
};

std::optional<PointwisePlan> PointwisePlan::of(const PointwiseProgram& program,
                                               const InputForms& inputs) {
  return Builder(program, inputs).build();
}

/// The memory of one run, and calls on a part of it.
class PointwisePlan::Piece {
 public:
  struct Memory {
    std::vector<char*> inputs, numbers, uniforms, results;
  };

  Piece(const std::vector<Call>& calls, const Memory& memory, char* slots) : calls_(calls) {
    for (const Call& call : calls) {
      for (int k = 0; k < call.operands; ++k) {
        const Place& place = call.places[static_cast<size_t>(k)];
        const auto i = static_cast<size_t>(place.index);
        const auto bytes = static_cast<int64_t>(size_of(place.dtype));
        switch (place.kind) {
          case Place::Kind::kInput: operands_.push_back({memory.inputs[i], bytes, bytes}); break;
          case Place::Kind::kNumber: operands_.push_back({memory.numbers[i], 0, 0}); break;
          case Place::Kind::kUniform: operands_.push_back({memory.uniforms[i], 0, 0}); break;
          case Place::Kind::kSlot:
            operands_.push_back({slots + place.index * kSlotBytes, bytes, 0});
            break;
          case Place::Kind::kResult: operands_.push_back({memory.results[i], bytes, bytes}); break;
        }
      }
    }
  }

  /// Elements first … first + n - 1.
  void run(int64_t first, int64_t n) const {
    const Operand* operand = operands_.data();
    for (const Call& call : calls_) {
      char* data[4];
      int64_t step[4];
      for (int k = 0; k < call.operands; ++k, ++operand) {
        data[k] = operand->base + first * operand->moves;
        step[k] = operand->step;
      }
      call.kernel(StridedRow{data, step, n});
    }
  }

 private:
  struct Operand {
    char* base;
    int64_t step, moves;  // bytes from element to element, in a row and from row to row
  };

  const std::vector<Call>& calls_;
  std::vector<Operand> operands_;  // of the calls, in turn
};

Tensors PointwisePlan::run(const Tensors& inputs) const {
  const NoGrad off;
  const Tensor* full = nullptr;
  Piece::Memory memory;
  for (const Tensor& t : inputs) {
    memory.inputs.push_back(t.defined() ? static_cast<char*>(t.raw_data()) : nullptr);
    if (t.defined() && t.numel() != 1) full = &t;
  }
  Tensors numbers, made;
  for (const Number& n : numbers_) {
    numbers.push_back(cast(inputs[static_cast<size_t>(n.input)], n.dtype));
    memory.numbers.push_back(static_cast<char*>(numbers.back().raw_data()));
  }
  std::vector<std::array<char, 8>> uniforms(static_cast<size_t>(uniforms_));
  for (std::array<char, 8>& value : uniforms) memory.uniforms.push_back(value.data());
  for (const DType dtype : made_) {
    made.push_back(empty_like(*full, dtype));
    memory.results.push_back(static_cast<char*>(made.back().raw_data()));
  }
  const int64_t all = full->numel(), chunk = total_ ? cpu::kSumChunk : kChunk;
  Total total(total_ ? total_->dtype : kF32, total_ ? ceil_div(all, chunk) : 0);
  Piece(once_, memory, nullptr).run(0, 1);
  parallel_for(all, chunk, [&](int64_t begin, int64_t end) {
    const Tensor slots = empty({std::max(1, slots_) * kSlotBytes}, {.dtype = kU8});
    char* const memory_of_slots = static_cast<char*>(slots.raw_data());
    const Piece piece(calls_, memory, memory_of_slots);
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t n = std::min(kPiece, end - at);
      piece.run(at, n);
      if (total_) total.add(begin / chunk, memory_of_slots + total_->index * kSlotBytes, n);
    }
  });
  Tensors results;
  for (const int i : results_) results.push_back(made[static_cast<size_t>(i)]);
  if (total_) results.push_back(total.joined(total_is_mean_ ? all : 1));
  return results;
}

}  // namespace lathe::jit
