// Operators that rearrange, choose and make elements.
// Contract: pt2_call.h.
#include <algorithm>

#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/index.h"
#include "lathe/ops/indexing.h"
#include "lathe/ops/join.h"
#include "lathe/ops/nonzero.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/random.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/scatter.h"
#include "lathe/ops/scatter_reduce.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/views.h"
#include "lathe/ops/windows.h"

namespace lathe::jit::pt2 {

namespace {

// --- views ---------------------------------------------------------------------------------------

void unflatten(Call& c) {
  const Tensor x = c.tensor("self");
  const int dim = wrap_dim("unflatten", c.integer("dim"), x.ndim());
  Shape shape;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d != dim) {
      shape.push_back(x.dim(d));
      continue;
    }
    for (const int64_t size : c.dims("sizes")) shape.push_back(size);
  }
  c.result(reshape(x, shape));
}

void squeeze_of(Call& c) {
  const Tensor x = c.tensor("self");
  if (!c.has("dim")) return c.result(squeeze(x));
  uint32_t mask = 0;
  for (const int64_t dim : c.dims("dim")) mask |= 1u << wrap_dim("squeeze", dim, x.ndim());
  Tensor y = x;
  for (int d = x.ndim() - 1; d >= 0; --d) {
    if ((mask >> d & 1) != 0) y = squeeze(y, d);
  }
  c.result(y);
}

void slice_of(Call& c) {
  c.result(slice(c.tensor("self"), c.integer("dim", 0), c.integer("start", 0),
                 c.integer("end", INT64_MAX), c.integer("step", 1)));
}

void split_sizes(Call& c) {
  c.results(split(c.tensor("self"), c.integers("split_sizes"), c.integer("dim", 0)));
}

/// Another dtype, on the program's device.
void to(Call& c) {
  const Tensor x = c.tensor("self");
  const Tensor y = x.to(c.setting().device, c.dtype("dtype", x.dtype()));
  const Tensor kept = c.has("memory_format") ? y.contiguous(c.format("memory_format", y)) : y;
  c.result(kept.is_same(x) && c.boolean("copy", false) ? clone(x) : kept);
}

/// True for the channels of NHWC images as a matrix, in either order: x [N,A,B,H,W].
bool is_matrix_of_channels(const Tensor& x) {
  return x.ndim() == 5 && std::min(x.stride(1), x.stride(2)) == 1 && x.dim(1) * x.dim(2) > 1 &&
         x.stride(4) >= x.dim(1) * x.dim(2);
}

/// A copy of such a matrix, whose pixels stay whole. The gradient is one, too.
Tensor copy_of_channels(const Tensor& x) {
  const Shape& size = x.shape();
  const int64_t channels = size[1] * size[2];
  const Strides strides{size[4] * size[3] * channels, size[2], 1, size[4] * channels, channels};
  const Tensor y = empty_strided(size, strides, x.dtype(), x.device());
  const int few = size[1] < size[2] ? 1 : 2;  // the inner loop goes over the others
  const Tensor from = x.detach();
  for (int64_t i = 0; i < size[few]; ++i) copy_values(select(y, few, i), select(from, few, i));
  autograd::record("contiguous", y, {x}, [](const Tensor& dy, const autograd::Needs&) {
    return Tensors{transpose(copy_of_channels(transpose(dy, 1, 2)), 1, 2)};
  });
  return y;
}

/// Row-major, but for the middle of a channel shuffle of NHWC images: they remain NHWC, though
/// PyTorch's do not.
void contiguous_of(Call& c) {
  const Tensor x = c.tensor("self");
  if (c.has("memory_format")) return c.result(contiguous(x, c.format("memory_format", x)));
  // A watcher is to see an op. What is written into must have PyTorch's views.
  const bool stays = is_matrix_of_channels(x) && !profile::watched() && !c.is_shared();
  c.result(stays ? copy_of_channels(x) : contiguous(x));
}

