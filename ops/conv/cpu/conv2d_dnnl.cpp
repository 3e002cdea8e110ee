// f32 and bf16 convolution by oneDNN: runs the primitives of conv2d_primitive_dnnl.h. Contracts:
// conv2d_dnnl.h.
//
// Tensors are reordered where the primitive wants another layout than theirs. Two reorders are
// avoided: the weights of a model that only infers are packed once (packed_weights_cpu.h), and the
// dy that backward_input has packed is used by the backward_weight that follows. Small bf16 images
// run in strips (conv2d_strips_cpu.h).
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"

#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/storage.h"
#include "lathe/core/tensor_impl.h"
#include "lathe/ops/conv/cpu/conv2d_primitive_dnnl.h"
#include "lathe/ops/conv/cpu/conv2d_strips_cpu.h"
#include "lathe/ops/conv/cpu/packed_weights_cpu.h"

namespace lathe::cpu {

namespace {

/// Memory for one call; the host allocator keeps it for the next.
Tensor scratch(const Layout& layout) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  return empty({static_cast<int64_t>(layout.get_size() / sizeof(float)) + 1}, {.dtype = kF32});
}

dnnl::memory memory_of(const Layout& layout, const Tensor& t) {
  return {layout, dnnl_engine(), t.raw_data()};
}

Tensor packed(const Conv2dPort& port, const Tensor& t) {
  Tensor copy = scratch(port.wanted);
  dnnl::memory from = memory_of(port.user, t), to = memory_of(port.wanted, copy);
  const profile::DeviceRange range("reorder", kCPU);
  const OmpThreads threads(reorder_threads(port.user));
  port.reorder->execute(dnnl_stream(), from, to);
  return copy;
}

/// A packed copy, and the tensor that it was made of. Holding the tensor keeps its storage from
/// being reused for other values at the same address.
struct Packed {
  Tensor source;
  uint32_t version = 0;
  Layout user, wanted;
  Tensor values;

  bool is_of(const Conv2dPort& port, const Tensor& t) const {
    return shows_memory_of(t) && version == t.version() && user == port.user &&
           wanted == port.wanted;
  }
  bool shows_memory_of(const Tensor& t) const {
    return source.defined() && source.shares_storage(t) && source.offset() == t.offset();
  }
};

Packed make_packed(const Conv2dPort& port, const Tensor& t) {
  const Tensor source = alias(t, t.shape(), t.strides(), t.offset());  // without its gradient
  return {source, t.version(), port.user, port.wanted, packed(port, t)};
}

/// Of packed filters: the layouts before and after.
struct PackedForm {
  Layout user, wanted;
  bool operator==(const PackedForm&) const = default;
};

/// While their gradients are recorded, weights change from step to step, so nothing is kept then.
Tensor packed_filters(const Conv2dPort& port, const Tensor& w) {
  if (grad_enabled() && w.requires_grad()) return packed(port, w);
  return packed_weights(w, PackedForm{port.user, port.wanted}, [&] { return packed(port, w); });
}

/// The dy that backward_input packed last on this thread, for the backward_weight of the same dy.
/// That is at most one dy and its copy. If no backward_weight follows, they stay until this
/// thread's next convolution. Of a dy in the memory of others none is kept: its version does not
/// tell of their writes.
thread_local Packed t_dy;

Tensor packed_and_kept_dy(const Conv2dPort& port, const Tensor& dy) {
  t_dy = {};  // its memory may serve the new copy
  if (dy.impl().storage->is_borrowed()) return packed(port, dy);
  t_dy = make_packed(port, dy);
  return t_dy.values;
}

Tensor packed_dy(const Conv2dPort& port, const Tensor& dy) {
  const Packed kept = std::exchange(t_dy, {});
  return kept.is_of(port, dy) ? kept.values : packed(port, dy);
}

/// One execution: brings the arguments in, runs the primitive, brings the result out.
class Run {
 public:
  explicit Run(const Conv2dPrimitive& made) : made_(made) {}

  /// `pack` makes the copy that the primitive reads if it wants another layout.
  void in(int name, const Conv2dPort& port, const Tensor& t,
          Tensor (*pack)(const Conv2dPort&, const Tensor&) = packed) {
    add(name, port.wanted, port.reorder ? pack(port, t) : t);
  }
  void bias(const Tensor& t) {
    const auto type =
        t.dtype() == kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
    add(DNNL_ARG_BIAS, {{t.numel()}, type, dnnl::memory::format_tag::x}, t);
  }
  /// Runs the primitive and puts its result into t.
  void out(int name, const Conv2dPort& port, const Tensor& t) {
    const Tensor result = port.reorder ? scratch(port.wanted) : t;
    add(name, port.wanted, result);
    if (made_.scratchpad.get_size() > 0) {
      add(DNNL_ARG_SCRATCHPAD, made_.scratchpad, scratch(made_.scratchpad));
    }
    made_.primitive.execute(dnnl_stream(), arguments_);
    if (port.reorder) {
      dnnl::memory from = memory_of(port.wanted, result), to = memory_of(port.user, t);
      const profile::DeviceRange range("reorder", kCPU);
      const OmpThreads threads(reorder_threads(port.user));
      port.reorder->execute(dnnl_stream(), from, to);
    }
    dnnl_stream().wait();
  }

