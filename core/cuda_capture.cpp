// The calls of a captured step: as ever, recorded, launched.
#include "lathe/core/cuda_capture.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/cuda_graph.h"
#include "lathe/core/error.h"
#include "lathe/core/profile/stack.h"
#include "lathe/core/profile/watch.h"
#include "lathe/core/stream.h"

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

struct CapturedStep::Impl {
  void check_inputs(const Tensors& inputs) const;
  void check_state() const;
  void record(const Tensors& inputs);

  Step step;
  CaptureOptions options;
  int calls = 0;                    // that ran the step as ever
  Tensors like;                     // inputs of the shapes of the first call
  Tensors inputs;                   // of the graph
  Tensors outputs;                  // of the last call
  std::vector<const void*> memory;  // of the state
  std::optional<Event> done;        // after the last launch
  bool launched = false;
  std::optional<Graph> graph;  // after the tensors: its memory is theirs
};

CapturedStep::CapturedStep(Step step, const CaptureOptions& options)
    : impl_(std::make_unique<Impl>()) {
  LATHE_CHECK(ValueError, step != nullptr, "cuda::capture: the step is empty");
  LATHE_CHECK(ValueError, options.eager_calls >= 0,
              "cuda::capture: eager_calls must not be negative, got ", options.eager_calls);
  impl_->step = std::move(step);
  impl_->options = options;
}
CapturedStep::~CapturedStep() = default;
CapturedStep::CapturedStep(CapturedStep&&) noexcept = default;
CapturedStep& CapturedStep::operator=(CapturedStep&&) noexcept = default;

CapturedStep capture(CapturedStep::Step step, const CaptureOptions& options) {
  return CapturedStep(std::move(step), options);
}

void CapturedStep::Impl::check_inputs(const Tensors& given) const {
  LATHE_CHECK(ValueError, !given.empty(), "captured step: there are no inputs");
  LATHE_CHECK(ValueError, like.empty() || given.size() == like.size(), "captured step: got ",
              given.size(), " inputs, and ", like.size(), " at the first call");
  for (size_t i = 0; i < given.size(); ++i) {
    const Tensor& now = given[i];
    const Tensor& first = like.empty() ? given.front() : like[i];
    LATHE_CHECK(DeviceError, now.device().is_cuda() && now.device() == first.device(),
                "captured step: input ", i, " must be on the GPU of ",
                like.empty() ? "the first input" : "the first call", " (got: ", now,
                ", there: ", first, ")");
    if (like.empty()) continue;
    LATHE_CHECK(DTypeError, now.dtype() == first.dtype(), "captured step: input ", i,
                " has another dtype (got: ", now, ", at the first call: ", first, ")");
    LATHE_CHECK(ShapeError, now.shape() == first.shape(), "captured step: input ", i,
                " has another shape; capture one step for each (got: ", now,
                ", at the first call: ", first, ")");
  }
}

void CapturedStep::Impl::check_state() const {
  for (size_t i = 0; i < options.state.size(); ++i) {
    LATHE_CHECK(StateError, options.state[i].raw_data() == memory[i], "captured step: tensor ", i,
                " of the state has other memory than when the step was recorded, which the graph "
                "does not see (",
                options.state[i], "); capture the step anew, or copy values into the old memory");
  }
}

void CapturedStep::Impl::record(const Tensors& given) {
  Tensors made;
  for (const Tensor& t : given) made.push_back(empty_like(t));
  Graph fresh(given.front().device());
  Tensors results;
  fresh.capture([&] {
    const RefusesWaits refuses;
    results = step(made);
  });
  // Without their history, whose memory the graph can give to others.
  for (Tensor& t : results) {
    if (t.defined()) t = t.detach();
  }
  memory.clear();
  for (const Tensor& t : options.state) memory.push_back(t.raw_data());
  inputs = std::move(made);
  outputs = std::move(results);
  done.emplace(given.front().device());
  graph.emplace(std::move(fresh));
}

const Tensors& CapturedStep::operator()(const Tensors& inputs) {
  Impl& c = *impl_;
  c.check_inputs(inputs);
  if (c.graph) c.check_state();
  if (!c.graph && c.calls < c.options.eager_calls) {
    c.outputs = c.step(inputs);
    ++c.calls;
    if (c.like.empty()) c.like = inputs;
    return c.outputs;
  }
  if (!c.graph) {
    c.record(inputs);
    c.like = c.inputs;  // and lets go of the first ones
  }
  const Stream stream = current_stream(inputs.front().device());
  // The launch before may still read what is overwritten here, and launch() waits for it too late.
  if (c.launched) c.done->block(stream);
  for (size_t i = 0; i < inputs.size(); ++i) copy_values(c.inputs[i], inputs[i]);
  c.graph->launch();
  c.done->record(stream);
  c.launched = true;
  return c.outputs;
}

bool CapturedStep::is_captured() const noexcept { return impl_->graph.has_value(); }
size_t CapturedStep::size() const noexcept { return impl_->graph ? impl_->graph->size() : 0; }

}  // namespace lathe::cuda
