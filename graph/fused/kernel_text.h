// The texts of the headers that fused kernels include, as they were when the library was built: the
// arithmetic of the ops themselves, so that a fused kernel has their bits. CMakeLists.txt lists the
// files, kernel_text.cpp.in becomes the source.
#pragma once

#include <span>

namespace lathe::jit {

struct KernelHeader {
  const char* name;  // as in an #include
  const char* text;
};

std::span<const KernelHeader> kernel_headers();

}  // namespace lathe::jit
