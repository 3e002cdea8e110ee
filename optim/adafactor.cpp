// Adafactor: the second moments of matrices, made by ops, and the dispatch of an update.
#include "lathe/optim/adafactor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/dispatch.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe::optim {

namespace {

constexpr size_t kVariance = 0, kRows = 1, kColumns = 2;  // the buffers

bool is_factored(const UpdateItem& item) { return item.tensor->ndim() > 1; }

DType precision_of(const UpdateItem& item) { return item.dtype == kF64 ? kF64 : kF32; }

/// PyTorch's eps1 if none is given.
double machine_epsilon(const UpdateItem& item) {
  if (item.dtype == kF64) return std::numeric_limits<double>::epsilon();
  if (item.dtype == kF32 || item.master != nullptr) return std::numeric_limits<float>::epsilon();
  return item.dtype == kF16 ? 0x1p-10 : 0x1p-7;
}

/// The gradient as the update reads it, in the type of the arithmetic.
Tensor gradient_of(const UpdateItem& item) {
  const Tensor memory = from_blob(const_cast<void*>(item.grad), {item.n}, item.dtype, item.device);
  const Tensor grad =
      alias(memory, item.tensor->shape(), item.tensor->strides(), 0).to(precision_of(item));
  if (item.grad_factors == nullptr) return grad;
  const Tensor factors =
      from_blob(const_cast<double*>(item.grad_factors), {2}, kF64, item.device).to(grad.dtype());
  return grad * factors.select(0, 0) * factors.select(0, 1);
}

/// One step towards `now` of a mean that was `before`.
Tensor moved(const UpdateItem& item, const Tensor& before, const Tensor& now, double beta2_decay) {
  if (item.count == nullptr)
    return before + (now - before) * std::pow(static_cast<double>(item.step), beta2_decay);
  const Tensor count = from_blob(item.count, {}, kI64, item.device).to(kF64);
  const Tensor step = item.counted ? count : count + 1.0;
  return before + (now - before) * pow(step, beta2_decay).to(before.dtype());
}

/// The next v of a matrix in the order of the parameter, behind it the next r and c. Points
/// buffers[kVariance] there.   → the memory
Tensor factored_moments(UpdateItem& item, const AdafactorOptions& o) {
  const DType dtype = precision_of(item);
  const Tensor& param = *item.tensor;
  const Tensor g = gradient_of(item), square = g * g;
  const auto next = [&](size_t buffer, int64_t dim) {
    const Tensor now = mean(square, {dim}, {.keepdim = true});
    return moved(item, from_blob(item.buffers[buffer], now.shape(), dtype, item.device), now,
                 o.beta2_decay);
  };
  const Tensor rows = next(kRows, -1), columns = next(kColumns, -2);
  const double eps1 = o.eps1 > 0 ? o.eps1 : machine_epsilon(item);
  const Tensor v = rows * columns / mean(rows, {-2}, {.keepdim = true}).clamp_min(eps1);
  const Tensor memory =
      empty({item.n + rows.numel() + columns.numel()}, {.dtype = dtype, .device = item.device});
  copy_values(alias(memory, param.shape(), param.strides(), 0), v);
  copy_values(memory.slice(0, item.n, item.n + rows.numel()), rows.reshape({-1}));
  copy_values(memory.slice(0, item.n + rows.numel(), memory.numel()), columns.reshape({-1}));
  item.buffers[kVariance] = memory.raw_data();
  return memory;
}

/// Writes r and c of a matrix, which lie behind v, unless the step is skipped.
void store_moments(const UpdateItem& item) {
  const Shape& shape = item.tensor->shape();
  const int last = item.tensor->ndim() - 1;
  const int64_t rows = item.n / shape[last], columns = item.n / shape[last - 1];
  const auto* behind =
      static_cast<const std::byte*>(item.buffers[kVariance]) + item.n * size_of(precision_of(item));
  const auto of = [&](int64_t n, const std::byte* from, void* to) {
    return UpdateItem{.n = n,
                      .dtype = precision_of(item),
                      .device = item.device,
                      .step = 1,
                      .param = nullptr,
                      .grad = from,
                      .buffers = {to},
                      .found_inf = item.found_inf};
  };
  const std::array items = {
      of(rows, behind, item.buffers[kRows]),
      of(columns, behind + rows * size_of(precision_of(item)), item.buffers[kColumns])};
  LATHE_DISPATCH(item.device, ema_update(items, {.decay = 0, .warm_up = false}));
}

}  // namespace

Adafactor::Adafactor(Tensors params, const AdafactorOptions& options)
    : Adafactor(std::vector<AdafactorGroup>{{.params = std::move(params)}}, options) {}

Adafactor::Adafactor(std::vector<AdafactorGroup> groups, const AdafactorOptions& options)
    : Optimizer("Adafactor", {{.name = "variance", .per = Per::kElementOfVector},
                              {.name = "row_var", .per = Per::kRow},
                              {.name = "col_var", .per = Per::kColumn}}) {
  add_groups(std::move(groups), options);
}

void Adafactor::check_together(const HyperParameters& hyper) const {
  const auto o = options_of<AdafactorOptions>(hyper);
  LATHE_CHECK(ValueError, o.beta2_decay <= 0, name_, ": beta2_decay must not be positive, got ",
              o.beta2_decay);
  LATHE_CHECK(ValueError, o.d >= 1, name_, ": d must be at least 1, got ", o.d);
}

Tensors Adafactor::prepare_update(const HyperParameters& hyper, std::span<UpdateItem> items) const {
  const NoGrad off;
  const Autocast full(items.front().device, kF16, false);
  const auto o = options_of<AdafactorOptions>(hyper);
  std::ranges::stable_sort(
      items, {}, [](const UpdateItem& item) { return std::pair(item.kind(), is_factored(item)); });
  Tensors memory;
  for (UpdateItem& item : items) {
    if (item.n > 0 && is_factored(item)) memory.push_back(factored_moments(item, o));
  }
  return memory;
}

void Adafactor::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const auto o = options_of<AdafactorOptions>(hyper);
  for (auto begin = items.begin(); begin != items.end();) {
    const auto end = std::find_if(begin, items.end(), [&](const UpdateItem& item) {
      return item.kind() != begin->kind() || is_factored(item) != is_factored(*begin);
    });
    AdafactorNumbers numbers{o, is_factored(*begin)};
    if (!(o.eps1 > 0)) numbers.eps1 = machine_epsilon(*begin);
    const std::span<const UpdateItem> run(begin, end);
    LATHE_DISPATCH(begin->device, adafactor_update(run, numbers));
    begin = end;
  }
  for (const UpdateItem& item : items) {
    if (item.n > 0 && is_factored(item)) store_moments(item);
  }
}

}  // namespace lathe::optim
