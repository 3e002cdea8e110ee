// How each convolution runs in oneDNN: layouts and reorders. Which of its engines:
// conv2d_choice_cpu.cpp. Contracts: conv2d_primitive_dnnl.h.
//
// Winograd works on blocks of 16 channels, so x and y are reordered. Direct sums run in place on
// NHWC tensors, or on reordered blocks. bf16 has direct sums only.
#include <array>
#include <utility>

#include "lathe/ops/conv/cpu/conv2d_primitive_dnnl.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/plans/lru_cache.h"

namespace lathe::cpu {

namespace {

using dnnl::algorithm;
using Tag = dnnl::memory::format_tag;

/// x, w and y, or their gradients, either as the caller has them or as the primitive may choose.
struct Layouts {
  Layout x, w, y, bias;
};

Layouts layouts(const Conv2dGeometry& g, dnnl::memory::data_type type, Tag activations, Tag weights,
                bool has_bias) {
  using Dims = dnnl::memory::dims;
  const auto layout = [type](const Dims& dims, Tag tag) { return Layout(dims, type, tag); };
  const Dims w = g.groups == 1 ? Dims{g.K, g.C, g.R, g.S}
                               : Dims{g.groups, g.K / g.groups, g.C / g.groups, g.R, g.S};
  return {.x = layout({g.N, g.C, g.H, g.W}, activations),
          .w = layout(w, weights),
          .y = layout({g.N, g.K, g.P, g.Q}, activations),
          .bias = has_bias ? layout({g.K}, Tag::x) : Layout()};
}

/// What all three passes need besides the layouts.
struct Filter {
  explicit Filter(const Conv2dGeometry& g)
      : stride{g.stride.rows, g.stride.cols},
        dilation{g.dilation.rows - 1, g.dilation.cols - 1},  // oneDNN counts the gaps
        pad{g.pad.rows, g.pad.cols} {}

  dnnl::memory::dims stride, dilation, pad;
};

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::convolution_forward::primitive_desc describe_forward(algorithm how, const Layouts& l,
                                                           const Filter& f) {
  using Forward = dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_training;
  if (l.bias.is_zero()) {
    return forward_desc<Forward>(own_scratchpad(), kind, how, l.x, l.w, l.y, f.stride, f.dilation,
                                 f.pad, f.pad);
  }
  return forward_desc<Forward>(own_scratchpad(), kind, how, l.x, l.w, l.bias, l.y, f.stride,
                               f.dilation, f.pad, f.pad);
}

/// Pass is dnnl::convolution_backward_data or dnnl::convolution_backward_weights.
template <class Pass>
typename Pass::primitive_desc describe_backward(algorithm how, const Layouts& l, const Filter& f) {
  return backward_desc<Pass>(own_scratchpad(), describe_forward(how, l, f), how, l.x, l.w, l.y,
                             f.stride, f.dilation, f.pad, f.pad);
}

enum class Flow { kIn, kOut };

Conv2dPort make_port(const Layout& user, const Layout& wanted, Flow flow) {
  Conv2dPort port{user, wanted, std::nullopt};
  if (user == wanted) return port;
  const OmpThreads threads(reorder_threads(user));
  const Layout& from = flow == Flow::kIn ? user : wanted;
  const Layout& to = flow == Flow::kIn ? wanted : user;
  port.reorder.emplace(dnnl::reorder::primitive_desc(dnnl_engine(), from, dnnl_engine(), to));
  return port;
}

Conv2dPrimitive make_primitive(ConvPass pass, algorithm how, const Layouts& user,
                               const Layouts& asked, const Filter& filter) {
  switch (pass) {
    case ConvPass::kForward: {
      const auto d = describe_forward(how, asked, filter);
      return {dnnl::convolution_forward(d), make_port(user.x, d.src_desc(), Flow::kIn),
              make_port(user.w, d.weights_desc(), Flow::kIn),
              make_port(user.y, d.dst_desc(), Flow::kOut), d.scratchpad_desc()};
    }
    case ConvPass::kBackwardInput: {
      const auto d = describe_backward<dnnl::convolution_backward_data>(how, asked, filter);
      return {dnnl::convolution_backward_data(d), make_port(user.x, d.diff_src_desc(), Flow::kOut),
              make_port(user.w, d.weights_desc(), Flow::kIn),
              make_port(user.y, d.diff_dst_desc(), Flow::kIn), d.scratchpad_desc()};
    }
    case ConvPass::kBackwardWeight: break;
  }
  const auto d = describe_backward<dnnl::convolution_backward_weights>(how, asked, filter);
  return {dnnl::convolution_backward_weights(d), make_port(user.x, d.src_desc(), Flow::kIn),
          make_port(user.w, d.diff_weights_desc(), Flow::kOut),
          make_port(user.y, d.diff_dst_desc(), Flow::kIn), d.scratchpad_desc()};
}

struct Request {
  CpuEngine engine;
  ConvPass pass;
  Conv2dGeometry g;
  bool nhwc, w_channels_last, has_bias, bf16;
  int threads;      // oneDNN divides the work among them when it makes the primitive
  int all_threads;  // the same for reorders of large tensors

