// Operators along dimensions: sums, norms, extremes, order, softmax.
// Contract: pt2_call.h.
#include <cmath>

#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/counting.h"
#include "lathe/ops/cumprod.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/distance.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/searchsorted.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/statistics.h"
#include "lathe/ops/views.h"

namespace lathe::jit::pt2 {

namespace {

/// "self", converted if the call asks for a dtype.
Tensor self_as_asked(Call& c) {
  const Tensor x = c.self();
  return x.to(c.dtype("dtype", x.dtype()));
}

template <Tensor (*op)(const Tensor&, const Dims&, ReduceOptions)>
void reduced(Call& c) {
  c.result(op(self_as_asked(c), c.dims("dim", {}), {.keepdim = c.boolean("keepdim", false)}));
}

VarOptions var_options(Call& c) {
  VarOptions o{.keepdim = c.boolean("keepdim", false)};
  o.unbiased = c.boolean("unbiased", true);
  if (c.has("correction")) {
    const double correction = c.real("correction");
    if (correction != std::floor(correction))
      c.refuse(concat("has the correction ", correction, ", which is no integer"));
    o.correction = static_cast<int64_t>(correction);
  }
  return o;
}
/// any and all over no dimension: of each element alone.
template <Tensor (*op)(const Tensor&, const Dims&, ReduceOptions)>
void over_dims(Call& c) {
  if (c.has("dim") && c.dims("dim").empty()) return c.result(ne(c.tensor("self"), 0));
  reduced<op>(c);
}

template <Tensor (*op)(const Tensor&, const Dims&, VarOptions)>
void varied(Call& c) {
  c.result(op(c.tensor("self"), c.dims("dim", {}), var_options(c)));
}

void vector_norm_of(Call& c) {
  c.result(vector_norm(self_as_asked(c), c.real("ord", 2.0), c.dims("dim", {}),
                       {.keepdim = c.boolean("keepdim", false)}));
}

template <Tensor (*op)(const Tensor&, int64_t)>
void along(Call& c) {
  c.result(op(self_as_asked(c), c.integer("dim")));
}

template <ValuesAndIndices (*op)(const Tensor&, int64_t, ReduceOptions)>
void largest(Call& c) {
  const auto [values, indices] =
      op(c.tensor("self"), c.integer("dim"), {.keepdim = c.boolean("keepdim", false)});
  c.results({values, indices});
}

/// The largest or the smallest of all elements.
template <Tensor (*op)(const Tensor&, const Dims&, ReduceOptions)>
void extreme_of_all(Call& c) {
  c.result(op(c.tensor("self"), {}, {}));
}

template <Tensor (*along)(const Tensor&, int64_t, ReduceOptions),
          Tensor (*of_all)(const Tensor&, ReduceOptions)>
void place(Call& c) {
  const ReduceOptions options{.keepdim = c.boolean("keepdim", false)};
  const Tensor self = c.tensor("self");
  c.result(c.has("dim") ? along(self, c.integer("dim"), options) : of_all(self, options));
}

/// The variance or standard deviation, and the mean.
template <Tensor (*op)(const Tensor&, const Dims&, VarOptions)>
void with_mean(Call& c) {
  const Tensor self = c.tensor("self");
  const Dims dims = c.dims("dim", {});
  const VarOptions o = var_options(c);
  c.results({op(self, dims, o), mean(self, dims, {.keepdim = o.keepdim})});
}

/// torch.norm(): the norm of order p, or Frobenius's if there is none.
void norm_of(Call& c) {
  c.result(vector_norm(self_as_asked(c), c.real("p", 2.0), c.dims("dim", {}),
                       {.keepdim = c.boolean("keepdim", false)}));
}

void prod_of(Call& c) {
  const Tensor self = self_as_asked(c);
  if (!c.has("dim")) return c.result(prod(self));
  c.result(prod(self, c.dims("dim"), {.keepdim = c.boolean("keepdim", false)}));
}

void count_nonzero_of(Call& c) { c.result(count_nonzero(c.tensor("self"), c.dims("dim", {}))); }

void sort_of(Call& c) {
  const auto [values, indices] =
      sort(c.tensor("self"), c.integer("dim", -1), {.descending = c.boolean("descending", false)});
  c.results({values, indices});
}
void argsort_of(Call& c) {
  c.result(argsort(c.tensor("self"), c.integer("dim", -1),
                   {.descending = c.boolean("descending", false)}));
}
void topk_of(Call& c) {
  const auto [values, indices] = topk(c.tensor("self"), c.integer("k"), c.integer("dim", -1),
                                      {.largest = c.boolean("largest", true)});
  c.results({values, indices});
}

/// Values and indices of an operator with the arguments "dim" and "keepdim".
void results_of(Call& c, const ValuesAndIndices& r) { c.results({r.values, r.indices}); }
ReduceOptions keepdim_of(Call& c) { return {.keepdim = c.boolean("keepdim", false)}; }

void kthvalue_of(Call& c) {
  results_of(c, kthvalue(c.tensor("self"), c.integer("k"), c.integer("dim", -1), keepdim_of(c)));
}
void median_of(Call& c) {
  const Tensor self = c.tensor("self");
  if (!c.has("dim")) return c.result(median(self));
  results_of(c, median(self, c.integer("dim"), keepdim_of(c)));
}
template <ValuesAndIndices (*op)(const Tensor&, int64_t)>
void extreme_so_far(Call& c) {
  results_of(c, op(c.tensor("self"), c.integer("dim")));
}

void quantile_of(Call& c) {
  QuantileOptions o{.keepdim = c.boolean("keepdim", false)};
  if (c.has("dim")) o.dim = c.integer("dim");
  const std::string mode = c.word("interpolation", "linear");
  if (mode == "lower")
    o.interpolation = QuantileMode::kLower;
  else if (mode == "higher")
    o.interpolation = QuantileMode::kHigher;
  else if (mode == "midpoint")
    o.interpolation = QuantileMode::kMidpoint;
  else if (mode == "nearest")
    o.interpolation = QuantileMode::kNearest;
  else if (mode != "linear")
    c.refuse(concat("has the interpolation \"", mode, "\", which is not known"));
  const Tensor self = c.tensor("self");
  c.result(c.is_tensor("q") ? quantile(self, c.tensor("q"), o) : quantile(self, c.real("q"), o));
}

/// Places among sorted numbers.
SearchOptions search_options(Call& c) {
  if (c.has("sorter")) c.refuse("takes the order of its numbers, which is not supported");
  return {.right = c.boolean("right", false) || c.word("side", "left") == "right"};
}
void placed(Call& c, const Tensor& places) {
  c.result(c.boolean("out_int32", false) ? places.to(kI32) : places);
}
void searchsorted_of(Call& c) {
  placed(c, searchsorted(c.tensor("sorted_sequence"), c.tensor("self"), search_options(c)));
}
void bucketize_of(Call& c) {
  placed(c, bucketize(c.tensor("self"), c.tensor("boundaries"), search_options(c)));
}

using enum Kind;

// clang-format off
constexpr Target kReductions[] = {
    {"aten.softmax.int", along<softmax>}, {"aten.log_softmax.int", along<log_softmax>},
    {"aten.mean.dim", reduced<mean>}, {"aten.mean.default", reduced<mean>}, {"aten.sum.dim_IntList", reduced<sum>}, {"aten.sum.default", reduced<sum>},
    {"aten.amax.default", reduced<amax>}, {"aten.amin.default", reduced<amin>}, {"aten.logsumexp.default", reduced<logsumexp>},
    {"aten.any.dim", reduced<any>}, {"aten.all.dim", reduced<all>}, {"aten.any.default", reduced<any>}, {"aten.all.default", reduced<all>}, {"aten.any.dims", over_dims<any>}, {"aten.all.dims", over_dims<all>},
    {"aten.var.correction", varied<var>}, {"aten.var.dim", varied<var>}, {"aten.std.correction", varied<lathe::std>}, {"aten.std.dim", varied<lathe::std>},
    {"aten.linalg_vector_norm.default", vector_norm_of}, {"aten.max.dim", largest<max>}, {"aten.min.dim", largest<min>},
    {"aten.max.default", extreme_of_all<amax>}, {"aten.min.default", extreme_of_all<amin>}, {"aten.argmax.default", place<argmax, argmax>}, {"aten.argmin.default", place<argmin, argmin>},
    {"aten.var.default", varied<var>}, {"aten.std.default", varied<lathe::std>}, {"aten.var_mean.correction", with_mean<var>}, {"aten.std_mean.correction", with_mean<lathe::std>}, {"aten.var_mean.dim", with_mean<var>}, {"aten.std_mean.dim", with_mean<lathe::std>}, {"aten.var_mean.default", with_mean<var>}, {"aten.std_mean.default", with_mean<lathe::std>},
    {"aten.norm.Scalar", norm_of}, {"aten.norm.ScalarOpt_dim", norm_of}, {"aten.prod.default", prod_of}, {"aten.prod.dim_int", prod_of}, {"aten.count_nonzero.default", count_nonzero_of}, {"aten.count_nonzero.dim_IntList", count_nonzero_of},
    {"aten.cumsum.default", along<cumsum>}, {"aten.cumprod.default", along<cumprod>},
    {"aten.sort.default", sort_of}, {"aten.sort.stable", sort_of}, {"aten.argsort.default", argsort_of}, {"aten.topk.default", topk_of},
    {"aten.kthvalue.default", kthvalue_of}, {"aten.median.default", median_of}, {"aten.median.dim", median_of}, {"aten.cummax.default", extreme_so_far<cummax>}, {"aten.cummin.default", extreme_so_far<cummin>},
    {"aten.searchsorted.Tensor", searchsorted_of}, {"aten.bucketize.Tensor", bucketize_of}, {"aten.histc.default", [](Call& c) { c.result(histc(c.tensor("self"), {.bins = c.integer("bins", 100), .low = c.real("min", 0.0), .high = c.real("max", 0.0)})); }},
    {"aten.bincount.default", [](Call& c) { c.result(bincount(c.tensor("self"), {.weights = c.maybe("weights"), .min_length = c.integer("minlength", 0)})); }},
    {"aten.quantile.default", quantile_of}, {"aten.quantile.scalar", quantile_of},
};
// clang-format on

}  // namespace

std::span<const Target> reduction_targets() { return kReductions; }

}  // namespace lathe::jit::pt2
