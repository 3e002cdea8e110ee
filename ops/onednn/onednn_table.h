// A table of oneDNN's functions, filled at the first use. Included by onednn.h and
// onednn_table.cpp.
//
// oneDNN is loaded at its first use and not when the program starts, because it brings OpenMP
// along, which reads OMP_WAIT_POLICY while it is being loaded: see onednn_table.cpp. So nothing
// that links this library links oneDNN or OpenMP, and a program that computes nothing does not load
// them.
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

// clang-format off
/// The functions of oneDNN that the *_dnnl.cpp files use, through dnnl.hpp. A file that needs one
/// more does not link until it is named here and in onednn.h.
#define LATHE_ONEDNN_FUNCTIONS(f)            \
  f(dnnl_engine_create)                      \
  f(dnnl_engine_destroy)                     \
  f(dnnl_get_effective_cpu_isa)              \
  f(dnnl_memory_desc_equal)                  \
  f(dnnl_memory_destroy)                     \
  f(dnnl_post_ops_append_eltwise)            \
  f(dnnl_post_ops_append_sum)                \
  f(dnnl_post_ops_create)                    \
  f(dnnl_post_ops_destroy)                   \
  f(dnnl_primitive_attr_create)              \
  f(dnnl_primitive_attr_destroy)             \
  f(dnnl_primitive_attr_set_post_ops)        \
  f(dnnl_primitive_attr_set_scratchpad_mode) \
  f(dnnl_primitive_create)                   \
  f(dnnl_primitive_desc_destroy)             \
  f(dnnl_primitive_desc_query_md)            \
  f(dnnl_primitive_destroy)                  \
  f(dnnl_primitive_execute)                  \
  f(dnnl_reorder_primitive_desc_create)      \
  f(dnnl_sgemm)                              \
  f(dnnl_stream_create)                      \
  f(dnnl_stream_destroy)                     \
  f(dnnl_stream_wait)                        \
  f(dnnl_version)
#if DNNL_VERSION_MAJOR < 3
#define LATHE_ONEDNN_VERSION_FUNCTIONS(f)                \
  f(dnnl_dilated_convolution_backward_data_desc_init)    \
  f(dnnl_dilated_convolution_backward_weights_desc_init) \
  f(dnnl_dilated_convolution_forward_desc_init)          \
  f(dnnl_matmul_desc_init)                               \
  f(dnnl_memory_desc_init_by_strides)                    \
  f(dnnl_memory_desc_init_by_tag)                        \
  f(dnnl_post_ops_append_sum_v2)                         \
  f(dnnl_primitive_attr_set_output_scales)               \
  f(dnnl_primitive_desc_iterator_create)                 \
  f(dnnl_primitive_desc_iterator_destroy)                \
  f(dnnl_primitive_desc_iterator_fetch)                  \
  LATHE_ONEDNN_MEMORY_FUNCTIONS(f)
#else
#define LATHE_ONEDNN_VERSION_FUNCTIONS(f)                    \
  f(dnnl_convolution_backward_data_primitive_desc_create)    \
  f(dnnl_convolution_backward_weights_primitive_desc_create) \
  f(dnnl_convolution_forward_primitive_desc_create)          \
  f(dnnl_matmul_primitive_desc_create)                       \
  f(dnnl_memory_desc_clone)                                  \
  f(dnnl_memory_desc_create_with_strides)                    \
  f(dnnl_memory_desc_create_with_tag)                        \
  f(dnnl_memory_desc_destroy)                                \
  f(dnnl_memory_desc_query)                                  \
  f(dnnl_primitive_attr_set_scales_mask)                     \
  LATHE_ONEDNN_MEMORY_FUNCTIONS(f)
#endif
// A oneDNN 3 that was built with sparse memory replaces these two functions by its own.
#ifdef DNNL_EXPERIMENTAL_SPARSE
#define LATHE_ONEDNN_MEMORY_FUNCTIONS(f) \
  f(dnnl_memory_create_v2)               \
  f(dnnl_memory_desc_get_size_v2)
#else
#define LATHE_ONEDNN_MEMORY_FUNCTIONS(f) \
  f(dnnl_memory_create)                  \
  f(dnnl_memory_desc_get_size)
#endif
// clang-format on

namespace lathe::cpu {

struct OneDnn {
#define LATHE_ONEDNN_MEMBER(name) decltype(&::name) name;
  LATHE_ONEDNN_FUNCTIONS(LATHE_ONEDNN_MEMBER)
  LATHE_ONEDNN_VERSION_FUNCTIONS(LATHE_ONEDNN_MEMBER)
#undef LATHE_ONEDNN_MEMBER
  // Functions of the OpenMP that oneDNN computes with; null in a oneDNN without OpenMP.
  int (*omp_get_max_threads)();
  void (*omp_set_num_threads)(int);
};

/// The table; the first call loads the library.
/// throws: Error naming the library and the cause, in every call.
const OneDnn& onednn();

/// The number of threads on which oneDNN may compute for the calling thread: num_threads(), or
/// fewer. See Note [OpenMP's threads].
int dnnl_threads();

}  // namespace lathe::cpu