  auto key() const {
    return std::array<int64_t, 24>{static_cast<int64_t>(engine),
                                   static_cast<int64_t>(pass),
                                   g.N,
                                   g.C,
                                   g.H,
                                   g.W,
                                   g.K,
                                   g.R,
                                   g.S,
                                   g.P,
                                   g.Q,
                                   g.stride.rows,
                                   g.stride.cols,
                                   g.pad.rows,
                                   g.pad.cols,
                                   g.dilation.rows,
                                   g.dilation.cols,
                                   g.groups,
                                   nhwc,
                                   w_channels_last,
                                   has_bias,
                                   bf16,
                                   threads,
                                   all_threads};
  }
};

Conv2dPrimitive make_primitive(const Request& r) {
  const bool grouped = r.g.groups != 1;
  const Tag filters =
      r.w_channels_last ? (grouped ? Tag::gohwi : Tag::ohwi) : (grouped ? Tag::goihw : Tag::oihw);
  const auto type = r.bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const Layouts user = layouts(r.g, type, r.nhwc ? Tag::nhwc : Tag::nchw, filters, r.has_bias);
  const Layouts free = layouts(r.g, type, Tag::any, Tag::any, r.has_bias);
  const Filter filter(r.g);
  if (r.engine == CpuEngine::kOneDnnWinograd) {
    try {
      return make_primitive(r.pass, algorithm::convolution_winograd, user, free, filter);
    } catch (const dnnl::error& e) {  // not available for these sizes: direct sums
      if (e.status != dnnl_unimplemented) throw;
    }
  }
  const bool in_place = r.engine == CpuEngine::kOneDnnNhwc;
  const Layouts nhwc = layouts(r.g, type, Tag::nhwc, Tag::any, r.has_bias);
  return make_primitive(r.pass, algorithm::convolution_direct, user, in_place ? nhwc : free,
                        filter);
}

using PrimitiveCache = LruCache<decltype(std::declval<Request>().key()), Conv2dPrimitive>;

}  // namespace

bool dnnl_has_winograd() {
  static const bool has = [] {
    const auto g = conv2d_geometry("conv2d", {1, 64, 8, 8}, {64, 64, 3, 3}, {.pad = 1});
    const Layouts any = layouts(g, dnnl::memory::data_type::f32, Tag::any, Tag::any, false);
    try {
      describe_forward(algorithm::convolution_winograd, any, Filter(g));
      return true;
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented) throw;
      return false;
    }
  }();
  return has;
}

int conv2d_threads(const Conv2dGeometry& g) {
  constexpr double kFewOperations = 5e6;
  return g.flops() < kFewOperations ? 1 : dnnl_threads();
}

int reorder_threads(const Layout& tensor) {
  constexpr size_t kFewBytes = 256 << 10;
  return tensor.get_size() < kFewBytes ? 1 : dnnl_threads();
}

std::shared_ptr<const Conv2dPrimitive> conv2d_primitive(CpuEngine engine, ConvPass pass,
                                                        const Conv2dGeometry& g, const Tensor& x,
                                                        const Tensor& w, bool has_bias) {
  constexpr size_t kPrimitives = 1024;
  static PrimitiveCache cache(kPrimitives);
  const Request request{.engine = engine,
                        .pass = pass,
                        .g = g,
                        .nhwc = conv2d_format(x) == kChannelsLast,
                        .w_channels_last = memory_format_of(w) == kChannelsLast,
                        .has_bias = has_bias,
                        .bf16 = x.dtype() == kBF16,
                        .threads = conv2d_threads(g),
                        .all_threads = dnnl_threads()};
  return cache.get(request.key(), [&] { return make_primitive(request); });
}

}  // namespace lathe::cpu
