// oneDNN 2.6 to 3 as the *_dnnl.cpp files use it: the engine, the calling thread's stream, the
// number of threads, primitive descriptors, errors as Lathe's. The differences between the
// interfaces of oneDNN 2 and 3 are in this file and onednn_table.h alone. For *_dnnl.cpp files.
#pragma once

#include "lathe/ops/onednn/onednn_table.h"

// clang-format off
// These make dnnl.hpp call the functions of the table.
#define LATHE_ONEDNN(name) (::lathe::cpu::onednn().name)
#define dnnl_engine_create LATHE_ONEDNN(dnnl_engine_create)
#define dnnl_engine_destroy LATHE_ONEDNN(dnnl_engine_destroy)
#define dnnl_get_effective_cpu_isa LATHE_ONEDNN(dnnl_get_effective_cpu_isa)
#define dnnl_memory_desc_equal LATHE_ONEDNN(dnnl_memory_desc_equal)
#define dnnl_memory_destroy LATHE_ONEDNN(dnnl_memory_destroy)
#define dnnl_post_ops_append_eltwise LATHE_ONEDNN(dnnl_post_ops_append_eltwise)
#define dnnl_post_ops_append_sum LATHE_ONEDNN(dnnl_post_ops_append_sum)
#define dnnl_post_ops_create LATHE_ONEDNN(dnnl_post_ops_create)
#define dnnl_post_ops_destroy LATHE_ONEDNN(dnnl_post_ops_destroy)
#define dnnl_primitive_attr_create LATHE_ONEDNN(dnnl_primitive_attr_create)
#define dnnl_primitive_attr_destroy LATHE_ONEDNN(dnnl_primitive_attr_destroy)
#define dnnl_primitive_attr_set_post_ops LATHE_ONEDNN(dnnl_primitive_attr_set_post_ops)
#define dnnl_primitive_attr_set_scratchpad_mode LATHE_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode)
#define dnnl_primitive_create LATHE_ONEDNN(dnnl_primitive_create)
#define dnnl_primitive_desc_destroy LATHE_ONEDNN(dnnl_primitive_desc_destroy)
#define dnnl_primitive_desc_query_md LATHE_ONEDNN(dnnl_primitive_desc_query_md)
#define dnnl_primitive_destroy LATHE_ONEDNN(dnnl_primitive_destroy)
#define dnnl_primitive_execute LATHE_ONEDNN(dnnl_primitive_execute)
#define dnnl_reorder_primitive_desc_create LATHE_ONEDNN(dnnl_reorder_primitive_desc_create)
#define dnnl_sgemm LATHE_ONEDNN(dnnl_sgemm)
#define dnnl_stream_create LATHE_ONEDNN(dnnl_stream_create)
#define dnnl_stream_destroy LATHE_ONEDNN(dnnl_stream_destroy)
#define dnnl_stream_wait LATHE_ONEDNN(dnnl_stream_wait)
#define dnnl_version LATHE_ONEDNN(dnnl_version)
#if DNNL_VERSION_MAJOR < 3
#define dnnl_dilated_convolution_backward_data_desc_init LATHE_ONEDNN(dnnl_dilated_convolution_backward_data_desc_init)
#define dnnl_dilated_convolution_backward_weights_desc_init LATHE_ONEDNN(dnnl_dilated_convolution_backward_weights_desc_init)
#define dnnl_dilated_convolution_forward_desc_init LATHE_ONEDNN(dnnl_dilated_convolution_forward_desc_init)
#define dnnl_matmul_desc_init LATHE_ONEDNN(dnnl_matmul_desc_init)
#define dnnl_memory_desc_init_by_strides LATHE_ONEDNN(dnnl_memory_desc_init_by_strides)
#define dnnl_memory_desc_init_by_tag LATHE_ONEDNN(dnnl_memory_desc_init_by_tag)
#define dnnl_post_ops_append_sum_v2 LATHE_ONEDNN(dnnl_post_ops_append_sum_v2)
#define dnnl_primitive_attr_set_output_scales LATHE_ONEDNN(dnnl_primitive_attr_set_output_scales)
#define dnnl_primitive_desc_iterator_create LATHE_ONEDNN(dnnl_primitive_desc_iterator_create)
#define dnnl_primitive_desc_iterator_destroy LATHE_ONEDNN(dnnl_primitive_desc_iterator_destroy)
#define dnnl_primitive_desc_iterator_fetch LATHE_ONEDNN(dnnl_primitive_desc_iterator_fetch)
#else
#define dnnl_convolution_backward_data_primitive_desc_create LATHE_ONEDNN(dnnl_convolution_backward_data_primitive_desc_create)
#define dnnl_convolution_backward_weights_primitive_desc_create LATHE_ONEDNN(dnnl_convolution_backward_weights_primitive_desc_create)
#define dnnl_convolution_forward_primitive_desc_create LATHE_ONEDNN(dnnl_convolution_forward_primitive_desc_create)
#define dnnl_matmul_primitive_desc_create LATHE_ONEDNN(dnnl_matmul_primitive_desc_create)
#define dnnl_memory_desc_clone LATHE_ONEDNN(dnnl_memory_desc_clone)
#define dnnl_memory_desc_create_with_strides LATHE_ONEDNN(dnnl_memory_desc_create_with_strides)
#define dnnl_memory_desc_create_with_tag LATHE_ONEDNN(dnnl_memory_desc_create_with_tag)
#define dnnl_memory_desc_destroy LATHE_ONEDNN(dnnl_memory_desc_destroy)
#define dnnl_memory_desc_query LATHE_ONEDNN(dnnl_memory_desc_query)
#define dnnl_primitive_attr_set_scales_mask LATHE_ONEDNN(dnnl_primitive_attr_set_scales_mask)
#endif
#ifdef DNNL_EXPERIMENTAL_SPARSE
#define dnnl_memory_create_v2 LATHE_ONEDNN(dnnl_memory_create_v2)
#define dnnl_memory_desc_get_size_v2 LATHE_ONEDNN(dnnl_memory_desc_get_size_v2)
#else
#define dnnl_memory_create LATHE_ONEDNN(dnnl_memory_create)
#define dnnl_memory_desc_get_size LATHE_ONEDNN(dnnl_memory_desc_get_size)
#endif
#define dnnl dnnl_for_lathe  // Note [Names of header-only libraries] in core/json.h
#include <dnnl.hpp>
// clang-format on

