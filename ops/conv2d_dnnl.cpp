// f32 convolution by oneDNN. Contracts: conv2d_backend.h.
//
// A plan is everything that the sizes decide: the algorithm, oneDNN's primitive, the layouts that
// it wants, and the reorders from and to the tensors' own layouts. Plans are made once per size and
// kept.
//
// Which algorithm (measured on AVX-512 with 2 threads, batch 64 and 128, oneDNN 2.6):
// - Winograd F(4x4,3x3) for 3x3 kernels with stride 1 from 64 channels on: 1.5 to 2.2 times direct.
// It works on blocks of
//   16 channels, so x and y are reordered; with fewer channels that costs more than is won.
// - direct otherwise: in place on NHWC tensors, on reordered blocks for row-major ones.
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "lathe/ops/conv2d.h"
#include "lathe/ops/conv2d_backend.h"
#include "lathe/ops/lru_cache.h"
#include "lathe/ops/onednn.h"

namespace lathe::cpu {

namespace {

using dnnl::algorithm;
using Layout = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

enum class Pass : int64_t { kForward, kBackwardInput, kBackwardWeight };

/// One of a primitive's tensors: as the caller has it, as the primitive wants it, and the way
/// between the two.
struct Port {
  Layout user, wanted;
  std::optional<dnnl::reorder> reorder;  // absent where the two agree
};

struct Plan {
  dnnl::primitive primitive;
  Port x, w, y;  // or their gradients
  Layout scratchpad;
};

/// x and y, or their gradients, and w as the caller has them; and as the primitive may choose them.
struct Layouts {
  Layout x, w, y, bias;
};

Layout layout(const dnnl::memory::dims& dims, Tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

Layouts layouts(const Conv2dGeometry& g, Tag activations, Tag weights, bool has_bias) {
  using Dims = dnnl::memory::dims;
  const Dims w = g.groups == 1 ? Dims{g.K, g.C, g.R, g.S}
                               : Dims{g.groups, g.K / g.groups, g.C / g.groups, g.R, g.S};
  return {.x = layout({g.N, g.C, g.H, g.W}, activations),
          .w = layout(w, weights),
          .y = layout({g.N, g.K, g.P, g.Q}, activations),
          .bias = has_bias ? layout({g.K}, Tag::x) : Layout()};
}

/// What all three passes need to know besides the layouts.
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
  using Conv = dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_training;
  const auto desc =
      l.bias.is_zero()
          ? Conv::desc(kind, how, l.x, l.w, l.y, f.stride, f.dilation, f.pad, f.pad)
          : Conv::desc(kind, how, l.x, l.w, l.bias, l.y, f.stride, f.dilation, f.pad, f.pad);
  return {desc, own_scratchpad(), dnnl_engine()};
}

dnnl::convolution_backward_data::primitive_desc describe_backward_input(algorithm how,
                                                                        const Layouts& l,
                                                                        const Filter& f) {
  return {{how, l.x, l.w, l.y, f.stride, f.dilation, f.pad, f.pad},
          own_scratchpad(),
          dnnl_engine(),
          describe_forward(how, l, f)};
}

dnnl::convolution_backward_weights::primitive_desc describe_backward_weight(algorithm how,
                                                                            const Layouts& l,
                                                                            const Filter& f) {
  return {{how, l.x, l.w, l.y, f.stride, f.dilation, f.pad, f.pad},
          own_scratchpad(),
          dnnl_engine(),
          describe_forward(how, l, f)};
}

enum class Flow { kIn, kOut };

Port make_port(const Layout& user, const Layout& wanted, Flow flow) {
  Port port{user, wanted, std::nullopt};
  if (user == wanted) return port;
  const Layout& from = flow == Flow::kIn ? user : wanted;
  const Layout& to = flow == Flow::kIn ? wanted : user;
  port.reorder.emplace(dnnl::reorder::primitive_desc(dnnl_engine(), from, dnnl_engine(), to));
  return port;
}

Plan make_plan(Pass pass, algorithm how, const Layouts& user, const Layouts& asked,
               const Filter& filter) {
  switch (pass) {
    case Pass::kForward: {
      const auto d = describe_forward(how, asked, filter);
      return {dnnl::convolution_forward(d), make_port(user.x, d.src_desc(), Flow::kIn),
              make_port(user.w, d.weights_desc(), Flow::kIn),
              make_port(user.y, d.dst_desc(), Flow::kOut), d.scratchpad_desc()};
    }
    case Pass::kBackwardInput: {
      const auto d = describe_backward_input(how, asked, filter);
      return {dnnl::convolution_backward_data(d), make_port(user.x, d.diff_src_desc(), Flow::kOut),
              make_port(user.w, d.weights_desc(), Flow::kIn),
              make_port(user.y, d.diff_dst_desc(), Flow::kIn), d.scratchpad_desc()};
    }
    case Pass::kBackwardWeight: break;
  }
  const auto d = describe_backward_weight(how, asked, filter);
  return {dnnl::convolution_backward_weights(d), make_port(user.x, d.src_desc(), Flow::kIn),
          make_port(user.w, d.diff_weights_desc(), Flow::kOut),
          make_port(user.y, d.diff_dst_desc(), Flow::kIn), d.scratchpad_desc()};
}

bool winograd_pays(const Conv2dGeometry& g) {
  constexpr int64_t kMinChannels = 64;
  return g.R == 3 && g.S == 3 && g.stride == Pair(1) && g.dilation == Pair(1) && g.groups == 1 &&
         !(g.pad > 1) && g.C >= kMinChannels && g.K >= kMinChannels;
}

struct Request {
  Pass pass;
  Conv2dGeometry g;
  bool nhwc, has_bias, exact;
  int threads;  // oneDNN shares out the work when it makes the primitive

