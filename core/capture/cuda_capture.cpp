// The calls of a captured step: as ever, recorded, launched.
#include "lathe/core/capture/cuda_capture.h"

#include <exception>
#include <optional>
#include <utility>

#include "lathe/core/capture/step_graphs.h"
#include "lathe/core/error.h"
#include "lathe/core/stream.h"

namespace lathe::cuda {

struct CapturedStep::Impl {
  void check_inputs(const Tensors& inputs) const;
  void fail_if_moved() const;

  Step step;
  CaptureOptions options;
  std::optional<StepGraphs> graphs;
  Tensors like;               // inputs of the shapes of the first call
  Tensors outputs;            // of the last call that ran the step
  std::optional<Event> done;  // after the last launch
};

CapturedStep::CapturedStep(Step step, const CaptureOptions& options)
    : impl_(std::make_unique<Impl>()) {
  LATHE_CHECK(ValueError, step != nullptr, "cuda::capture: the step is empty");
  LATHE_CHECK(ValueError, options.eager_calls >= 0,
              "cuda::capture: eager_calls must not be negative, got ", options.eager_calls);
  impl_->step = std::move(step);
  impl_->options = options;
  impl_->graphs.emplace(options.state, options.eager_calls);
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

void CapturedStep::Impl::fail_if_moved() const {
  const std::optional<size_t> moved = graphs->moved_state();
  LATHE_CHECK(StateError, !moved, "captured step: tensor ", *moved,
              " of the state has other memory than when the step was recorded, which the graph "
              "does not see (",
              options.state[*moved],
              "); capture the step anew, or copy values into the old memory");
}

const Tensors& CapturedStep::operator()(const Tensors& inputs) {
  Impl& c = *impl_;
  c.check_inputs(inputs);
  if (!c.graphs->takes({inputs}, 0, c.step)) {
    if (c.graphs->has_problem()) {
      const std::exception_ptr error = c.graphs->error();
      c.graphs.emplace(c.options.state, 0);  // the next call records again
      std::rethrow_exception(error);
    }
    c.fail_if_moved();
    c.outputs = c.step(inputs);
    if (c.like.empty()) c.like = inputs;
    return c.outputs;
  }
  if (!c.done) {  // the first launch
    c.done.emplace(inputs.front().device());
    c.outputs.clear();
    c.like = c.graphs->inputs();
  } else {
    // The launch before may still read what is overwritten here, and waits for it too late itself.
    c.done->block(current_stream(inputs.front().device()));
  }
  const Tensors& outputs = c.graphs->launch({inputs});
  c.done->record(current_stream(inputs.front().device()));
  return outputs;
}

bool CapturedStep::is_captured() const noexcept { return impl_->graphs->recorded() > 0; }
size_t CapturedStep::size() const noexcept { return impl_->graphs->size(); }

}  // namespace lathe::cuda
