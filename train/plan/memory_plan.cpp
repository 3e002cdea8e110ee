// From the CPU's memory to a GPU's, and the replay. Contract: memory_plan.h.
#include "lathe/train/plan/memory_plan.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/memory/block_pool.h"
#include "lathe/train/plan/op_notes.h"

namespace lathe::plan {
namespace {

using profile::Kind;

/// Turns what the CPU did into what a GPU would do.
class GpuMemory {
 public:
  explicit GpuMemory(const StepRecording& from) : from_(from) {
    find_scratch();
    find_gradients();
    find_reused();
    for (size_t i = 0; i < from.memory.size(); ++i) {
      if (i == from.last_step) last_step_ = result_.size();
      add(from.memory[i], i < from.steps_begin);
    }
  }

  /// Blocks are numbered anew: the numbers in the recording count those that a GPU does not take.
  std::vector<MemoryNote> take() {
    std::unordered_map<int64_t, int64_t> number_of;
    for (MemoryNote& note : result_)
      note.block = number_of.try_emplace(note.block, std::ssize(number_of)).first->second;
    return std::move(result_);
  }
  size_t last_step() const { return last_step_; }

 private:
  const OpNote* op_at(int op) const {
    return op < 0 ? nullptr : &from_.ops[static_cast<size_t>(op)];
  }

  /// Blocks that are taken and given back directly inside one op, workspaces of the CPU's library,
  /// gradients that only the CPU writes out, and before the first step those that do not stay.
  void find_scratch() {
    std::unordered_map<int64_t, int> taken_in;
    for (size_t i = 0; i < from_.memory.size(); ++i) {
      const MemoryNote& note = from_.memory[i];
      if (note.taken) {
        taken_in[note.block] = note.op;
        if (note.workspace || (note.op >= 0 && is_expanded_gradient(from_, note.op)))
          dropped_.insert(note.block);
      } else if (i < from_.steps_begin || (note.op >= 0 && taken_in.contains(note.block) &&
                                           taken_in[note.block] == note.op)) {
        dropped_.insert(note.block);
      }
    }
  }

  /// Where the cast of a weight's gradient to f32 reads a half one, that one stays in its place.
  void find_gradients() {
    for (const OpNote& op : from_.ops) {
      const OpNote* const outer = op_at(op.parent);
      if (op.name != "cast" || op.kind != Kind::kOp || outer == nullptr ||
          outer->kind != Kind::kBackward || op.inputs.empty() || op.outputs.empty())
        continue;
      const auto made = from_.op_of_node.find(outer->node);
      if (made != from_.op_of_node.end() && is_replaced_cast(from_, *op_at(made->second))) {
        take_over(op.outputs[0].block, op.inputs[0].block);
      }
    }
  }

  /// The gradients of batch_norm_add_relu lie where those lay that came to it, on a GPU
  /// (BatchNormGrads::dy_is_free). Those were added up where somebody watches.
  void find_reused() {
    std::unordered_map<uint64_t, int64_t> second_of;
    for (const auto& [block, node] : from_.second_gradients) second_of[node] = block;
    for (int i = 0; i < static_cast<int>(from_.ops.size()); ++i) {
      const OpNote& op = *op_at(i);
      if (op.kind != Kind::kBackward || op.name != "batch_norm_add_relu") continue;
      const auto dx = output_of(op, 0), residual = output_of(op, 1);
      if (!residual) continue;
      const auto first = from_.first_gradients.find(op.node);
      const auto second = second_of.find(op.node);
      if (first != from_.first_gradients.end() && !reads_expanded(i))
        take_over(*residual, first->second);
      if (second != second_of.end() && dx) take_over(*dx, second->second);
    }
  }

  /// True if the gradient that backward range i gets has one number for many pixels.
  bool reads_expanded(int i) const {
    const int count = static_cast<int>(from_.ops.size());
    for (int j = i + 1; j < count && op_at(j)->parent >= i; ++j) {
      if (op_at(j)->parent == i && is_expanded_gradient(from_, j)) return true;
    }
    return false;
  }

  /// The block of the gradient of an input.
  static std::optional<int64_t> output_of(const OpNote& backward, size_t input) {
    for (size_t k = 0; k < backward.gradient_of.size() && k < backward.outputs.size(); ++k) {
      if (backward.gradient_of[k] == input) return backward.outputs[k].block;
    }
    return std::nullopt;
  }

