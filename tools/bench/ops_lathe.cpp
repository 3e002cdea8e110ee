// Times of single ops on one thread, for compare_ops.py, which has the same table in PyTorch. Reads
// lines "op elements" and answers each with the microseconds of one call, the least of a window.
#include <lathe/lathe.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <string>

namespace {

using lathe::kBool;
using lathe::kF32;
using lathe::kI64;
using lathe::Slice;
using lathe::Tensor;
using Call = std::function<void()>;

/// Operands of about n elements: a square matrix, the same as images [1,4,…], and a vector.
struct Operands {
  explicit Operands(int64_t n)
      : side(static_cast<int64_t>(std::sqrt(static_cast<double>(n)))),
        half(static_cast<int64_t>(std::sqrt(static_cast<double>(n) / 4))) {}
  int64_t side, half;
  Tensor x = lathe::randn({side, side}), y = lathe::randn({side, side});
  Tensor positive = lathe::rand({side, side}) + 0.5, mask = x > 0;
  Tensor images = lathe::randn({1, 4, half, half}), vector = lathe::randn({side * side});
  Tensor columns = lathe::randint(0, side, {side}), places = lathe::randint(0, side, {side, side});
  Tensor whole = lathe::randint(0, 1000, {side * side}), three = lathe::tensor({0, 1, 2});
  Tensor points = lathe::randn({side, 32}), rows = lathe::randn({side});
};

template <class F>
Call call(F f) {
  return [f] { static_cast<void>(f()); };
}

Call op_of(const std::string& name, const Operands& o) {
  const Tensor &x = o.x, &y = o.y, &p = o.positive;
  using F = std::function<Call()>;
  const std::map<std::string, F> ops = {
      {"add", [&] { return call([=] { return x + y; }); }},
      {"add transposed", [&] { return call([=] { return x + y.t(); }); }},
      {"add row", [&] { return call([=, r = o.rows] { return x + r; }); }},
      {"mul", [&] { return call([=] { return x * y; }); }},
      {"div", [&] { return call([=] { return x / p; }); }},
      {"pow", [&] { return call([=] { return pow(p, x); }); }},
      {"maximum", [&] { return call([=] { return maximum(x, y); }); }},
      {"gt", [&] { return call([=] { return x > y; }); }},
      {"remainder", [&] { return call([=] { return remainder(x, p); }); }},
      {"atan2", [&] { return call([=] { return atan2(x, y); }); }},
      {"where", [&] { return call([=, m = o.mask] { return where(m, x, y); }); }},
      {"masked_fill", [&] { return call([=, m = o.mask] { return masked_fill(x, m, 0.5); }); }},
      {"clamp", [&] { return call([=] { return clamp(x, -1, 1); }); }},
      {"exp", [&] { return call([=] { return exp(x); }); }},
      {"log", [&] { return call([=] { return log(p); }); }},
      {"sqrt", [&] { return call([=] { return sqrt(p); }); }},
      {"sin", [&] { return call([=] { return sin(x); }); }},
      {"tanh", [&] { return call([=] { return tanh(x); }); }},
      {"sigmoid", [&] { return call([=] { return sigmoid(x); }); }},
      {"gelu", [&] { return call([=] { return gelu(x); }); }},
      {"silu", [&] { return call([=] { return silu(x); }); }},
      {"softplus", [&] { return call([=] { return softplus(x); }); }},
      {"mish", [&] { return call([=] { return mish(x); }); }},
      {"floor", [&] { return call([=] { return floor(x); }); }},
      {"clone", [&] { return call([=] { return clone(x); }); }},
      {"transposed copy", [&] { return call([=] { return x.t().contiguous(); }); }},
      {"sum", [&] { return call([=] { return sum(x); }); }},
      {"sum rows", [&] { return call([=] { return sum(x, {1}); }); }},
      {"sum columns", [&] { return call([=] { return sum(x, {0}); }); }},
      {"mean", [&] { return call([=] { return mean(x); }); }},
      {"var", [&] { return call([=] { return var(x, {1}); }); }},
      {"amax", [&] { return call([=] { return amax(x, {1}); }); }},
      {"argmax", [&] { return call([=] { return argmax(x, 1); }); }},
      {"prod", [&] { return call([=] { return prod(x, {1}); }); }},
      {"norm", [&] { return call([=] { return norm(x); }); }},
      {"all", [&] { return call([=, m = o.mask] { return all(m); }); }},
      {"logsumexp", [&] { return call([=] { return logsumexp(x, {1}); }); }},
      {"softmax", [&] { return call([=] { return softmax(x, 1); }); }},
      {"log_softmax", [&] { return call([=] { return log_softmax(x, 1); }); }},
      {"cumsum", [&] { return call([=] { return cumsum(x, 1); }); }},
      {"cumprod", [&] { return call([=] { return cumprod(x, 1); }); }},
      {"sort", [&] { return call([=] { return sort(x, 1).values; }); }},
      {"topk", [&] { return call([=] { return topk(x, 5, 1).values; }); }},
      {"unique", [&] { return call([=, w = o.whole] { return unique(w).values; }); }},
      {"bincount", [&] { return call([=, w = o.whole] { return bincount(w); }); }},
      {"nonzero", [&] { return call([=, m = o.mask] { return nonzero(m); }); }},
      {"masked_select", [&] { return call([=, m = o.mask] { return masked_select(x, m); }); }},
      {"index_select rows",
       [&] { return call([=, c = o.columns] { return index_select(x, 0, c); }); }},
      {"index_select columns",
       [&] { return call([=, c = o.columns] { return index_select(x, 1, c); }); }},
      {"index column", [&] { return call([=] {
                               return clone(x.index({Slice(), 2}));
                             }); }},
      {"index columns", [&] { return call([=, c = o.columns] {
                                return x.index({Slice(), c});
                              }); }},
      {"index_put_", [&] { return call([=, c = o.three] { return x.index_put_({c}, 1.0); }); }},
      {"gather", [&] { return call([=, at = o.places] { return gather(x, 1, at); }); }},
      {"scatter_add",
       [&] { return call([=, at = o.places] { return scatter_add(x, 1, at, y); }); }},
      {"scatter", [&] { return call([=, at = o.places] { return scatter(x, 1, at, y); }); }},
      {"index_add", [&] { return call([=, c = o.columns] { return index_add(x, 0, c, y); }); }},
      {"take", [&] { return call([=, w = o.whole] { return take(x, w % x.numel()); }); }},
      {"flip", [&] { return call([=] { return flip(x, {1}); }); }},
      {"flip rows", [&] { return call([=] { return flip(x, {0}); }); }},
      {"roll", [&] { return call([=] { return roll(x, 3, 1); }); }},
      {"cat", [&] { return call([=] {
                      return lathe::cat({x, y}, 1);
                    }); }},
      {"stack", [&] { return call([=] {
                        return lathe::stack({x, y}, 2);
                      }); }},
      {"tril", [&] { return call([=] { return tril(x); }); }},
      {"repeat", [&] { return call([=] {
                         return repeat(x, {1, 2});
                       }); }},
      {"repeat_interleave", [&] { return call([=] { return repeat_interleave(x, 2, 1); }); }},
      {"pad", [&] { return call([=, i = o.images] {
                      return pad(i, {2, 2, 2, 2});
                    }); }},
      {"pad reflect",
       [&] {
         return call([=, i = o.images] { return pad(i, {2, 2, 2, 2}, lathe::PadMode::kReflect); });
       }},
      {"pixel_shuffle", [&] { return call([=, i = o.images] { return pixel_shuffle(i, 2); }); }},
      {"upsample nearest",
       [&] { return call([=, i = o.images] { return upsample(i, {.scale = 2}); }); }},
      {"upsample bilinear",
       [&] {
         return call([=, i = o.images] {
           return upsample(i, {.scale = 2, .mode = lathe::UpsampleMode::kBilinear});
         });
       }},
      {"avg_pool2d",
       [&] { return call([=, i = o.images] { return avg_pool2d(i, {.kernel = 2}); }); }},
      {"max_pool2d",
       [&] { return call([=, i = o.images] { return max_pool2d(i, {.kernel = 2}); }); }},
      {"dot", [&] { return call([=, v = o.vector] { return matmul(v, v); }); }},
      {"einsum ij,ij->", [&] { return call([=] {
                                 return lathe::einsum("ij,ij->", {x, y});
                               }); }},
      {"cdist", [&] { return call([=, q = o.points] { return cdist(q, q, 2); }); }},
      {"mse_loss", [&] { return call([=] { return mse_loss(x, y); }); }},
      {"l1_loss", [&] { return call([=] { return l1_loss(x, y); }); }},
      {"smooth_l1_loss", [&] { return call([=] { return smooth_l1_loss(x, y); }); }},
      {"huber_loss", [&] { return call([=] { return huber_loss(x, y); }); }},
      {"bce_with_logits",
       [&] { return call([=, t = cast(o.mask, kF32)] { return bce_with_logits(x, t); }); }},
      {"cross_entropy", [&] { return call([=, c = o.columns] { return cross_entropy(x, c); }); }},
      {"layer_norm", [&] { return call([=] { return layer_norm(x, {x.dim(1)}); }); }},
      {"cast f64", [&] { return call([=] { return cast(x, lathe::kF64); }); }},
      {"cast bf16", [&] { return call([=] { return cast(x, lathe::kBF16); }); }},
      {"randn", [&] { return call([=] { return lathe::randn(x.shape()); }); }},
      {"rand", [&] { return call([=] { return lathe::rand(x.shape()); }); }},
  };
  const auto found = ops.find(name);
  return found == ops.end() ? Call() : found->second();
}

/// The least time of a call in a window of 20 ms, three calls at least; in microseconds.
double least(const Call& f) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(20);
  double best = 1e30;
  for (int i = 0; i < 3 || Clock::now() < end; ++i) {
    const auto start = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main() {
  lathe::set_num_threads(1);
  const lathe::NoGrad off;
  std::map<int64_t, Operands> operands;
  for (std::string line; std::getline(std::cin, line);) {
    const size_t space = line.rfind(' ');
    const int64_t n = std::stoll(line.substr(space + 1));
    const Call f = op_of(line.substr(0, space), operands.try_emplace(n, n).first->second);
    std::cout << (f ? least(f) : -1.0) << std::endl;
  }
}
