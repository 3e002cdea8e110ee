// cuDNN's errors as exceptions.
#include "lathe/core/gpu/cudnn_check.h"

#include <algorithm>

#include "lathe/core/error.h"

namespace lathe::cudnn {

namespace {

/// cuDNN's reason for this thread's last failed call, in one line. cuDNN writes several lines if it
/// tried several engines.
std::string last_reason() {
  char text[512] = {};
  functions().cudnnGetLastErrorString(text, sizeof text);
  std::string line = text;
  while (line.ends_with('\n')) line.pop_back();
  std::ranges::replace(line, '\n', ' ');
  return line;
}

}  // namespace

std::string version_text(size_t number) {
  return concat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

std::string version() { return version_text(functions().cudnnGetVersion()); }

void check(cudnnStatus_t status, std::string_view doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  cudaGetLastError();
  std::string text = concat("cudnn: ", doing, ": ", functions().cudnnGetErrorString(status));
  if (const std::string reason = last_reason(); !reason.empty()) text += concat(" (", reason, ")");
  switch (status) {
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED: LATHE_FAIL(OutOfMemoryError, text);
    default: LATHE_FAIL(CudaError, text);
  }
}

}  // namespace lathe::cudnn
