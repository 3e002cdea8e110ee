// From parameters to launches, by the tables of optim/kernels/. Contract: optimizer_launches.h.
#include "lathe/train/plan/optimizer_launches.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "lathe/core/ceil_div.h"

namespace lathe::plan {
namespace {

/// A kernel of a rule: bytes that it reads and writes for each number of f32 parameters, besides
/// half copies; whether it reads the gradient, too.
struct RuleKernel {
  std::string_view name;
  double read = 0, written = 0;
  bool reads_gradient = true;
  bool per_chunk = false;   // the bytes are those of a chunk's sums instead
  bool before_ops = false;  // as in OptimizerLaunch
};

/// How an optimiser updates: the arrays of one parameter in the kernel's table, and the kernels
/// that go over a table, in order.
struct Rule {
  size_t arrays = 0;
  std::vector<RuleKernel> kernels;
};

/// update_kernel (optim/kernels/update_cuda.cu) of a rule with so many buffers.
Rule update_with(size_t buffers) {
  const auto bytes = static_cast<double>(4 + 4 * buffers);
  return {4 + buffers, {{"update_kernel", bytes, bytes}}};
}

/// optim/update.h lists the buffers; update_layerwise_cuda.cu has the kernels of the last four.
Rule rule_of(const std::string& name, bool has_momentum) {
  const size_t momentum = has_momentum ? 1 : 0;
  if (name == "Adam" || name == "AdamW") return update_with(2);
  if (name == "Adagrad" || name == "Lion") return update_with(1);
  if (name == "Adadelta" || name == "Adamax" || name == "NAdam" || name == "RAdam")
    return update_with(2);
  if (name == "RMSprop") return update_with(1 + momentum);
  if (name == "Muon") {  // the directions, then the step
    return {6,
            {{.name = "update_kernel", .read = 12, .written = 12, .before_ops = true},
             {.name = "update_kernel", .read = 12, .written = 12}}};
  }
  if (name == "LARS") return {5, {{"layer_norms_kernel", 4, 0}, {"layer_step_kernel", 8, 8}}};
  if (name == "LAMB")
    return {6, {{"layer_norms_kernel", 12, 8}, {"layer_step_kernel", 12, 4, false}}};
  if (name == "NovoGrad") {
    return {6,
            {{"layer_norms_kernel", 4, 0},
             {"layer_rates_kernel", 16, 0, false, true},
             {"layer_step_kernel", 8, 8}}};
  }
  if (name == "Adafactor") return {5, {{"layer_norms_kernel", 8, 4}, {"layer_step_kernel", 8, 8}}};
  return update_with(momentum);
}

/// Numbers of parameters whose gradients and copies are half, and of the others.
struct Sizes {
  std::vector<int64_t> halves, wide;
};

/// What a kernel's parameters hold, 4 KiB of them, for entries of so many arrays, and for counts of
/// steps (optim/kernels/array_table.cuh, update_frame.cuh).
constexpr size_t table_capacity(size_t arrays) { return 3840 / (8 + 8 * arrays + 4); }
constexpr size_t kCounts = 448;

/// Norms are summed in chunks of this many numbers (optim/update.h).
constexpr int64_t kChunk = 4096;

class OptimizerLaunches {
 public:
  explicit OptimizerLaunches(const StepRecording& step) {
    find_groups(step);
    const bool scaled = step.amp == "fp16";
    if (scaled || step.clip_grad_norm > 0) add_checks();
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Sizes& sizes = groups_[g];
      const std::string& name = step.group_rules.empty() ? step.optimizer : step.group_rules[g];
      rule_ = rule_of(name, step.momentum);
      if (scaled) add_counts(sizes.halves.size() + sizes.wide.size());
      if (name == "Muon") add_copies(step.parameters[g], step.normalizes, scaled);
      if (name == "Adafactor") {
        add_adafactor(step.parameters[g], scaled);
        continue;
      }
      add_updates(sizes.halves, 2, 2);
      add_updates(sizes.wide, 4, 0);
    }
  }
  std::vector<OptimizerLaunch> take() { return std::move(list_); }

 private:
  void find_groups(const StepRecording& step) {
    std::unordered_set<int64_t> copied;
    for (size_t i = static_cast<size_t>(step.first_op); i < step.ops.size(); ++i) {
      if (is_replaced_cast(step, step.ops[i])) copied.insert(step.ops[i].inputs[0].block);
    }
    for (const std::vector<TensorNote>& group : step.parameters) {
      Sizes& sizes = groups_.emplace_back();
      for (const TensorNote& t : group)
        (copied.contains(t.block) ? sizes.halves : sizes.wide).push_back(numel_of(t.shape));
    }
  }