  /// `block` is the memory that `before` was. So that one is not given back, and this not taken.
  void take_over(int64_t block, int64_t before) {
    const auto at = lies_in_.find(before);
    lies_in_[block] = at == lies_in_.end() ? before : at->second;
    dropped_.insert(before);
    kept_.insert(before);
  }

  /// The end of the backward range of a node, which `op` lies in or before: the index behind its
  /// last inner range.
  int end_of_backward(uint64_t node, int op) const {
    const auto is_range = [&](int i) {
      return op_at(i)->kind == Kind::kBackward && op_at(i)->node == node;
    };
    const int count = static_cast<int>(from_.ops.size());
    int i = op;
    while (i >= 0 && !is_range(i)) i = op_at(i)->parent;
    if (i < 0) i = op + 1;
    while (i < count && !is_range(i)) ++i;
    const int begin = i++;
    while (i < count && op_at(i)->parent >= begin) ++i;
    return i;
  }

  void give_back_delayed(int op) {
    for (auto at = delayed_.begin(); at != delayed_.end() && (op < 0 || at->first <= op);) {
      result_.push_back(at->second);
      at = delayed_.erase(at);
    }
  }

  void add(const MemoryNote& note, bool before_steps) {
    if (note.op >= 0) give_back_delayed(note.op);
    const OpNote* const op = op_at(note.op);
    if (note.taken && op != nullptr && is_replaced_cast(from_, *op)) copies_.insert(note.block);
    if (copies_.contains(note.block)) {  // the first step's copies stay, later ones are not made
      if (note.taken && copied_.insert(op->inputs[0].block).second) result_.push_back(note);
      return;
    }
    if (const auto at = lies_in_.find(note.block); at != lies_in_.end()) {
      if (!note.taken && !dropped_.contains(note.block))
        result_.push_back({at->second, sizes_[at->second], false, note.op});
      return;
    }
    if (note.taken) sizes_[note.block] = note.bytes;
    if (dropped_.contains(note.block) && !(note.taken && kept_.contains(note.block))) return;
    const auto second = from_.second_gradients.find(note.block);
    if (!note.taken && !before_steps && second != from_.second_gradients.end() &&
        is_batch_norm(second->second)) {
      delayed_.emplace(end_of_backward(second->second, note.op), note);
      return;
    }
    result_.push_back(note);
  }

  bool is_batch_norm(uint64_t node) const {
    const auto made = from_.op_of_node.find(node);
    return made != from_.op_of_node.end() && op_at(made->second)->name.starts_with("batch_norm");
  }

  const StepRecording& from_;
  std::vector<MemoryNote> result_;
  size_t last_step_ = 0;
  std::unordered_set<int64_t> dropped_;           // blocks that a GPU does not take
  std::unordered_set<int64_t> kept_;              // of those the ones that another takes over
  std::unordered_map<int64_t, int64_t> lies_in_;  // a block to the one that it takes over
  std::unordered_map<int64_t, int64_t> sizes_;    // of blocks
  std::unordered_set<int64_t> copies_, copied_;   // half copies; weights that have one
  std::multimap<int, MemoryNote> delayed_;        // by the op before which they are given back
};

/// A GPU's memory as addresses alone.
class Addresses final : public RawMemory {
 public:
  explicit Addresses(size_t bytes) : free_(bytes), total_(bytes) {}

