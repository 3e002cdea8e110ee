// Errors at the border to C.
#include "lathe/c/call.h"

#include <new>
#include <string>

namespace lathe::c {
namespace {

thread_local std::string t_message;             // of the last failure
thread_local const char* t_fixed_message = "";  // if it is not null, in place of t_message

/// Of the exception that is being handled. Derived types come before their bases.
lathe_status status_of_current(std::string& message) try { throw; } catch (const Error& e) {
  message = e.message();
  if (dynamic_cast<const HandleError*>(&e) != nullptr) return LATHE_BAD_HANDLE;
  if (dynamic_cast<const ValueError*>(&e) != nullptr) return LATHE_BAD_VALUE;
  if (dynamic_cast<const ShapeError*>(&e) != nullptr) return LATHE_BAD_SHAPE;
  if (dynamic_cast<const DTypeError*>(&e) != nullptr) return LATHE_BAD_DTYPE;
  if (dynamic_cast<const DeviceError*>(&e) != nullptr) return LATHE_BAD_DEVICE;
  if (dynamic_cast<const IndexError*>(&e) != nullptr) return LATHE_BAD_INDEX;
  if (dynamic_cast<const StateError*>(&e) != nullptr) return LATHE_BAD_STATE;
  if (dynamic_cast<const DataError*>(&e) != nullptr) return LATHE_BAD_DATA;
  if (dynamic_cast<const FileError*>(&e) != nullptr) return LATHE_BAD_FILE;
  if (dynamic_cast<const OutOfMemoryError*>(&e) != nullptr) return LATHE_OUT_OF_MEMORY;
  if (dynamic_cast<const CudaError*>(&e) != nullptr) return LATHE_GPU_FAILED;
  return LATHE_FAILED;
} catch (const std::bad_alloc&) {
  message = "not enough memory";
  return LATHE_OUT_OF_MEMORY;
} catch (const std::exception& e) {
  message = e.what();
  return LATHE_FAILED;
} catch (...) {
  message = "an exception of an unknown type";
  return LATHE_FAILED;
}

}  // namespace

lathe_status call(std::string_view function, FunctionRef<void()> body) noexcept try {
  body();
  return LATHE_OK;
} catch (...) {
  try {
    std::string message;
    const lathe_status status = status_of_current(message);
    t_message = concat(function, ": ", message);
    t_fixed_message = nullptr;
    return status;
  } catch (...) {  // no memory for the text
    t_fixed_message = "not enough memory";
    return LATHE_OUT_OF_MEMORY;
  }
}

std::string_view text_of(const char* text, std::string_view parameter) {
  LATHE_CHECK(ValueError, text != nullptr, parameter, " is NULL");
  return text;
}

}  // namespace lathe::c

using lathe::c::t_fixed_message, lathe::c::t_message;

const char* lathe_last_error(void) {
  return t_fixed_message != nullptr ? t_fixed_message : t_message.c_str();
}

const char* lathe_status_name(lathe_status status) {
  switch (status) {
    case LATHE_OK: return "LATHE_OK";
    case LATHE_BAD_HANDLE: return "LATHE_BAD_HANDLE";
    case LATHE_BAD_VALUE: return "LATHE_BAD_VALUE";
    case LATHE_BAD_SHAPE: return "LATHE_BAD_SHAPE";
    case LATHE_BAD_DTYPE: return "LATHE_BAD_DTYPE";
    case LATHE_BAD_DEVICE: return "LATHE_BAD_DEVICE";
    case LATHE_BAD_INDEX: return "LATHE_BAD_INDEX";
    case LATHE_BAD_STATE: return "LATHE_BAD_STATE";
    case LATHE_BAD_DATA: return "LATHE_BAD_DATA";
    case LATHE_BAD_FILE: return "LATHE_BAD_FILE";
    case LATHE_OUT_OF_MEMORY: return "LATHE_OUT_OF_MEMORY";
    case LATHE_GPU_FAILED: return "LATHE_GPU_FAILED";
    case LATHE_FAILED: return "LATHE_FAILED";
  }
  return "unknown status";
}
