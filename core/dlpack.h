// DLPack: tensors handed to and taken from other libraries of the same process (NumPy, PyTorch,
// JAX, CuPy, TVM) without a copy. The structures are those of the official dlpack.h; programs
// without it include core/dlpack_abi.h.
//
// Who owns what: an exported structure keeps the tensor's memory alive until its deleter runs,
// once, by whoever took it last. An imported one is deleted when the last tensor over its memory is
// gone.
//
// Streams: a GPU tensor is handed over in the order of a stream, and DLPack's structures do not
// name one. to_dlpack: what was asked of the current stream (core/stream.h) may still be going on;
// the taker works on that stream, or waits for an event recorded on it. from_dlpack: call it where
// the current stream has waited for the producer's; from then on lathe's rules hold. Python's
// __dlpack__ passes a stream for this purpose.
#pragma once

#include "lathe/core/tensor.h"

extern "C" {
struct DLManagedTensor;
struct DLManagedTensorVersioned;
}

namespace lathe {

/// The tensor's memory, shape and strides as DLPack 1.0's structure; shares the memory, so writes
/// are seen on both sides (and are not counted by version()). Takes part in no graph.
/// throws: StateError for a tensor that requires grad (export detach()), OutOfMemoryError.
LATHE_API DLManagedTensorVersioned* to_dlpack(const Tensor& tensor);

/// The same as the structure from before 1.0, which older consumers take.
LATHE_API DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor);

/// A tensor over the memory of another library, which is released with the last tensor that uses
/// it. A read-only one is copied and released at once; on a GPU this waits for the copy. Takes
/// bool, u8, i8 … i64, f16, bf16, f32, f64 on the CPU or a GPU, any strides of 0 or more. throws:
/// ValueError naming what is not understood (version, device, dtype, strides, alignment, sizes);
/// `managed` then still belongs to the caller.
LATHE_API Tensor from_dlpack(DLManagedTensorVersioned* managed);
LATHE_API Tensor from_dlpack(DLManagedTensor* managed);

}  // namespace lathe
