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

bool StepGraphs::takes(const Batch& batch, const StepKind& kind, const Work& work,
                       const Agree& agree) {
  Entry* const entry = entry_of(kind, batch.x.shape(), batch.y.shape());
  if (entry == nullptr || entry->fails) return false;
  taken_ = graph_of(*entry, batch);
  if (taken_ != nullptr) return taken_->memory == memory_now();
  if (entry->eager < kEagerSteps) {
    ++entry->eager;
    return false;
  }
  if (entry->graphs.size() == kPlaces) return false;
  std::list<Recorded> made;
  std::string problem;
  try {
    made = record(*entry, batch, work);
  } catch (const Error& e) {
    problem = e.message().empty() ? "an error without a text" : e.message();
  }
  if (agree) problem = agree(problem);
  if (!problem.empty()) {
    problem_ = std::move(problem);
    entry->fails = true;
    return false;
  }
  entry->graphs.splice(entry->graphs.end(), made);
  taken_ = &entry->graphs.back();
  ++recorded_;
  return true;
}

void StepGraphs::give_pool_back() {
  for (const Entry& entry : entries_) {
    if (!entry.graphs.empty()) return;
  }
  pool_.reset();
  cuda::empty_cache();
}

// Null if there are too many.
StepGraphs::Entry* StepGraphs::entry_of(const StepKind& kind, const Shape& x, const Shape& y) {
  for (Entry& entry : entries_) {
    if (entry.kind == kind && entry.x == x && entry.y == y) return &entry;
  }
  if (entries_.size() == kMostKinds) return nullptr;
  entries_.push_back({.kind = kind, .x = x, .y = y});
  return &entries_.back();
}

// Null if none is recorded that reads the batch.
StepGraphs::Recorded* StepGraphs::graph_of(Entry& entry, const Batch& batch) {
  for (Recorded& each : entry.graphs) {
    const bool reads = batch.stays ? each.x.raw_data() == batch.x.raw_data() &&
                                         each.y.raw_data() == batch.y.raw_data()
                                   : each.copies;
    if (reads) return &each;
  }
  return nullptr;
}

std::vector<const void*> StepGraphs::memory_now() const {
  std::vector<const void*> out;
  for (const Tensor& t : state_) out.push_back(t.raw_data());
  return out;
}

// What a graph reads for this batch. Copies of batches of one shape share their memory.
StepTensors StepGraphs::inputs_for(const Batch& batch) const {
  const auto& [x, y, stays] = batch;
  if (stays) return {.x = x, .y = y, .scores = {}, .loss = {}};
  for (const Entry& entry : entries_) {
    if (!(entry.x == x.shape() && entry.y == y.shape())) continue;
    for (const Recorded& other : entry.graphs) {
      const Tensor& made = other.x;
      if (other.copies && made.dtype() == x.dtype() && made.strides() == x.strides())
        return {.x = made, .y = other.y, .scores = {}, .loss = {}};
    }
  }
  return {.x = empty_like(x), .y = empty_like(y), .scores = {}, .loss = {}};
}

// A list of one, which can join those of the entry without a copy.
std::list<StepGraphs::Recorded> StepGraphs::record(const Entry& entry, const Batch& batch,
                                                   const Work& work) {
  // The memory that the steps before needed goes back: the graphs have their own.
  if (entry.graphs.empty()) cuda::empty_cache();
  if (!pool_) pool_.emplace(batch.x.device());
  const StepTensors inputs = inputs_for(batch);
  StepTensors tensors = inputs;
  cuda::Graph graph = cuda::Graph::with_pool_of(*pool_);
  graph.capture([&] {
    const debug::SyncCheck check(debug::SyncMode::kError);  // says which op waits, and where
    work(tensors);
  });
  // Without their history, whose memory the graph can give to others.
  tensors.scores = tensors.scores.detach();
  tensors.loss = tensors.loss.detach();
  tensors.x = inputs.x;  // images that were made of it need not stay
  std::list<Recorded> made;
  made.push_back({.copies = !batch.stays,
                  .x = inputs.x,
                  .y = inputs.y,
                  .memory = memory_now(),
                  .tensors = std::move(tensors),
                  .graph = std::move(graph)});
  return made;
}

const StepTensors& StepGraphs::launch(const Batch& batch) {
  if (taken_->copies) {
    copy_values(taken_->x, batch.x);
    copy_values(taken_->y, batch.y);
  }
  taken_->graph.launch();
  return taken_->tensors;
}

}  // namespace lathe::cli