void to_other(Call& c) {
  const Tensor other = c.tensor("other");
  c.result(c.tensor("self").to(other.device(), other.dtype()));
}

// --- rearrangements ------------------------------------------------------------------------------

void pad_of(Call& c) {
  const Tensor x = c.tensor("self");
  const std::vector<int64_t> amounts = c.integers("pad");
  const std::string mode = c.word("mode", "constant");
  if (mode == "constant") return c.result(pad(x, amounts, c.number_in(x, "value", 0)));
  if (mode == "reflect") return c.result(pad(x, amounts, PadMode::kReflect));
  if (mode == "replicate") return c.result(pad(x, amounts, PadMode::kReplicate));
  if (mode == "circular") return c.result(pad(x, amounts, PadMode::kCircular));
  c.refuse(concat("has the mode \"", mode, "\", which is not known"));
}

void roll_of(Call& c) {
  const Dims dims = c.dims("dims", {});
  const Dims shifts = c.dims("shifts");
  if (!dims.empty()) return c.result(roll(c.tensor("self"), shifts, dims));
  if (shifts.size() != 1) c.refuse("has several shifts, but no dimensions");
  c.result(roll(c.tensor("self"), shifts[0]));
}

/// x[..., i + 1] - x[..., i], `n` times.
void diff(Call& c) {
  const int64_t dim = c.integer("dim", -1);
  if (c.integer("n", 1) == 0) return c.result(c.tensor("self").clone());
  Tensors parts;
  if (c.has("prepend")) parts.push_back(c.tensor("prepend"));
  parts.push_back(c.tensor("self"));
  if (c.has("append")) parts.push_back(c.tensor("append"));
  Tensor x = parts.size() == 1 ? parts[0] : cat(parts, dim);
  for (int64_t i = 0; i < c.integer("n", 1) && x.dim(dim) > 0; ++i) {
    const Tensor after = slice(x, dim, 1), before = slice(x, dim, 0, x.dim(dim) - 1);
    x = x.dtype() == kBool ? ne(after, before) : sub(after, before);
  }
  c.result(x);
}

void index_of(Call& c) {
  std::vector<TensorIndex> entries;
  for (const Tensor& index : c.tensors("indices")) {
    entries.push_back(index.defined() ? TensorIndex(index) : TensorIndex(Slice()));
  }
  c.result(index(c.tensor("self"), std::span<const TensorIndex>(entries)));
}

void index_put_of(Call& c) {
  const Tensors indices = c.tensors("indices");
  for (const Tensor& index : indices) {
    if (!index.defined())
      c.refuse("leaves out a dimension before an index, which is not supported");
  }
  c.result(index_put(c.tensor("self"), indices, c.tensor("values"),
                     {.accumulate = c.boolean("accumulate", false)}));
}

void scatter_of(Call& c) {
  const Tensor self = c.tensor("self"), index = c.tensor("index");
  const int64_t dim = c.integer("dim");
  if (c.has("src")) return c.result(scatter(self, dim, index, c.tensor("src")));
  c.result(scatter(self, dim, index, c.number_in(self, "value")));
}

void scatter_reduce_of(Call& c) {
  const std::string word = c.word("reduce", "");
  constexpr std::pair<std::string_view, ScatterReduction> kScattered[] = {
      {"sum", ScatterReduction::kSum},
      {"prod", ScatterReduction::kProd},
      {"mean", ScatterReduction::kMean},
      {"amax", ScatterReduction::kAmax},
      {"amin", ScatterReduction::kAmin}};
  for (const auto& [name, reduction] : kScattered) {
    if (name != word) continue;
    return c.result(scatter_reduce(c.tensor("self"), c.integer("dim"), c.tensor("index"),
                                   c.tensor("src"), reduction,
                                   {.include_self = c.boolean("include_self", true)}));
  }
  c.refuse("has an unknown reduction");
}

