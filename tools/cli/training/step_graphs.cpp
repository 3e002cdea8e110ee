// When a step is recorded, and what a launch copies.
#include "lathe/tools/cli/training/step_graphs.h"

#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/core/debug/sync_check.h"
#include "lathe/core/error.h"

namespace lathe::cli {
namespace {
constexpr int kEagerSteps = 2;
}  // namespace

bool StepGraphs::takes(const Tensor& x, const Tensor& y, const StepKind& kind, const Work& work) {
  Entry* const entry = entry_of(kind, x.shape(), y.shape());
  if (entry == nullptr || entry->fails) return false;
  taken_ = entry;
  if (entry->graph) return entry->memory == memory_now();
  if (entry->eager++ < kEagerSteps) return false;
  try {
    record(*entry, x, y, work);
    return true;
  } catch (const Error& e) {
    problem_ = e.message();
    entry->fails = true;
    entry->tensors = {};
    return false;
  }
}

// Null if there are too many.
StepGraphs::Entry* StepGraphs::entry_of(const StepKind& kind, const Shape& x, const Shape& y) {
  for (Entry& entry : entries_) {
    if (entry.kind == kind && entry.x == x && entry.y == y) return &entry;
  }
  if (entries_.size() == kMostGraphs) return nullptr;
  entries_.push_back({.kind = kind, .x = x, .y = y, .memory = {}, .tensors = {}, .graph = {}});
  return &entries_.back();
}

std::vector<const void*> StepGraphs::memory_now() const {
  std::vector<const void*> out;
  for (const Tensor& t : state_) out.push_back(t.raw_data());
  return out;
}

// Steps on batches of one shape read the same memory.
void StepGraphs::make_inputs(Entry& entry, const Tensor& x, const Tensor& y) const {
  for (const Entry& other : entries_) {
    if (other.graph && other.x == entry.x && other.y == entry.y &&
        other.tensors.x.dtype() == x.dtype() && other.tensors.x.strides() == x.strides()) {
      entry.tensors.x = other.tensors.x;
      entry.tensors.y = other.tensors.y;
      return;
    }
  }
  entry.tensors.x = empty_like(x);
  entry.tensors.y = empty_like(y);
}

void StepGraphs::record(Entry& entry, const Tensor& x, const Tensor& y, const Work& work) {
  cuda::empty_cache();  // the memory that the steps before needed: the graphs have their own
  if (!pool_) pool_.emplace(x.device());
  cuda::Graph graph = cuda::Graph::with_pool_of(*pool_);
  make_inputs(entry, x, y);
  graph.capture([&] {
    const debug::SyncCheck check(debug::SyncMode::kError);  // says which op waits, and where
    work(entry.tensors);
  });
  // Without their history, whose memory the graph can give to others.
  entry.tensors.scores = entry.tensors.scores.detach();
  entry.tensors.loss = entry.tensors.loss.detach();
  entry.memory = memory_now();
  entry.graph.emplace(std::move(graph));
  ++recorded_;
}

const StepTensors& StepGraphs::launch(const Tensor& x, const Tensor& y) {
  copy_values(taken_->tensors.x, x);
  copy_values(taken_->tensors.y, y);
  taken_->graph->launch();
  return taken_->tensors;
}

}  // namespace lathe::cli
