// StepUndo: the copies.
#include "lathe/train/step_undo.h"

#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/random/random_state.h"
#include "lathe/ops/creation.h"

namespace lathe::train {

void StepUndo::begin(const Tally& window) {
  begun_ = false;
  const nn::Module::Named<Tensor> buffers = model_.named_buffers();
  if (buffers_.size() != buffers.size()) {
    buffers_.clear();
    for (const auto& [name, buffer] : buffers) buffers_.push_back(empty_like(buffer));
  }
  for (size_t i = 0; i < buffers.size(); ++i) copy_values(buffers_[i], buffers[i].second);
  random_ = random_state();
  window_ = window.state_dict();
  begun_ = true;
}

bool StepUndo::undo(Tally& window) {
  if (!std::exchange(begun_, false)) return false;
  const nn::Module::Named<Tensor> buffers = model_.named_buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    copy_values(buffers[i].second, buffers_[i]);
    buffers[i].second.bump_version();
  }
  set_random_state(random_);
  window.load_state_dict(window_, kCPU);
  return true;
}

}  // namespace lathe::train