void meshgrid_of(Call& c) {
  const bool is_xy = c.word("indexing", "ij") == "xy";
  c.results(meshgrid(c.tensors("tensors"), is_xy ? MeshIndexing::kXY : MeshIndexing::kIJ));
}

void broadcast_tensors_of(Call& c) {
  const Tensors given = c.tensors("tensors");
  Shape shape;
  for (const Tensor& t : given)
    shape = lathe::broadcast_shapes("broadcast_tensors", shape, t.shape());
  Tensors out;
  for (const Tensor& t : given) out.push_back(expand(t, shape));
  c.results(out);
}

template <Tensor (*op)(const Tensors&)>
void joined(Call& c) {
  c.result(op(c.tensors("tensors")));
}

/// Images without a batch are one.
template <class F>
void of_images(Call& c, const Tensor& x, int dims, F op) {
  c.result(x.ndim() == dims ? op(x) : squeeze(op(unsqueeze(x, 0)), 0));
}

UnfoldOptions unfold_options(Call& c) {
  return {.kernel = c.pair("kernel_size"),
          .stride = c.pair("stride", 1),
          .pad = c.pair("padding", 0),
          .dilation = c.pair("dilation", 1)};
}

// --- new tensors ---------------------------------------------------------------------------------

/// `like`: the tensor whose dtype a new_… or …_like takes; undefined: the default dtype.
TensorOptions options_of(Call& c, const Tensor& like) {
  const DType natural = like.defined() ? like.dtype() : c.setting().dtype(kF32);
  return {.dtype = c.dtype("dtype", natural), .device = c.setting().device};
}

template <int value>
void filled_new(Call& c) {
  c.result(full(c.dims("size"), value, options_of(c, c.maybe("self"))));
}
template <int value>
void filled_like(Call& c) {
  const Tensor like = c.tensor("self");
  c.result(full(like.shape(), value, options_of(c, like)));
}
void full_of(Call& c) {
  const Tensor like = c.maybe("self");
  TensorOptions options = options_of(c, like);
  const Scalar value = c.number("fill_value");
  if (!like.defined() && !c.has("dtype") && !value.is_floating()) options.dtype = value.dtype();
  c.result(full(c.has("size") ? c.dims("size") : like.shape(), value, options));
}

void arange_of(Call& c) {
  const Scalar start = c.number("start", 0), end = c.number("end"), step = c.number("step", 1);
  const bool real = start.is_floating() || end.is_floating() || step.is_floating();
  const DType natural = real ? c.setting().dtype(kF32) : kI64;
  c.result(
      arange(start, end, step, {.dtype = c.dtype("dtype", natural), .device = c.setting().device}));
}

void linspace_of(Call& c) {
  const DType natural = c.setting().dtype(kF32);
  c.result(linspace(c.real("start"), c.real("end"), c.integer("steps"),
                    {.dtype = c.dtype("dtype", natural), .device = c.setting().device}));
}

void eye_of(Call& c) {
  const int64_t rows = c.integer("n");
  c.result(eye(rows, c.integer("m", rows), options_of(c, {})));
}

// --- random numbers ------------------------------------------------------------------------------

template <Tensor (*op)(const Shape&, const TensorOptions&, Generator*)>
void drawn(Call& c) {
  const Tensor like = c.maybe("self");
  c.result(op(c.has("size") ? Shape(c.dims("size")) : like.shape(), options_of(c, like), nullptr));
}
void bernoulli_of_tensor(Call& c) { c.result(bernoulli(c.tensor("self"))); }

void nothing(Call&) {}

using enum Kind;

