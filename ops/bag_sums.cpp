// bag_sums and bag_maxima: gradients. Loops: index_kernels/bag_sums_cpu.cpp. Contract: bag_sums.h.
//
// The sum over all entries of factor * <row of x, row of z> is linear in x, z and the factors. Its
// derivatives are bag_sums (by z, and by x with the bags transposed) and bag_dots (by the factors).
// So the gradients of both ops are made of these two, and can be differentiated any number of
// times.
#include "lathe/ops/bag_sums.h"

#include "lathe/autograd/record.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;

namespace {

class SavedBags {
 public:
  explicit SavedBags(const Bags& bags)
      : begins_(bags.begins),
        row_(bags.row),
        number_(bags.number),
        rows_(bags.rows),
        factors_(bags.factors) {}

  Bags get() const { return {begins_.get(), row_.get(), number_.get(), rows_, factors_}; }

 private:
  Saved begins_, row_, number_;
  int64_t rows_, factors_;
};

/// How many entries each bag has, i64 [B,1].
Tensor sizes_of(const Bags& bags) {
  const int64_t count = bags.count();
  return unsqueeze(sub(narrow(bags.begins, 0, 1, count), narrow(bags.begins, 0, 0, count)), 1);
}

/// y[number[j]] = <x[row[j]], z[b]>: see cpu::bag_dots().
Tensor bag_dots(const Tensor& x, const Tensor& z, const Bags& bags) {
  const Tensor y = empty({bags.factors}, {.dtype = z.dtype()});
  cpu::bag_dots(y, contiguous(x.detach()), contiguous(z.detach()), bags);
  autograd::record(
      "bag_dots", y, {x, z},
      [x = Saved(x), z = Saved(z), saved = SavedBags(bags)](const Tensor& dy, const Needs& need) {
        const Bags all = saved.get();
        Tensor dx, dz;
        if (need[0]) {
          dx = cast(bag_sums(z.get(), dy, cpu::transposed(all)), x.get().dtype());
        }
        if (need[1]) dz = bag_sums(x.get(), dy, all);
        return Tensors{dx, dz};
      });
  return y;
}

/// dy [B,E] added to the rows `at` (i64 [B,E]) of a table, in each column.
Tensor added_to_rows(const Tensor& dy, const Tensor& at, int64_t rows) {
  const Tensor y = empty({rows, dy.dim(1)}, {.dtype = dy.dtype()});
  cpu::scatter_sum(y, dy.detach(), 0, at);
  autograd::record("scatter_sum", y, {dy}, [at = Saved(at)](const Tensor& g, const Needs&) {
    return Tensors{gather(g, 0, at.get())};
  });
  return y;
}

}  // namespace

Tensor bag_sums(const Tensor& x, const Tensor& factors, const Bags& bags, bool means) {
  const Tensor y = empty({bags.count(), x.dim(1)}, {.dtype = compute_dtype(x.dtype())});
  cpu::bag_sums(y, contiguous(x.detach()),
                factors.defined() ? contiguous(factors.detach()) : factors, bags, means);
  autograd::record(
      "bag_sums", y, {x, factors},
      [x = Saved(factors.defined() ? x : Tensor()), factors = Saved(factors),
       saved = SavedBags(bags), means, dtype = x.dtype()](const Tensor& dy_in, const Needs& need) {
        const Bags all = saved.get();
        Tensor dy = dy_in, dx, df;
        if (means) dy = div(dy, cast(clamp(sizes_of(all), {.low = 1}), dy.dtype()));
        if (need[0]) dx = cast(bag_sums(dy, factors.get(), cpu::transposed(all)), dtype);
        if (need[1]) df = bag_dots(x.get(), dy, all);
        return Tensors{dx, df};
      });
  return y;
}

Tensor bag_maxima(const Tensor& x, const Bags& bags) {
  const Tensor y = empty({bags.count(), x.dim(1)}, {.dtype = x.dtype()});
  const autograd::TensorRef inputs[] = {x};
  const bool records = autograd::wants_record(inputs, 1);
  const Tensor at = records ? empty(y.shape(), {.dtype = kI64}) : Tensor();
  cpu::bag_maxima(y, at, contiguous(x.detach()), bags);
  const Tensor empty_bags = records ? eq(sizes_of(bags), 0) : Tensor();
  autograd::record("bag_maxima", y, {x},
                   [at = Saved(at), empty_bags = Saved(empty_bags), rows = bags.rows](
                       const Tensor& dy, const Needs&) {
                     const Tensor ours = masked_fill(dy, empty_bags.get(), 0);
                     const Tensor wide = cast(ours, compute_dtype(dy.dtype()));
                     return Tensors{cast(added_to_rows(wide, at.get(), rows), dy.dtype())};
                   });
  return y;
}

}  // namespace lathe