 private:
  void add(int name, const Layout& layout, const Tensor& t) {
    arguments_.emplace(name, memory_of(layout, t));
    kept_[count_++] = t;
  }

  const Conv2dPrimitive& made_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::array<Tensor, 5> kept_;  // hold the memory of x, w, y, bias, scratchpad
  size_t count_ = 0;
};

std::optional<Conv2dStrips> strips_for(const CpuChoice& choice, const Conv2dGeometry& g) {
  if (choice.images == 1) return {};
  return make_conv2d_strips(g, choice.images);
}

void forward(CpuEngine engine, const Conv2dGeometry& g, const Tensor& y, const Tensor& x,
             const Tensor& w, const Tensor& bias) {
  const OmpThreads threads(conv2d_threads(g));
  const auto made = conv2d_primitive(engine, ConvPass::kForward, g, x, w, bias.defined());
  Run run(*made);
  run.in(DNNL_ARG_SRC, made->x, x);
  run.in(DNNL_ARG_WEIGHTS, made->w, w, packed_filters);
  if (bias.defined()) run.bias(bias);
  run.out(DNNL_ARG_DST, made->y, y);
}

void backward_input(CpuEngine engine, const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                    const Tensor& w) {
  const OmpThreads threads(conv2d_threads(g));
  const auto made = conv2d_primitive(engine, ConvPass::kBackwardInput, g, dy, w, false);
  Run run(*made);
  run.in(DNNL_ARG_DIFF_DST, made->y, dy, packed_and_kept_dy);
  run.in(DNNL_ARG_WEIGHTS, made->w, w);
  run.out(DNNL_ARG_DIFF_SRC, made->x, dx);
}

void backward_weight(CpuEngine engine, const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                     const Tensor& x) {
  const OmpThreads threads(conv2d_threads(g));
  const auto made = conv2d_primitive(engine, ConvPass::kBackwardWeight, g, x, dw, false);
  Run run(*made);
  run.in(DNNL_ARG_SRC, made->x, x);
  run.in(DNNL_ARG_DIFF_DST, made->y, dy, packed_dy);
  run.out(DNNL_ARG_DIFF_WEIGHTS, made->w, dw);
}

}  // namespace

OneDnnInfo onednn_info() try {
  const dnnl_version_t& v = *dnnl_version();
  return {.library = concat("oneDNN ", v.major, '.', v.minor, '.', v.patch),
          .problem = {},
          .winograd = translate_dnnl_errors("conv2d", dnnl_has_winograd),
          .bf16 = conv_machine().bf16};
} catch (const Error& e) {
  return {.library = "oneDNN", .problem = e.message()};
}

CpuConvMachine conv_machine() noexcept try {
  static const CpuConvMachine known{
      .onednn = true,
      .winograd = dnnl_has_winograd(),
      // Without these instructions oneDNN emulates bf16, which is slower than f32.
      .bf16 = dnnl_uses(dnnl::cpu_isa::avx512_core_bf16),
      .tiles = dnnl_uses(dnnl::cpu_isa::avx512_core_amx),
      // oneDNN 3's kernels for AVX2 take 0.6 to 0.9 of the time of blocks there.
      .fast_short_rows = DNNL_VERSION_MAJOR >= 3 && !dnnl_uses(dnnl::cpu_isa::avx512_core)};
  CpuConvMachine now = known;
  now.threads = dnnl_threads();
  return now;
} catch (...) {  // oneDNN cannot be loaded
  return {.onednn = true};
}

void onednn_forward(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& y,
                    const Tensor& x, const Tensor& w, const Tensor& bias) {
  t_dy = {};
  translate_dnnl_errors("conv2d", [&] {
    if (const auto strips = strips_for(choice, g)) {
      const Tensor wide_y = strips->empty_y(y.dtype());
      forward(choice.engine, strips->strip, wide_y, strips->strips_of_x(x), w, bias);
      strips->take_y(y, wide_y);
    } else {
      forward(choice.engine, g, y, x, w, bias);
    }
  });
}

void onednn_backward_input(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& dx,
                           const Tensor& dy, const Tensor& w) {
  translate_dnnl_errors("conv2d_input_grad", [&] {
    if (const auto strips = strips_for(choice, g)) {
      const Tensor wide_dx = strips->empty_x(dx.dtype());
      backward_input(choice.engine, strips->strip, wide_dx, strips->strips_of_y(dy), w);
      strips->take_x(dx, wide_dx);
    } else {
      backward_input(choice.engine, g, dx, dy, w);
    }
  });
}

void onednn_backward_weight(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& dw,
                            const Tensor& dy, const Tensor& x) {
  translate_dnnl_errors("conv2d_weight_grad", [&] {
    if (const auto strips = strips_for(choice, g)) {
      backward_weight(choice.engine, strips->strip, dw, strips->strips_of_y(dy),
                      strips->strips_of_x(x));
    } else {
      backward_weight(choice.engine, g, dw, dy, x);
    }
  });
}

}  // namespace lathe::cpu