  auto key() const {
    return std::array<int64_t, 21>{static_cast<int64_t>(pass),
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
                                   has_bias,
                                   exact,
                                   threads};
  }
};

Plan make_plan(const Request& r) {
  const Tag rows = r.g.groups == 1 ? Tag::oihw : Tag::goihw;
  const Layouts user = layouts(r.g, r.nhwc ? Tag::nhwc : Tag::nchw, rows, r.has_bias);
  const Layouts free = layouts(r.g, Tag::any, Tag::any, r.has_bias);
  const Filter filter(r.g);
  if (!r.exact && winograd_pays(r.g)) {
    try {
      return make_plan(r.pass, algorithm::convolution_winograd, user, free, filter);
    } catch (const dnnl::error& e) {  // not on this processor
      if (e.status != dnnl_unimplemented) throw;
    }
  }
  const Layouts in_place = layouts(r.g, Tag::nhwc, Tag::any, r.has_bias);
  return make_plan(r.pass, algorithm::convolution_direct, user, r.nhwc ? in_place : free, filter);
}

using PlanCache = LruCache<decltype(std::declval<Request>().key()), Plan>;

PlanCache::Pointer plan_for(Pass pass, const Conv2dGeometry& g, const Tensor& x, bool has_bias) {
  constexpr size_t kPlans = 1024;
  static PlanCache cache(kPlans);
  const bool nhwc = conv2d_format(x) == kChannelsLast;
  const Request request{pass, g, nhwc, has_bias, conv_exact(), num_threads()};
  return cache.get(request.key(), [&] { return make_plan(request); });
}

/// Memory for the time of one call; the host allocator keeps it for the next.
Tensor scratch(const Layout& layout) {
  return empty({static_cast<int64_t>(layout.get_size() / sizeof(float)) + 1}, {.dtype = kF32});
}

dnnl::memory memory_of(const Layout& layout, const Tensor& t) {
  return {layout, dnnl_engine(), t.raw_data()};
}

/// One execution of a plan: arguments are brought in, the primitive runs, the result is brought
/// out.
class Run {
 public:
  explicit Run(const Plan& plan) : plan_(plan) {}

  void in(int name, const Port& port, const Tensor& t) {
    const dnnl::memory user = memory_of(port.user, t);
    if (!port.reorder) return add(name, user);
    const dnnl::memory wanted = reordered(port);
    port.reorder->execute(dnnl_stream(), const_cast<dnnl::memory&>(user),
                          const_cast<dnnl::memory&>(wanted));
    add(name, wanted);
  }
  void bias(const Tensor& t) { add(DNNL_ARG_BIAS, memory_of(layout({t.numel()}, Tag::x), t)); }
  /// Runs the primitive, whose result goes to t.
  void out(int name, const Port& port, const Tensor& t) {
    dnnl::memory user = memory_of(port.user, t);
    dnnl::memory wanted = port.reorder ? reordered(port) : user;
    add(name, wanted);
    if (plan_.scratchpad.get_size() > 0) {
      buffers_[count_] = scratch(plan_.scratchpad);
      add(DNNL_ARG_SCRATCHPAD, memory_of(plan_.scratchpad, buffers_[count_++]));
    }
    plan_.primitive.execute(dnnl_stream(), arguments_);
    if (port.reorder) port.reorder->execute(dnnl_stream(), wanted, user);
    dnnl_stream().wait();
  }

 private:
  void add(int name, const dnnl::memory& memory) { arguments_.emplace(name, memory); }
  dnnl::memory reordered(const Port& port) {
    buffers_[count_] = scratch(port.wanted);
    return memory_of(port.wanted, buffers_[count_++]);
  }

  const Plan& plan_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::array<Tensor, 4> buffers_;  // x, w, y, scratchpad
  size_t count_ = 0;
};

}  // namespace

void fast_conv2d_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                         const Tensor& bias) {
  const OmpThreads threads;
  translate_dnnl_errors("conv2d", [&] {
    const auto plan = plan_for(Pass::kForward, g, x, bias.defined());
    Run run(*plan);
    run.in(DNNL_ARG_SRC, plan->x, x);
    run.in(DNNL_ARG_WEIGHTS, plan->w, w);
    if (bias.defined()) run.bias(bias);
    run.out(DNNL_ARG_DST, plan->y, y);
  });
}

void fast_conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                                const Tensor& w) {
  const OmpThreads threads;
  translate_dnnl_errors("conv2d_input_grad", [&] {
    const auto plan = plan_for(Pass::kBackwardInput, g, dx, false);
    Run run(*plan);
    run.in(DNNL_ARG_DIFF_DST, plan->y, dy);
    run.in(DNNL_ARG_WEIGHTS, plan->w, w);
    run.out(DNNL_ARG_DIFF_SRC, plan->x, dx);
  });
}

void fast_conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x) {
  const OmpThreads threads;
  translate_dnnl_errors("conv2d_weight_grad", [&] {
    const auto plan = plan_for(Pass::kBackwardWeight, g, x, false);
    Run run(*plan);
    run.in(DNNL_ARG_SRC, plan->x, x);
    run.in(DNNL_ARG_DIFF_DST, plan->y, dy);
    run.out(DNNL_ARG_DIFF_WEIGHTS, plan->w, dw);
  });
}

}  // namespace lathe::cpu