  /// Norms of all gradients and whether they are finite; then one block that raises the counts of
  /// the first parameters.
  void add_checks() {
    Sizes all;
    for (const Sizes& sizes : groups_) {
      all.halves.insert(all.halves.end(), sizes.halves.begin(), sizes.halves.end());
      all.wide.insert(all.wide.end(), sizes.wide.begin(), sizes.wide.end());
    }
    for_each_table(all.wide, 1, [&](double numbers, double) {
      list_.push_back({"norm_parts_kernel", 4 * numbers, 0, true});
    });
    for_each_table(all.halves, 1, [&](double numbers, double) {
      list_.push_back({"norm_parts_kernel", 2 * numbers, 0, true});
    });
    list_.push_back({"begin_step_kernel", 0, 0, true});
    counted_ = kCounts;
  }

  /// The counts of a group's parameters that begin_step_kernel has no room for.
  void add_counts(size_t parameters) {
    const size_t done = std::min(parameters, counted_);
    counted_ -= done;
    for (size_t left = parameters - done; left > 0; left -= std::min(left, kCounts))
      list_.push_back({"count_step_kernel", 0, 0});
  }

  /// Muon's copies: of the directions of all matrices of one shape, and of the matrices that got a
  /// norm. With a loss scale these have stayed as they were if a gradient is not finite: two
  /// launches that a step on the CPU, where it looks first, does not make.
  void add_copies(const std::vector<TensorNote>& matrices, bool normalizes, bool scaled) {
    std::map<std::pair<int64_t, int64_t>, int64_t> batches;  // rows and all numbers → matrices
    for (const TensorNote& p : matrices) ++batches[{p.shape[0], numel_of(p.shape)}];
    const auto copy = [&](int64_t numbers) {
      const double bytes = 4 * static_cast<double>(numbers);
      list_.push_back({"copy", bytes, bytes});
    };
    for (const auto& [size, count] : batches) copy(size.second * count);
    if (!normalizes) return;
    for (const TensorNote& p : matrices) {
      const double bytes = 4 * static_cast<double>(numel_of(p.shape));
      if (scaled) {
        list_.push_back({"pointwise", 0, 0});
        list_.push_back({"pointwise", 2 * bytes, bytes});
      }
      copy(numel_of(p.shape));
    }
  }

  /// Adafactor's copies of the second moments of each matrix: of elements, rows and columns. Then
  /// the steps, those of vectors first, and what stores the moments of rows and columns.
  /// With a loss scale only the GPU knows the step's number: two means of each matrix ask for it in
  /// three launches, which a step on the CPU does not make.
  void add_adafactor(const std::vector<TensorNote>& params, bool scaled) {
    std::vector<int64_t> vectors, matrices, moments;
    for (const TensorNote& p : params) {
      const int64_t all = numel_of(p.shape);
      (p.shape.size() < 2 ? vectors : matrices).push_back(all);
      if (p.shape.size() < 2) continue;
      const int64_t rows = all / p.shape.back(), columns = all / p.shape[p.shape.size() - 2];
      moments.push_back(rows + columns);
      for (int i = 0; scaled && i < 6; ++i) list_.push_back({"pointwise", 8, 8});
      for (const int64_t numbers : {all, rows, columns}) {
        const double bytes = 4 * static_cast<double>(numbers);
        list_.push_back({"copy", bytes, bytes});
      }
    }
    add_updates(vectors, 4, 0);
    add_updates(matrices, 4, 0);
    for (const int64_t numbers : moments) {
      const double bytes = 4 * static_cast<double>(numbers);
      list_.push_back({"update_kernel", 2 * bytes, bytes});
    }
  }

  void add_updates(const std::vector<int64_t>& sizes, double gradient, double copy) {
    for_each_table(sizes, rule_.arrays, [&](double numbers, double chunks) {
      for (const RuleKernel& kernel : rule_.kernels) {
        if (kernel.per_chunk) {
          list_.push_back({std::string(kernel.name), kernel.read * chunks, 0});
          continue;
        }
        const double read = kernel.read + (kernel.reads_gradient ? gradient : 0);
        const double written = kernel.written + (kernel.before_ops ? 0 : copy);
        list_.push_back(
            {std::string(kernel.name), read * numbers, written * numbers, kernel.before_ops});
      }
    });
  }

  /// Calls f(numbers, chunks) for each launch over parameters of these sizes.
  template <class F>
  static void for_each_table(const std::vector<int64_t>& sizes, size_t arrays, F f) {
    const size_t most = table_capacity(arrays);
    for (size_t i = 0; i < sizes.size(); i += most) {
      int64_t numbers = 0, chunks = 0;
      for (size_t j = i; j < std::min(i + most, sizes.size()); ++j) {
        numbers += sizes[j];
        chunks += ceil_div(sizes[j], kChunk);
      }
      f(static_cast<double>(numbers), static_cast<double>(chunks));
    }
  }

  Rule rule_;  // of the group
  std::vector<Sizes> groups_;
  size_t counted_ = 0;  // that begin_step_kernel still has room for
  std::vector<OptimizerLaunch> list_;
};

}  // namespace

std::vector<OptimizerLaunch> optimizer_launches(const StepRecording& step) {
  return OptimizerLaunches(step).take();
}

}  // namespace lathe::plan
