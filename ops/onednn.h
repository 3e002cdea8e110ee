// oneDNN 2.6 to 3 as the *_dnnl.cpp files use it: the engine, this thread's stream, the number of
// threads, primitive descriptors, errors as Lathe's. What differs between oneDNN 2 and 3 is in this
// file alone. Included by *_dnnl.cpp files only.
#pragma once

#include <omp.h>

#include <dnnl.hpp>
#include <new>

#include "lathe/core/error.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

inline const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

inline dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  return stream;
}

/// Inside its scope oneDNN computes on num_threads() threads. OpenMP keeps that number per calling
/// thread; the caller's own is put back.
class OmpThreads {
 public:
  OmpThreads() : before_(omp_get_max_threads()) { omp_set_num_threads(num_threads()); }
  ~OmpThreads() { omp_set_num_threads(before_); }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int before_;
};

/// Does oneDNN use all instructions of this set here?
inline bool dnnl_uses(dnnl::cpu_isa set) {
  static const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (used & static_cast<unsigned>(set)) == static_cast<unsigned>(set);
}

/// Does this oneDNN describe an operation in an object of its own, `Pass::desc`? Version 2 does;
/// in version 3 its parts are arguments of the primitive descriptor.
template <class Pass>
concept HasOperationDesc = requires {
  typename Pass::desc;
};

/// The descriptor of a forward pass; `parts` as for Pass::desc of oneDNN 2. throws: dnnl::error.
template <class Pass, class... Parts>
typename Pass::primitive_desc forward_desc(const dnnl::primitive_attr& attributes,
                                           const Parts&... parts) {
  if constexpr (HasOperationDesc<Pass>) {
    return {typename Pass::desc(parts...), attributes, dnnl_engine()};
  } else {
    return {dnnl_engine(), parts..., attributes};
  }
}

/// The same of a pass backward from what `forward` describes.
template <class Pass, class Forward, class... Parts>
typename Pass::primitive_desc backward_desc(const dnnl::primitive_attr& attributes,
                                            const Forward& forward, const Parts&... parts) {
  if constexpr (HasOperationDesc<Pass>) {
    return {typename Pass::desc(parts...), attributes, dnnl_engine(), forward};
  } else {
    return {dnnl_engine(), parts..., forward, attributes};
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
