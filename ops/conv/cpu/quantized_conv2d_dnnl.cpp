// Quantised convolution by oneDNN. Contract: quantized_conv2d_cpu.h.
//
// The sums of u8 and i8 products are exact where the processor has VNNI or AMX. Elsewhere oneDNN
// adds pairs of them in 16 bits, which saturates for u8, and halves the filters for i8 (oneDNN,
// "Nuances of int8 Computations"), so our own loops run there. The numbers behind the sums are part
// of the primitive: oneDNN 2's kernels take scales that are known when they are made.
#include <climits>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/conv/cpu/conv2d_primitive_dnnl.h"
#include "lathe/ops/conv/cpu/packed_weights_cpu.h"
#include "lathe/ops/conv/cpu/quantized_conv2d_cpu.h"
#include "lathe/ops/plans/lru_cache.h"

namespace lathe::cpu {

namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;
using Forward = dnnl::convolution_forward;

Type type_of(DType dtype) { return dtype == kU8 ? Type::u8 : dtype == kI8 ? Type::s8 : Type::f32; }

struct Int8Primitive {
  dnnl::primitive primitive;
  Layout x, w_user, w, y, scratchpad;
  std::optional<dnnl::reorder> pack;
  std::vector<float> scales, bias;
  float residual_multiplier;
};

/// All that decides a primitive, as bytes.
class Key {
 public:
  template <class... Ts>
  void add(const Ts&... values) {
    (bytes_.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  }
  void add_all(const std::vector<float>& values) {
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Int8Primitive make_int8_primitive(const Conv2dGeometry& g, DType x, const Requantization& numbers,
                                  const QuantizedEpilogue& then) {
  using Dims = dnnl::memory::dims;
  const bool grouped = g.groups != 1;
  const Dims w =
      grouped ? Dims{g.groups, g.K / g.groups, g.C / g.groups, g.R, g.S} : Dims{g.K, g.C, g.R, g.S};
  Int8Primitive made;
  made.x = Layout({g.N, g.C, g.H, g.W}, type_of(x), Tag::nhwc);
  made.y = Layout({g.N, g.K, g.P, g.Q}, type_of(then.dtype), Tag::nhwc);
  made.w_user = Layout(w, Type::s8, grouped ? Tag::goihw : Tag::oihw);

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  set_channel_scales(attributes, numbers.multiplier, grouped);
  dnnl::post_ops after;
  if (then.residual.defined()) {
    // It is put into y's memory first: as it is, where that has elements of the same size.
    const bool is_wide = then.dtype == kF32;
    append_sum(after, is_wide ? 1 : numbers.residual_multiplier,
               is_wide ? Type::f32 : type_of(then.residual.dtype()));
  }
  if (then.relu) append_relu(after);
  attributes.set_post_ops(after);

  const Dims stride{g.stride.rows, g.stride.cols}, pad{g.pad.rows, g.pad.cols};
  const Dims gaps{g.dilation.rows - 1, g.dilation.cols - 1};
  const auto desc = forward_desc<Forward>(
      attributes, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, made.x,
      Layout(w, Type::s8, Tag::any), Layout({g.K}, Type::f32, Tag::x), made.y, stride, gaps, pad,
      pad);
  made.primitive = Forward(desc);
  made.w = desc.weights_desc();
  made.scratchpad = desc.scratchpad_desc();
  if (made.w != made.w_user) {
    const OmpThreads threads(reorder_threads(made.w_user));
    made.pack.emplace(
        dnnl::reorder::primitive_desc(dnnl_engine(), made.w_user, dnnl_engine(), made.w));
  }
  made.scales = numbers.multiplier;
  made.bias = numbers.offset;
  made.residual_multiplier = numbers.residual_multiplier;
  if (kScalesBeforeBias) {
    for (size_t k = 0; k < made.bias.size(); ++k) made.bias[k] /= made.scales[k];
  }
  return made;
}

constexpr int64_t kNarrow = 4096, kMostChannels = 65536;  // of results, see primitive_for()

/// The primitive, or null if oneDNN has none for these sizes.
std::shared_ptr<const Int8Primitive> primitive_for(const Conv2dGeometry& g, DType x,
                                                   const Requantization& numbers,
                                                   const QuantizedEpilogue& then) {
  // An entry holds 16 bytes for each output channel, with oneDNN 2 20: either cache 80 MiB at most.
  using Cache = LruCache<std::string, std::optional<Int8Primitive>>;
  static Cache narrow(1024), wide(64);
  Cache& cache = g.K <= kNarrow ? narrow : wide;
  Key key;
  key.add(g.N, g.C, g.H, g.W, g.K, g.R, g.S, g.stride.rows, g.stride.cols, g.pad.rows, g.pad.cols,
          g.dilation.rows, g.dilation.cols, g.groups, x, then.dtype, then.relu,
          then.residual.defined() ? then.residual.dtype() : kF32, numbers.residual_multiplier,
          conv2d_threads(g), dnnl_threads());
  key.add_all(numbers.multiplier);
  key.add_all(numbers.offset);
  const auto made = cache.get(key.bytes(), [&]() -> std::optional<Int8Primitive> {
    try {
      return make_int8_primitive(g, x, numbers, then);
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented) throw;
      return std::nullopt;
    }
  });
  if (!*made) return nullptr;
  return {made, &**made};
}

/// Of packed filters: the layouts before and after.
struct Int8Form {
  Layout user, wanted;
  bool operator==(const Int8Form&) const = default;
};

Tensor int8_memory(const Layout& layout) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  return empty({static_cast<int64_t>(layout.get_size()) + 1}, {.dtype = kI8});
}

Tensor packed_int8(const Int8Primitive& made, const Tensor& w) {
  return packed_weights(w, Int8Form{made.w_user, made.w}, [&] {
    Tensor copy = int8_memory(made.w);
    dnnl::memory from(made.w_user, dnnl_engine(), w.raw_data());
    dnnl::memory to(made.w, dnnl_engine(), copy.raw_data());
    const profile::DeviceRange range("reorder", kCPU);
    const OmpThreads threads(reorder_threads(made.w_user));
    made.pack->execute(dnnl_stream(), from, to);
    dnnl_stream().wait();
    return copy;
  });
}

/// True if products are added up in 32 bits.
bool adds_exactly() {
  return dnnl_uses(dnnl::cpu_isa::avx512_core_vnni) || dnnl_uses(dnnl::cpu_isa::avx2_vnni);
}

/// oneDNN 2 adds the bias before it scales, which a scale close to 0 forbids. Primitives of more
/// channels would fill the memory.
bool has_usable_numbers(const Conv2dGeometry& g, const Requantization& numbers) {
  constexpr int64_t kMost = INT_MAX;  // oneDNN keeps sizes as int
  if (g.K > kMostChannels) return false;
  for (size_t k = 0; k < numbers.offset.size(); ++k) {
    if (!std::isnormal(numbers.multiplier[k]) || !std::isfinite(numbers.offset[k]) ||
        !std::isfinite(numbers.offset[k] / numbers.multiplier[k])) {
      return false;
    }
  }
  return std::max({g.stride.rows, g.stride.cols, g.pad.rows, g.pad.cols, g.dilation.rows,
                   g.dilation.cols, g.N, g.H, g.W, g.C}) <= kMost;
}

void run_int8(const Conv2dGeometry& g, const Int8Primitive& made, const Tensor& y, const Tensor& x,
              const Tensor& w, const QuantizedEpilogue& then) {
  const auto memory = [](const Layout& layout, const Tensor& t) {
    return dnnl::memory(layout, dnnl_engine(), t.raw_data());
  };
  const auto numbers = [&](const std::vector<float>& values) {
    return dnnl::memory({{g.K}, Type::f32, Tag::x}, dnnl_engine(),
                        const_cast<float*>(values.data()));  // is only read
  };
  if (then.residual.defined() && then.dtype == kF32) {  // is added to what y holds
    dequantize(y, then.residual, made.residual_multiplier);
  } else if (then.residual.defined()) {
    std::memcpy(y.raw_data(), then.residual.raw_data(), static_cast<size_t>(y.bytes()));
  }
  const Tensor filters = made.pack ? packed_int8(made, w) : w,
               workspace = int8_memory(made.scratchpad);
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory(made.x, x)},
      {DNNL_ARG_WEIGHTS, memory(made.w, filters)},
      {DNNL_ARG_BIAS, numbers(made.bias)},
      {DNNL_ARG_DST, memory(made.y, y)},
  };
  if (made.scratchpad.get_size() > 0) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(made.scratchpad, workspace));
  }
  if (kChannelScalesArgument != 0) arguments.emplace(kChannelScalesArgument, numbers(made.scales));
  const OmpThreads threads(conv2d_threads(g));
  made.primitive.execute(dnnl_stream(), arguments);
  dnnl_stream().wait();
}

}  // namespace

bool fast_quantized_conv2d(const Conv2dGeometry& g, const Tensor& y, const Tensor& x,
                           const Tensor& w, const Requantization& numbers,
                           const QuantizedEpilogue& then) {
  return translate_dnnl_errors("quantized_conv2d", [&] {
    if (!adds_exactly() || !has_usable_numbers(g, numbers)) return false;
    const OmpThreads threads(conv2d_threads(g));
    const auto made = primitive_for(g, x.dtype(), numbers, then);
    if (made == nullptr) return false;
    run_int8(g, *made, y, x, w, then);
    return true;
  });
}

}  // namespace lathe::cpu
