// Arrival: what a gradient does to grad(), and whose memory it may keep.
#include "lathe/autograd/arrival.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "lathe/autograd/accumulate.h"
#include "lathe/autograd/half_copy.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/sole_owner.h"
#include "lathe/core/copy.h"

namespace lathe::autograd {

void Arrival::prepare(bool create_graph) {
  Tensor& grad = tensor->meta->grad;
  if (is_grad) {
    amp::widen(grad, tensor->dtype);
    if (!grad.defined() || grad.requires_grad() || has_overlap(grad))
      new_grad = std::move(gradient);
  } else if (grad.defined()) {
    amp::widen(grad, tensor->dtype);
    gradient = amp::widened(gradient, tensor->dtype);
    // In place, grad() stays the same tensor, and its holders see the sum.
    const bool in_place = !create_graph && !grad.requires_grad() && !has_overlap(grad);
    if (!in_place) new_grad = accumulate(grad, gradient);
  } else if ((create_graph && gradient.requires_grad()) || is_sole_owner(gradient)) {
    new_grad = std::move(gradient);
  } else {  // this memory has another owner (add passes one dy to both inputs): keep a copy
    new_grad = empty_like(gradient);
    copy_values(new_grad, gradient);
    gradient = Tensor();
  }
  if (new_grad.defined() && new_grad.dtype() != tensor->dtype) amp::half_gradient_arrives(tensor);
}

void Arrival::commit() {
  Tensor& grad = tensor->meta->grad;
  if (new_grad.defined()) {
    std::swap(grad, new_grad);  // the old one is released after the locks
  } else if (is_grad) {
    copy_values(grad, gradient);
    grad.bump_version();
  } else {
    accumulate_(grad, gradient);  // allocates nothing
  }
}

GradLocks::GradLocks(const std::vector<Arrival>& arrivals) {
  std::vector<std::mutex*> mutexes;
  for (const Arrival& a : arrivals) mutexes.push_back(&leaf_mutex(a.tensor.get()));
  std::ranges::sort(mutexes, std::less<>());
  const auto repeated = std::ranges::unique(mutexes);
  mutexes.erase(repeated.begin(), repeated.end());
  for (std::mutex* mutex : mutexes) locks_.emplace_back(*mutex);
}

}  // namespace lathe::autograd
