// Muon: the directions of all matrices of a group, one batch of products for each shape, and the
// dispatch of an update.
#include "lathe/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/dispatch.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"
#include "lathe/optim/sgd.h"

namespace lathe::optim {

Tensor newton_schulz(const Tensor& x, const NewtonSchulzOptions& options) {
  LATHE_CHECK(ShapeError, x.ndim() >= 2, "newton_schulz: x must be […,m,n] (x: ", x, ")");
  LATHE_CHECK(DTypeError, x.dtype() == kF32 || x.dtype() == kF64,
              "newton_schulz: x must be f32 or f64 (x: ", x, ")");
  const NoGrad off;
  const Autocast products(x.device(), kBF16, options.bf16);
  const bool tall = x.dim(-2) > x.dim(-1);  // A is the smaller of the two products of x with itself
  Tensor y = tall ? transpose(x, -2, -1) : x;
  y = y / norm(y, {-2, -1}, {.keepdim = true}).clamp(1e-7, HUGE_VAL);
  for (int64_t step = 0; step < options.steps; ++step) {
    const Tensor a = matmul(y, transpose(y, -2, -1)).to(x.dtype());
    const Tensor factor = a * -4.7750 + matmul(a, a).to(x.dtype()) * 2.0315;
    y = y * 3.4445 + matmul(factor, y).to(x.dtype());
  }
  return tall ? transpose(y, -2, -1) : y;
}

namespace {

/// The parameter's memory, and its master's, as vectors.
Tensor memory_of(const UpdateItem& item) {
  return from_blob(item.param, {item.n}, item.dtype, item.device);
}
Tensor master_of(const UpdateItem& item) {
  return from_blob(item.master, {item.n}, kF32, item.device);
}

/// The parameter's values times sqrt(rows) / ‖p‖, in the type of the arithmetic. Unchanged where
/// found_inf tells that the step changes nothing.
Tensor normalized(const UpdateItem& item) {
  const Tensor held = memory_of(item);
  Tensor p = held.to(item.dtype == kF64 ? kF64 : kF32);
  if (item.master != nullptr) {  // master_value() in kernels/update_math.h
    const Tensor master = master_of(item);
    p = where(master.to(item.dtype) == held, master, p);
  }
  const Tensor scaled =
      p * (std::sqrt(static_cast<double>(item.rows)) / norm(p).clamp(1e-7, HUGE_VAL));
  if (item.found_inf == nullptr) return scaled;
  const Tensor found = from_blob(const_cast<float*>(item.found_inf), {}, kF32, item.device);
  return where(found == 0, scaled, p);
}

}  // namespace

Muon::Muon(Tensors params, const MuonOptions& options)
    : Muon(std::vector<MuonGroup>{{.params = std::move(params)}}, options) {}

Muon::Muon(std::vector<MuonGroup> groups, const MuonOptions& options)
    : Optimizer("Muon", {{.name = "exp_avg"}, {.name = "exp_avg_sq", .only_if = "use_adamw"}}) {
  for (size_t g = 0; g < groups.size(); ++g) {
    const bool adamw = groups[g].use_adamw.value_or(options.use_adamw);
    const bool sgd = groups[g].use_sgd.value_or(options.use_sgd);
    if (adamw || sgd) continue;
    for (size_t i = 0; i < groups[g].params.size(); ++i) {
      const Tensor& p = groups[g].params[i];
      LATHE_CHECK(ValueError, !p.defined() || p.ndim() >= 2, name_, ": parameter ", i, " of group ",
                  g, " is no matrix, so its group needs use_adamw or use_sgd (", p, ")");
    }
  }
  add_groups(std::move(groups), options);
}

void Muon::check_together(const HyperParameters& hyper) const {
  const auto o = options_of<MuonOptions>(hyper);
  LATHE_CHECK(ValueError, !o.use_adamw || !o.use_sgd, name_,
              ": a group has both use_adamw and use_sgd");
  const double steps = hyper("ns_steps");  // as a state has it
  LATHE_CHECK(ValueError, std::floor(steps) == steps, name_, ": ns_steps must be an integer, got ",
              steps);
}

Tensors Muon::prepare_update(const HyperParameters& hyper, std::span<UpdateItem> items) const {
  const auto o = options_of<MuonOptions>(hyper);
  if (o.use_adamw || o.use_sgd) return {};
  // By rows and columns of the matrix in memory and by the step's factor, which differs for a
  // matrix that lies column by column.
  std::map<std::tuple<int64_t, int64_t, double, bool>, std::vector<UpdateItem*>> batches;
  for (UpdateItem& item : items) {
    if (item.n == 0) continue;
    LATHE_CHECK(StateError, item.rows > 0, name_, ": a parameter of ", item.n,
                " elements is not contiguous in memory, neither by rows nor by columns");
    const int64_t columns = item.n / item.rows;
    const auto [low, high] = std::minmax(item.rows, columns);
    const auto shape = [](int64_t n) { return static_cast<double>(n); };
    const double factor = o.match_rms_adamw
                              ? 0.2 * std::sqrt(shape(high))
                              : std::sqrt(std::max(1.0, shape(item.rows) / shape(columns)));
    batches[{item.by_columns ? columns : item.rows, item.by_columns ? item.rows : columns, factor,
             item.dtype == kF64}]
        .push_back(&item);
  }
  const Device device = items.front().device;
  Tensors directions;
  for (const auto& [key, batch] : batches) {
    const auto& [rows, columns, factor, wide] = key;
    const DType dtype = wide ? kF64 : kF32;
    const Tensor all = zeros({static_cast<int64_t>(batch.size()), rows, columns},
                             {.dtype = dtype, .device = device});
    auto* at = static_cast<std::byte*>(all.raw_data());
    for (UpdateItem* item : batch) {
      item->buffers[1] = at;
      at += rows * columns * size_of(dtype);
    }
    directions.push_back(all);
  }
  std::vector<UpdateItem> sources(items.begin(), items.end());
  for (UpdateItem& item : sources) {  // the parameter and its copies stay
    item.counted = true;
    item.master = nullptr;
    item.half_copy = kF32;
    item.copy = nullptr;
  }
  LATHE_DISPATCH(device, muon_directions(sources, o));
  size_t i = 0;
  for (const auto& [key, batch] : batches) {
    const Tensor& all = directions[i++];
    const Tensor made =
        newton_schulz(all, {.steps = o.ns_steps, .bf16 = o.ns_bf16 && all.dtype() == kF32});
    copy_values(all, made * std::get<2>(key));
  }
  if (o.normalize) {
    for (UpdateItem& item : items) {
      if (item.n == 0) continue;
      directions.push_back(normalized(item));
      item.buffers[2] = directions.back().raw_data();
    }
  }
  return directions;
}

void Muon::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const auto o = options_of<MuonOptions>(hyper);
  const AdamOptions adam{
      .lr = o.lr, .betas = o.betas, .eps = o.eps, .weight_decay = o.weight_decay};
  if (o.use_adamw) return LATHE_DISPATCH(items.front().device, adam_update(items, adam, true));
  const SGDOptions sgd{
      .lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay, .nesterov = o.nesterov};
  if (o.use_sgd) return LATHE_DISPATCH(items.front().device, sgd_update(items, sgd));
  for (const UpdateItem& item : items) {
    if (item.buffers[2] == nullptr) continue;
    const Tensor values =
        from_blob(item.buffers[2], {item.n}, item.dtype == kF64 ? kF64 : kF32, item.device);
    if (item.master != nullptr) copy_values(master_of(item), values);
    copy_values(memory_of(item), values);
  }
  LATHE_DISPATCH(items.front().device, rule_update(items, o));
}

}  // namespace lathe::optim
