// See dispatch.h.
#include "lathe/core/dispatch.h"

#include <string_view>

namespace lathe {

void throw_no_cuda(const char* call) {
  const std::string_view text(call);
  LATHE_FAIL(NoCudaError, text.substr(0, text.find('(')),
             ": this build has no CUDA backend; configure with -DLATHE_CUDA=ON");
}

}  // namespace lathe