  void* allocate(size_t bytes) noexcept override try {
    if (bytes > free_) return nullptr;
    void* const block = reinterpret_cast<void*>(next_);
    sizes_.emplace(block, bytes);
    next_ += (bytes + kStep - 1) / kStep * kStep;
    free_ -= bytes;
    return block;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  void deallocate(void* block) noexcept override {
    const auto at = sizes_.find(block);
    free_ += at->second;
    sizes_.erase(at);
  }
  EventHandle record(StreamHandle) noexcept override { return this; }
  void release(EventHandle) noexcept override {}
  bool query(EventHandle) noexcept override { return true; }
  bool synchronize() noexcept override { return true; }
  MemoryInfo mem_info() noexcept override { return {free_, total_}; }

 private:
  static constexpr uintptr_t kStep = 2 << 20;
  uintptr_t next_ = kStep;  // addresses are not used twice
  size_t free_;
  const size_t total_;
  std::map<void*, size_t> sizes_;
};

/// How much a block grows with an image, rounded up where it does not lie on a line.
int64_t per_image(int64_t small, int64_t large, int64_t images) {
  const int64_t growth = images > 0 ? large - small : small - large, count = std::abs(images);
  return growth > 0 ? (growth + count - 1) / count : growth / count;
}

}  // namespace

MemoryScript memory_script(const StepRecording& a, const StepRecording& b) {
  GpuMemory of_a(a), of_b(b);
  const std::vector<MemoryNote> small = of_a.take(), large = of_b.take();
  LATHE_CHECK(StateError, a.batch != b.batch && small.size() == large.size(), "plan: a step of ",
              a.batch, " images allocates and frees ", small.size(), " blocks, but a step of ",
              b.batch, " images ", large.size());
  MemoryScript script{.steps = {}, .last_step = of_a.last_step()};
  for (size_t i = 0; i < small.size(); ++i) {
    const MemoryNote &x = small[i], &y = large[i];
    LATHE_CHECK(StateError, x.taken == y.taken && x.block == y.block, "plan: steps of ", a.batch,
                " and of ", b.batch,
                " images allocate and free in different orders, first at block ", x.block);
    const int64_t each = per_image(x.bytes, y.bytes, b.batch - a.batch);
    script.steps.push_back({x.block, x.taken, x.bytes - each * a.batch, each});
  }
  return script;
}

namespace {

/// Runs the script on a pool. Calls each(pool) after every step of the last training step.
/// → whether the memory sufficed, and what the pool then says
template <class F>
std::optional<BlockPoolStats> run_script(const MemoryScript& script, int64_t batch,
                                         int64_t memory_bytes, const F& each) {
  Addresses memory(static_cast<size_t>(memory_bytes));
  BlockPool pool(memory, {.name = "planned memory"});
  std::unordered_map<int64_t, void*> blocks;
  const struct GiveBack {
    BlockPool& pool;
    std::unordered_map<int64_t, void*>& blocks;
    ~GiveBack() {
      for (const auto& [block, address] : blocks) pool.deallocate(address);
    }
  } give_back{pool, blocks};
  try {
    for (size_t i = 0; i < script.steps.size(); ++i) {
      const MemoryStep& step = script.steps[i];
      if (i == script.last_step) pool.reset_peak();
      if (step.taken) {
        const int64_t bytes = step.bytes + step.bytes_per_image * batch;
        blocks[step.block] = pool.allocate(static_cast<size_t>(bytes), nullptr);
      } else if (const auto at = blocks.find(step.block); at != blocks.end()) {
        pool.deallocate(at->second);
        blocks.erase(at);
      }
      if (i >= script.last_step) each(pool);
    }
  } catch (const OutOfMemoryError&) {
    return std::nullopt;
  }
  return pool.stats();
}

}  // namespace

std::optional<PlannedMemory> replay(const MemoryScript& script, int64_t batch,
                                    int64_t memory_bytes) {
  const auto stats = run_script(script, batch, memory_bytes, [](const BlockPool&) {});
  if (!stats) return std::nullopt;
  return PlannedMemory{static_cast<int64_t>(stats->allocated_bytes.peak),
                       static_cast<int64_t>(stats->reserved_bytes.current)};
}

std::vector<int64_t> memory_over_step(const MemoryScript& script, int64_t batch,
                                      int64_t memory_bytes) {
  std::vector<int64_t> bytes;
  const auto stats = run_script(script, batch, memory_bytes, [&](const BlockPool& pool) {
    bytes.push_back(static_cast<int64_t>(pool.stats().allocated_bytes.current));
  });
  if (!stats) return {};
  while (!bytes.empty() && !script.steps[script.last_step + bytes.size() - 1].taken)
    bytes.pop_back();
  return bytes;
}

int64_t largest_batch(const MemoryScript& script, int64_t memory_bytes) {
  int64_t fits = 0, fails = 1;
  while (fails <= kMostImages && replay(script, fails, memory_bytes))
    fits = std::exchange(fails, 2 * fails);
  if (fails > kMostImages) return kMostImages;
  while (fails - fits > 1) {
    const int64_t middle = fits + (fails - fits) / 2;
    (replay(script, middle, memory_bytes) ? fits : fails) = middle;
  }
  return fits;
}

}  // namespace lathe::plan
