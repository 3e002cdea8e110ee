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

Muon::Muon(Tensors params, const MuonOptions& options)
    : Muon(std::vector<MuonGroup>{{.params = std::move(params)}}, options) {}

Muon::Muon(std::vector<MuonGroup> groups, const MuonOptions& options)
    : Optimizer("Muon", {{.name = "exp_avg"}, {.name = "exp_avg_sq", .only_if = "use_adamw"}}) {
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].use_adamw.value_or(options.use_adamw)) continue;
    for (size_t i = 0; i < groups[g].params.size(); ++i) {
      const Tensor& p = groups[g].params[i];
      LATHE_CHECK(ValueError, !p.defined() || p.ndim() >= 2, name_, ": parameter ", i, " of group ",
                  g, " is no matrix, so its group needs use_adamw (", p, ")");
    }
  }
  add_groups(std::move(groups), options);
}

Tensors Muon::prepare_update(const HyperParameters& hyper, std::span<UpdateItem> items) const {
  const auto o = options_of<MuonOptions>(hyper);
  if (o.use_adamw) return {};
  // By rows and columns of the matrix in memory and by the step's factor, which differs for a
  // matrix that lies column by column.
  std::map<std::tuple<int64_t, int64_t, double, bool>, std::vector<UpdateItem*>> batches;
  for (UpdateItem& item : items) {
    if (item.n == 0) continue;
    LATHE_CHECK(StateError, item.rows > 0, name_, ": parameter of ", item.n,
                " elements is no matrix whose rows or columns lie one after another in memory");
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
  return directions;
}

void Muon::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const auto o = options_of<MuonOptions>(hyper);
  const AdamOptions adam{
      .lr = o.lr, .betas = o.betas, .eps = o.eps, .weight_decay = o.weight_decay};
  if (o.use_adamw) return LATHE_DISPATCH(items.front().device, adam_update(items, adam, true));
  LATHE_DISPATCH(items.front().device, rule_update(items, o));
}

}  // namespace lathe::optim