// clang-format off
constexpr Target kShapes[] = {
    {"aten.view.default", [](Call& c) { c.result(c.viewed(c.tensor("self"), reshape(c.tensor("self"), c.dims("size")))); }, kView},  // a result may have other strides than PyTorch's
    {"aten.reshape.default", [](Call& c) { c.result(reshape(c.tensor("self"), c.dims("shape"))); }, kView},
    {"aten._unsafe_view.default", [](Call& c) { c.result(reshape(c.tensor("self"), c.dims("size"))); }, kView},
    {"aten.view_as.default", [](Call& c) { c.result(c.viewed(c.tensor("self"), reshape_as(c.tensor("self"), c.tensor("other")))); }, kView},
    {"aten.reshape_as.default", [](Call& c) { c.result(reshape_as(c.tensor("self"), c.tensor("other"))); }, kView},
    {"aten.flatten.using_ints", [](Call& c) { c.result(flatten(c.tensor("self"), c.integer("start_dim", 0), c.integer("end_dim", -1))); }, kView},
    {"aten.unflatten.int", unflatten, kView},
    {"aten.squeeze.default", squeeze_of, kView}, {"aten.squeeze.dim", squeeze_of, kView}, {"aten.squeeze.dims", squeeze_of, kView},
    {"aten.unsqueeze.default", [](Call& c) { c.result(unsqueeze(c.tensor("self"), c.integer("dim"))); }, kView},
    {"aten.transpose.int", [](Call& c) { c.result(transpose(c.tensor("self"), c.integer("dim0"), c.integer("dim1"))); }, kView},
    {"aten.swapaxes.default", [](Call& c) { c.result(transpose(c.tensor("self"), c.integer("axis0"), c.integer("axis1"))); }, kView},
    {"aten.swapdims.default", [](Call& c) { c.result(transpose(c.tensor("self"), c.integer("dim0"), c.integer("dim1"))); }, kView},
    {"aten.t.default", [](Call& c) { c.result(c.tensor("self").t()); }, kView}, {"aten.numpy_T.default", [](Call& c) { c.result(c.tensor("self").t()); }, kView},
    {"aten.permute.default", [](Call& c) { c.result(permute(c.tensor("self"), c.dims("dims"))); }, kView},
    {"aten.movedim.intlist", [](Call& c) { c.result(movedim(c.tensor("self"), c.dims("source"), c.dims("destination"))); }, kView},
    {"aten.movedim.int", [](Call& c) { c.result(movedim(c.tensor("self"), c.integer("source"), c.integer("destination"))); }, kView},
    {"aten.expand.default", [](Call& c) { c.result(expand(c.tensor("self"), c.dims("size"))); }, kView},
    {"aten.expand_as.default", [](Call& c) { c.result(expand_as(c.tensor("self"), c.tensor("other"))); }, kView},
    {"aten.select.int", [](Call& c) { c.result(select(c.tensor("self"), c.integer("dim"), c.integer("index"))); }, kView},
    {"aten.slice.Tensor", slice_of, kView},
    {"aten.narrow.default", [](Call& c) { c.result(narrow(c.tensor("self"), c.integer("dim"), c.integer("start"), c.integer("length"))); }, kView},
    {"aten.chunk.default", [](Call& c) { c.results(chunk(c.tensor("self"), c.integer("chunks"), c.integer("dim", 0))); }, kView},
    {"aten.split.Tensor", [](Call& c) { c.results(split(c.tensor("self"), c.integer("split_size"), c.integer("dim", 0))); }, kView},
    {"aten.split_with_sizes.default", split_sizes, kView}, {"aten.split.sizes", [](Call& c) { c.results(split(c.tensor("self"), c.integers("split_size"), c.integer("dim", 0))); }, kView},
    {"aten.unbind.int", [](Call& c) { c.results(unbind(c.tensor("self"), c.integer("dim", 0))); }, kView},
    {"aten.meshgrid.default", meshgrid_of, kView}, {"aten.meshgrid.indexing", meshgrid_of, kView}, {"aten.broadcast_tensors.default", broadcast_tensors_of, kView},
    {"aten.broadcast_to.default", [](Call& c) { c.result(expand(c.tensor("self"), c.dims("size"))); }, kView},
    {"aten.ravel.default", [](Call& c) { c.result(flatten(c.tensor("self"))); }, kView},
    {"aten.diagonal.default", [](Call& c) { c.result(diagonal(c.tensor("self"), {.offset = c.integer("offset", 0), .dim1 = c.integer("dim1", 0), .dim2 = c.integer("dim2", 1)})); }, kView},
    {"aten.unfold.default", [](Call& c) { c.result(windows(c.tensor("self"), c.integer("dimension"), c.integer("size"), c.integer("step"))); }, kView},
    {"aten.alias.default", [](Call& c) { c.result(c.tensor("self")); }, kView}, {"aten.lift_fresh_copy.default", [](Call& c) { c.result(clone(c.tensor("self"))); }},
    {"aten.detach.default", [](Call& c) { c.result(c.tensor("self").detach()); }, kView}, {"aten.detach_.default", [](Call& c) { c.result(c.tensor("self").detach()); }, kView},
    {"aten.contiguous.default", contiguous_of, kView},
    {"aten.clone.default", [](Call& c) { c.result(clone(c.tensor("self")).contiguous(c.format("memory_format", c.tensor("self")))); }},
    {"aten.to.dtype", to, kView}, {"aten.to.device", to, kView}, {"aten.to.dtype_layout", to, kView}, {"aten._to_copy.default", to, kView},
    {"aten.to.other", to_other, kView}, {"aten.type_as.default", to_other, kView},

    {"aten.cat.default", [](Call& c) { c.result(cat(c.tensors("tensors"), c.integer("dim", 0))); }},
    {"aten.stack.default", [](Call& c) { c.result(stack(c.tensors("tensors"), c.integer("dim", 0))); }},
    {"aten.pad.default", pad_of}, {"aten.constant_pad_nd.default", pad_of},
    {"aten.roll.default", roll_of}, {"aten.diff.default", diff},
    {"aten.flip.default", [](Call& c) { c.result(flip(c.tensor("self"), c.dims("dims"))); }},
    {"aten.repeat.default", [](Call& c) { c.result(repeat(c.tensor("self"), c.dims("repeats"))); }},
    {"aten.repeat_interleave.self_int", [](Call& c) { c.result(c.has("dim") ? repeat_interleave(c.tensor("self"), c.integer("repeats"), c.integer("dim")) : repeat_interleave(c.tensor("self"), c.integer("repeats"))); }},
    {"aten.pixel_shuffle.default", [](Call& c) { c.result(pixel_shuffle(c.tensor("self"), c.integer("upscale_factor"))); }},
    {"aten.pixel_unshuffle.default", [](Call& c) { c.result(pixel_unshuffle(c.tensor("self"), c.integer("downscale_factor"))); }},
    {"aten.index.Tensor", index_of}, {"aten.index_put.default", index_put_of}, {"aten.scatter.src", scatter_of}, {"aten.scatter.value", scatter_of},
    {"aten.scatter_reduce.two", scatter_reduce_of},
    {"aten.scatter_add.default", [](Call& c) { c.result(scatter_add(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.tensor("src"))); }},
    {"aten.index_add.default", [](Call& c) { c.result(index_add(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.tensor("source"), c.number("alpha", 1))); }},
    {"aten.index_fill.int_Scalar", [](Call& c) { c.result(index_fill(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.number_in(c.tensor("self"), "value"))); }},
    {"aten.index_copy.default", [](Call& c) { c.result(index_copy(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.tensor("source"))); }},
    {"aten.put.default", [](Call& c) { c.result(put(c.tensor("self"), c.tensor("index"), c.tensor("source"), {.accumulate = c.boolean("accumulate", false)})); }},
    {"aten.masked_select.default", [](Call& c) { c.result(masked_select(c.tensor("self"), c.tensor("mask"))); }},
    {"aten.masked_scatter.default", [](Call& c) { c.result(masked_scatter(c.tensor("self"), c.tensor("mask"), c.tensor("source"))); }},
    {"aten.nonzero.default", [](Call& c) { c.result(nonzero(c.tensor("self"))); }}, {"aten.diag.default", [](Call& c) { c.result(diag(c.tensor("self"), c.integer("diagonal", 0))); }},
    {"aten.take.default", [](Call& c) { c.result(take(c.tensor("self"), c.tensor("index"))); }},
    {"aten.take_along_dim.default", [](Call& c) { const Tensor self = c.tensor("self"), at = c.tensor("indices"); c.result(c.has("dim") ? take_along_dim(self, at, c.integer("dim")) : gather(flatten(self), 0, flatten(at))); }},
    {"aten.one_hot.default", [](Call& c) { c.result(one_hot(c.tensor("self"), c.integer("num_classes", -1))); }},
    {"aten.im2col.default", [](Call& c) { of_images(c, c.tensor("self"), 4, [&](const Tensor& x) { return unfold(x, unfold_options(c)); }); }},
    {"aten.col2im.default", [](Call& c) { c.result(fold(c.tensor("self"), c.pair("output_size"), unfold_options(c))); }},
    {"aten.hstack.default", joined<hstack>}, {"aten.vstack.default", joined<vstack>}, {"aten.dstack.default", joined<dstack>}, {"aten.diag_embed.default", [](Call& c) { c.result(diag_embed(c.tensor("self"), {.offset = c.integer("offset", 0), .dim1 = c.integer("dim1", -2), .dim2 = c.integer("dim2", -1)})); }},
    {"aten.tile.default", [](Call& c) { c.result(tile(c.tensor("self"), c.dims("dims"))); }},
    {"aten.index_select.default", [](Call& c) { c.result(index_select(c.tensor("self"), c.integer("dim"), c.tensor("index"))); }},
    {"aten.gather.default", [](Call& c) { c.result(gather(c.tensor("self"), c.integer("dim"), c.tensor("index"))); }},
    {"aten.tril.default", [](Call& c) { c.result(tril(c.tensor("self"), c.integer("diagonal", 0))); }},
    {"aten.triu.default", [](Call& c) { c.result(triu(c.tensor("self"), c.integer("diagonal", 0))); }},

    {"aten.zeros.default", filled_new<0>}, {"aten.ones.default", filled_new<1>}, {"aten.empty.memory_format", filled_new<0>},
    {"aten.new_zeros.default", filled_new<0>}, {"aten.new_ones.default", filled_new<1>}, {"aten.new_empty.default", filled_new<0>},
    {"aten.zeros_like.default", filled_like<0>}, {"aten.ones_like.default", filled_like<1>}, {"aten.empty_like.default", filled_like<0>},
    {"aten.full.default", full_of}, {"aten.new_full.default", full_of}, {"aten.full_like.default", full_of},
    {"aten.arange.default", arange_of}, {"aten.arange.start", arange_of}, {"aten.arange.start_step", arange_of},

    {"aten.linspace.default", linspace_of}, {"aten.eye.default", eye_of}, {"aten.eye.m", eye_of},
    {"aten.rand.default", drawn<rand>}, {"aten.randn.default", drawn<randn>}, {"aten.rand_like.default", drawn<rand>}, {"aten.randn_like.default", drawn<randn>},
    {"aten.bernoulli.default", bernoulli_of_tensor},

    {"aten.sym_size.int", [](Call& c) { c.result(c.tensor("self").dim(c.integer("dim"))); }},
    {"aten.sym_numel.default", [](Call& c) { c.result(c.tensor("self").numel()); }},
    {"aten._assert_tensor_metadata.default", nothing, kCheck}, {"aten._assert_scalar.default", nothing, kCheck}, {"aten._assert_async.msg", nothing, kCheck},
    {"aten.sym_constrain_range.default", nothing, kCheck}, {"aten.sym_constrain_range_for_size.default", nothing, kCheck},
};
// clang-format on

}  // namespace

std::span<const Target> shape_targets() { return kShapes; }

}  // namespace lathe::jit::pt2
