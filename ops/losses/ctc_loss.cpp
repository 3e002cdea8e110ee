// ctc_loss: the forward algorithm, one step of all sequences after another. Contract: ctc_loss.h.
#include "lathe/ops/losses/ctc_loss.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/arithmetic.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

using Lengths = std::vector<int64_t>;
constexpr double kImpossible = -std::numeric_limits<double>::infinity();  // the logarithm of 0

void check_lengths(const char* name, const Lengths& lengths, int64_t count, int64_t most) {
  LATHE_CHECK(ShapeError, static_cast<int64_t>(lengths.size()) == count, "ctc_loss: there are ",
              lengths.size(), " ", name, " for ", count, " sequences");
  for (size_t i = 0; i < lengths.size(); ++i) {
    LATHE_CHECK(ValueError, lengths[i] >= 0 && lengths[i] <= most, "ctc_loss: ", name, "[", i,
                "] must be in [0, ", most, "], got ", lengths[i]);
  }
}

/// The targets as [N,S], filled up with `blank`.
Tensor target_rows(const Tensor& targets, const Lengths& lengths, int64_t blank) {
  if (targets.ndim() == 2) return cast(targets, kI64);
  const int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  Tensors rows;
  int64_t first = 0;
  for (const int64_t length : lengths) {
    rows.push_back(
        pad(narrow(cast(targets, kI64), 0, first, length), {0, longest - length}, blank));
    first += length;
  }
  return stack(rows);
}

/// The labels with a blank before, between and behind them: [N,2S+1].
Tensor with_blanks(const Tensor& rows, int64_t blank) {
  const Tensor blanks = full(rows.shape(), blank, {.dtype = kI64, .device = rows.device()});
  const Tensor pairs = reshape(stack({blanks, rows}, 2), {rows.dim(0), 2 * rows.dim(1)});
  return pad(pairs, {0, 1}, blank);
}

/// x moved by `count` places to the right; `fill` comes in.
Tensor shifted(const Tensor& x, int64_t count, Scalar fill) {
  const int64_t kept = std::max<int64_t>(x.dim(-1) - count, 0);
  return pad(narrow(x, -1, 0, kept), {x.dim(-1) - kept, 0}, fill);
}

}  // namespace

Tensor ctc_loss(const Tensor& logp_in, const Tensor& targets, const Lengths& input_lengths,
                const Lengths& target_lengths, const CtcOptions& opt) {
  const profile::OpRange range("ctc_loss", {logp_in, targets});
  const Tensor cast_in = amp::cast(amp::kFloat, logp_in);
  check_floating("ctc_loss", cast_in);
  LATHE_CHECK(DTypeError, targets.dtype() == kI64 || targets.dtype() == kI32,
              "ctc_loss: targets must be i64 or i32 (targets: ", targets, ")");
  LATHE_CHECK(DeviceError, targets.device() == cast_in.device(),
              "ctc_loss: targets are on another device (logp: ", logp_in, ", targets: ", targets,
              ")");
  const bool one = cast_in.ndim() == 2;
  const Tensor logp = cast(one ? unsqueeze(cast_in, 1) : cast_in, compute_dtype(cast_in.dtype()));
  LATHE_CHECK(ShapeError,
              logp.ndim() == 3 && logp.dim(0) > 0 && logp.dim(2) > 0 &&
                  (targets.ndim() == 1 || (targets.ndim() == 2 && targets.dim(0) == logp.dim(1))),
              "ctc_loss: logp must be [T,N,C] or [T,C], with T and C above 0, and targets [N,S] or "
              "one after another (logp: ",
              logp_in, ", targets: ", targets, ")");
  const int64_t steps = logp.dim(0), count = logp.dim(1), classes = logp.dim(2);
  LATHE_CHECK(ValueError, opt.blank >= 0 && opt.blank < classes, "ctc_loss: blank must be in [0, ",
              classes, "), got ", opt.blank);
  check_lengths("input_lengths", input_lengths, count, steps);
  check_lengths("target_lengths", target_lengths, count, targets.dim(-1));
  LATHE_CHECK(ShapeError,
              targets.ndim() == 2 || std::accumulate(target_lengths.begin(), target_lengths.end(),
                                                     int64_t{0}) == targets.numel(),
              "ctc_loss: targets must have as many elements as target_lengths add up to (targets: ",
              targets, ")");
  if (count == 0)
    return reduce_losses(zeros({0}, {.dtype = logp.dtype(), .device = logp.device()}),
                         opt.reduction);

  const TensorOptions whole{.dtype = kI64, .device = logp.device()};
  const Tensor inputs = tensor(input_lengths, whole), lengths = tensor(target_lengths, whole);
  const Tensor rows = target_rows(targets, target_lengths, opt.blank);
  // What stands behind a target does not count, whatever it is.
  const Tensor counted = lt(arange(rows.dim(1), whole), unsqueeze(lengths, 1));
  const Tensor labels = with_blanks(where(counted, rows, opt.blank), opt.blank);
  check_index("ctc_loss", labels, classes);
  const int64_t width = labels.dim(1);
  // A label may follow the one before it directly, unless they are equal.
  const Tensor skips =
      logical_and(ne(labels, opt.blank), ne(labels, shifted(labels, 2, opt.blank)));
  const Tensor scores = gather(logp, 2, expand(unsqueeze(labels, 0), {steps, count, width}));
  const Tensor places = arange(width, whole);
  Tensor alpha = where(lt(places, 2), select(scores, 0, 0), kImpossible);
  for (int64_t t = 1; t < steps; ++t) {
    const Tensor stays = logaddexp(alpha, shifted(alpha, 1, kImpossible));
    const Tensor next =
        add(logaddexp(stays, where(skips, shifted(alpha, 2, kImpossible), kImpossible)),
            select(scores, 0, t));
    alpha = where(unsqueeze(lt(inputs, t + 1), 1), alpha, next);
  }
  // The sequence ends with its last label or with the blank behind it.
  const auto last = [&](int64_t before) {
    const Tensor place = sub(mul(lengths, 2), before);
    const Tensor at = gather(alpha, 1, unsqueeze(clamp(place, 0, width - 1), 1));
    return where(lt(place, 0), kImpossible, squeeze(at, 1));
  };
  Tensor loss = neg(logaddexp(last(0), last(1)));
  // Without a step only an empty target fits.
  const Tensor no_step = eq(inputs, 0);
  loss = where(no_step, where(eq(lengths, 0), 0.0, zeros_like(loss) - kImpossible), loss);
  if (opt.zero_infinity) loss = where(isinf(loss.detach()), 0, loss);
  loss = cast(loss, cast_in.dtype());
  if (opt.reduction == Reduction::kMean) loss = div(loss, clamp(lengths, 1, INT64_MAX));
  return reduce_losses(one && opt.reduction == Reduction::kNone ? squeeze(loss, 0) : loss,
                       opt.reduction);
}

}  // namespace lathe
