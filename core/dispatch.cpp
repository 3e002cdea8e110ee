// The error of a CPU-only build that is asked to run on a GPU.
#include "lathe/core/dispatch.h"

#include <string_view>

namespace lathe {

void throw_no_cuda(const char* call) {
  const std::string_view text(call);
  LATHE_FAIL(NoCudaError, text.substr(0, text.find('(')),
             ": this build has no CUDA backend; configure with -DLATHE_CUDA=ON");
}

}  // namespace lathe
