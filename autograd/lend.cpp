// Lent: exchanges what two handles point to.
#include "lathe/autograd/lend.h"

#include <utility>

#include "lathe/autograd/meta.h"

namespace lathe::autograd {

namespace {
thread_local std::vector<Loan> t_loans;
}  // namespace

const std::vector<Loan>& current_loans() noexcept { return t_loans; }

Tensor lasting(const Tensor& t) {
  if (!t.defined() || !t.impl().lent) return t;
  Tensor out = t.detach();
  if (t.impl().meta != nullptr) meta_of(out).grad_fn = t.impl().meta->grad_fn;
  return out;
}

Lent::Lent(const Tensor& target, const Tensor& shown) : target_(target) {
  LATHE_CHECK(StateError, !target.impl().lent, "this tensor is lent already (", target, ")");
  LATHE_CHECK(ShapeError, shown.shape() == target.shape(), "a tensor ", shown, " cannot stand for ",
              target);
  LATHE_CHECK(DeviceError, shown.device() == target.device(), "a tensor ", shown,
              " cannot stand for ", target);
  other_ = shown.view(shown.shape());
  t_loans.push_back({target, shown});
  exchange();
  target_.impl().lent = true;
}

Lent::~Lent() {
  std::erase_if(t_loans, [this](const Loan& loan) { return loan.target.is_same(target_); });
  target_.impl().lent = false;
  exchange();
}

void Lent::exchange() noexcept {
  TensorImpl &a = target_.impl(), &b = other_.impl();
  std::swap(a.storage, b.storage);
  std::swap(a.offset, b.offset);
  std::swap(a.numel, b.numel);
  std::swap(a.dtype, b.dtype);
  std::swap(a.inference, b.inference);
  std::swap(a.shape, b.shape);
  std::swap(a.strides, b.strides);
  std::swap(a.meta, b.meta);
  std::swap(a.base, b.base);
}

}  // namespace lathe::autograd
