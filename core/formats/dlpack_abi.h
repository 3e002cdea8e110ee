// The C structures of DLPack 1.0, for programs without dlpack.h. A program that has dlpack.h
// includes that first, and then this header adds nothing. Written from the published ABI;
// tests/core/dlpack_test.cpp checks the layout.
// ref: https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>

#ifndef DLPACK_DLPACK_H_  // the official header's guard

extern "C" {

// clang-format off
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 } DLDeviceType;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLOpaqueHandle = 3, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6 } DLDataTypeCode;
// clang-format on

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code;    // DLDataTypeCode
  uint8_t bits;    // of one lane
  uint16_t lanes;  // 1, or the width of a vector type
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);  // may be null
} DLManagedTensor;

typedef struct {
  uint32_t major, minor;
} DLPackVersion;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;  // if another major version: only the deleter may be used
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);  // may be null
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

}  // extern "C"

#  define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#  define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

#endif
