// DLPack: tensors handed to and taken from other libraries of the same process (NumPy, PyTorch,
// JAX, CuPy, TVM) without a copy. The structures are those of the official dlpack.h; programs that
// do not have it include core/formats/dlpack_abi.h.
//
// Ownership: an exported structure keeps the tensor's memory alive until its deleter runs. The
// library that took the structure calls the deleter once. An imported structure is deleted when the
// last tensor over its memory is gone.
//
// Streams: the work that fills a GPU tensor may still be running, and DLPack's structures name no
// stream. (Python's __dlpack__ passes one for this purpose.) After to_dlpack(), the consumer must
// queue its work on the stream that was current in the call (core/stream.h), or wait for an event
// recorded on that stream. Before from_dlpack(), make the current stream wait for the producer's
// stream.
#pragma once

#include "lathe/core/tensor.h"

extern "C" {
struct DLManagedTensor;
struct DLManagedTensorVersioned;
}

namespace lathe {

/// Exports the tensor's memory, shape and strides as the structure of DLPack 1.0. The memory is
/// shared: both sides see each other's writes. version() does not count writes of the other side,
/// and autograd does not record the export.
/// throws: StateError for a tensor that requires grad (export detach()); OutOfMemoryError.
LATHE_API DLManagedTensorVersioned* to_dlpack(const Tensor& tensor);

/// Like to_dlpack(), with the structure from before DLPack 1.0, for older consumers.
LATHE_API DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor);

/// Imports a tensor over the memory of another library. This memory is released when the last
/// tensor that uses it is gone. Read-only memory is copied and then released before from_dlpack
/// returns; on a GPU the host waits for the copy. Strides must be 0 or more.
/// dtypes: bool, u8, i8 … i64, f16, bf16, f32, f64, on the CPU or a GPU.
/// throws: ValueError that names what is not supported (version, device, dtype, strides, alignment,
/// sizes); ShapeError for negative or too large sizes. If it throws, `managed` still belongs to the
/// caller.
LATHE_API Tensor from_dlpack(DLManagedTensorVersioned* managed);
LATHE_API Tensor from_dlpack(DLManagedTensor* managed);

}  // namespace lathe
