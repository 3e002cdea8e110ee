// When work is recorded, and what a launch copies.
#include "lathe/core/capture/step_graphs.h"

#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/hooks/watch.h"

namespace lathe::cuda {

namespace {

/// Names the op that waits for the GPU, and where the program calls it: the refusal that follows
/// knows neither.
class RefusesWaits final : public profile::Watcher {
 public:
  RefusesWaits() : Watcher(Gradients::kIgnore) {}

  void node(const char*, uint64_t) override {}  // a wait is where the program waits

  void wait(const char* why) override {
    const auto ops = open_ops();
    if (ops.empty()) return;  // the program asked for it, and is refused as it is
    const profile::CallPlace place = profile::call_place(profile::call_stack(), layer());
    StateError error(concat(ops.front().name, ": a step that is captured cannot wait for the GPU (",
                            why, ")",
                            place.call.empty() ? "" : concat(", called at ", place.call)));
    if (!place.layer.empty()) error.set_origin(place.layer);
    throw error;
  }
};

}  // namespace

bool StepGraphs::takes(const Batch& batch, int64_t kind, const Work& work, const Agree& agree) {
  taken_ = nullptr;
  Entry* const entry = entry_of(kind, batch.inputs);
  if (entry == nullptr || entry->fails) return false;
  taken_ = graph_of(*entry, batch);
  if (taken_ != nullptr) return taken_->memory == memory_now();
  if (entry->eager < eager_calls_) {
    ++entry->eager;
    return false;
  }
  if (entry->graphs.size() == kPlaces) return false;
  std::list<Recorded> made;
  std::string problem;
  std::exception_ptr error;
  try {
    made = record(*entry, batch, work);
  } catch (const Error& e) {
    problem = e.message().empty() ? "an error without a text" : e.message();
    error = std::current_exception();
  }
  if (agree) problem = agree(problem);
  if (!problem.empty()) {
    problem_ = std::move(problem);
    error_ = std::move(error);
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
  empty_cache();
}

std::vector<StepGraphs::Form> StepGraphs::forms_of(const Tensors& inputs) {
  std::vector<Form> out;
  for (const Tensor& t : inputs) out.push_back({t.shape(), t.dtype()});
  return out;
}

// Null if there are too many.
StepGraphs::Entry* StepGraphs::entry_of(int64_t kind, const Tensors& inputs) {
  std::vector<Form> forms = forms_of(inputs);
  for (Entry& entry : entries_) {
    if (entry.kind == kind && entry.forms == forms) return &entry;
  }
  if (entries_.size() == kMostKinds) return nullptr;
  entries_.push_back({.kind = kind, .forms = std::move(forms)});
  return &entries_.back();
}

// Null if none is recorded that reads the batch.
StepGraphs::Recorded* StepGraphs::graph_of(Entry& entry, const Batch& batch) {
  for (Recorded& each : entry.graphs) {
    if (!batch.stays && each.copies) return &each;
    if (!batch.stays) continue;
    bool reads = true;
    for (size_t i = 0; i < batch.inputs.size(); ++i)
      reads = reads && each.inputs[i].raw_data() == batch.inputs[i].raw_data();
    if (reads) return &each;
  }
  return nullptr;
}

std::vector<const void*> StepGraphs::memory_now() const {
  std::vector<const void*> out;
  for (const Tensor& t : state_) out.push_back(t.raw_data());
  return out;
}

std::optional<size_t> StepGraphs::moved_state() const {
  if (taken_ == nullptr) return {};
  for (size_t i = 0; i < state_.size(); ++i) {
    if (state_[i].raw_data() != taken_->memory[i]) return i;
  }
  return {};
}

// What a graph reads for this batch. Copies of batches of one shape share their memory.
Tensors StepGraphs::inputs_for(const Batch& batch) const {
  if (batch.stays) return batch.inputs;
  const std::vector<Form> forms = forms_of(batch.inputs);
  const auto laid_out_alike = [&](const Tensors& made) {
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i].strides() != batch.inputs[i].strides()) return false;
    }
    return true;
  };
  for (const Entry& entry : entries_) {
    if (entry.forms != forms) continue;
    for (const Recorded& other : entry.graphs) {
      if (other.copies && laid_out_alike(other.inputs)) return other.inputs;
    }
  }
  Tensors made;
  for (const Tensor& t : batch.inputs) made.push_back(empty_like(t));
  return made;
}

// A list of one, which can join those of the entry without a copy.
std::list<StepGraphs::Recorded> StepGraphs::record(const Entry& entry, const Batch& batch,
                                                   const Work& work) {
  // The memory that the calls before needed goes back: the graphs have their own.
  if (entry.graphs.empty()) empty_cache();
  if (!pool_) pool_.emplace(batch.inputs.front().device());
  Tensors inputs = inputs_for(batch), results;
  Graph graph = Graph::with_pool_of(*pool_);
  graph.capture([&] {
    const RefusesWaits refuses;
    results = work(inputs);
  });
  // Without their history, whose memory the graph can give to others.
  for (Tensor& t : results) {
    if (t.defined()) t = t.detach();
  }
  std::list<Recorded> made;
  made.push_back({.copies = !batch.stays,
                  .inputs = std::move(inputs),
                  .memory = memory_now(),
                  .results = std::move(results),
                  .graph = std::move(graph)});
  return made;
}

const Tensors& StepGraphs::launch(const Batch& batch) {
  if (taken_->copies) {
    for (size_t i = 0; i < batch.inputs.size(); ++i)
      copy_values(taken_->inputs[i], batch.inputs[i]);
  }
  taken_->graph.launch();
  return taken_->results;
}

}  // namespace lathe::cuda