#include <vector>

#include "lathe/core/error.h"

namespace lathe::cpu {

inline const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

inline dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  return stream;
}

/// Inside its scope oneDNN computes on `count` threads, which are at most dnnl_threads(). OpenMP
/// keeps that number per calling thread; the destructor puts the caller's own back.
class OmpThreads {
 public:
  explicit OmpThreads(int count = dnnl_threads()) {
    if (!library_.omp_set_num_threads) return;
    before_ = library_.omp_get_max_threads();
    library_.omp_set_num_threads(count);
  }
  ~OmpThreads() {
    if (library_.omp_set_num_threads) library_.omp_set_num_threads(before_);
  }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  const OneDnn& library_ = onednn();
  int before_ = 1;
};

/// True if oneDNN uses all instructions of this set on this machine.
inline bool dnnl_uses(dnnl::cpu_isa set) {
  static const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (used & static_cast<unsigned>(set)) == static_cast<unsigned>(set);
}

/// True if this oneDNN describes an operation in an object of its own, `Pass::desc`. Version 2
/// does; in version 3 the parts of that object are arguments of the primitive descriptor.
template <class Pass>
concept HasOperationDesc = requires {
  typename Pass::desc;
};

/// The descriptor of a forward pass; `parts` are those of oneDNN 2's Pass::desc.
/// throws: dnnl::error.
template <class Pass, class... Parts>
typename Pass::primitive_desc forward_desc(const dnnl::primitive_attr& attributes,
                                           const Parts&... parts) {
  if constexpr (HasOperationDesc<Pass>) {
    return {typename Pass::desc(parts...), attributes, dnnl_engine()};
  } else {
    return {dnnl_engine(), parts..., attributes};
  }
}

/// Like the function above, for a backward pass; `forward` describes the forward pass that it
/// belongs to.
template <class Pass, class Forward, class... Parts>
typename Pass::primitive_desc backward_desc(const dnnl::primitive_attr& attributes,
                                            const Forward& forward, const Parts&... parts) {
  if constexpr (HasOperationDesc<Pass>) {
    return {typename Pass::desc(parts...), attributes, dnnl_engine(), forward};
  } else {
    return {dnnl_engine(), parts..., forward, attributes};
  }
}

/// True if the sums of integers are scaled after the bias was added to them, as in oneDNN 2. In
/// version 3 the bias is added to the scaled sums.
inline constexpr bool kScalesBeforeBias = HasOperationDesc<dnnl::convolution_forward>;
/// The argument of a primitive's execution that holds its channel scales, f32; 0 in oneDNN 2, where
/// the primitive has them.
#ifdef DNNL_ARG_ATTR_SCALES
inline constexpr int kChannelScalesArgument = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS;
#else
inline constexpr int kChannelScalesArgument = 0;
#endif

/// Scales for the sums of each output channel of a convolution of integers.
template <class Attributes>  // dnnl::primitive_attr, whose members differ
void set_channel_scales(Attributes& attributes, const std::vector<float>& scales, bool grouped) {
  if constexpr (requires { attributes.set_output_scales(0, scales); }) {
    attributes.set_output_scales(1 << 1, scales);  // of the result's dimension 1
  } else {
    attributes.set_scales_mask(DNNL_ARG_WEIGHTS, grouped ? 3 : 1);  // of the filters' first ones
  }
}
/// Adds `scale` times what the result's memory holds before, read as `type`.
template <class PostOps>
void append_sum(PostOps& ops, float scale, dnnl::memory::data_type type) {
  if constexpr (requires { ops.append_sum(scale, type); }) {
    ops.append_sum(scale, type);
  } else {
    ops.append_sum(scale, 0, type);
  }
}
template <class PostOps>
void append_relu(PostOps& ops) {
  constexpr auto relu = dnnl::algorithm::eltwise_relu;
  if constexpr (requires { ops.append_eltwise(1.f, relu, 0.f, 0.f); }) {
    ops.append_eltwise(1.f, relu, 0.f, 0.f);
  } else {
    ops.append_eltwise(relu, 0.f, 0.f);
  }
}

/// Calls f; what oneDNN throws becomes an Error that names `op`.
template <class F>
decltype(auto) translate_dnnl_errors(const char* op, F&& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) {
      LATHE_FAIL(OutOfMemoryError, op, ": oneDNN ran out of memory: ", e.what());
    }
    LATHE_FAIL(Error, op, ": oneDNN failed: ", e.what());
  }
}

}  // namespace lathe::cpu
