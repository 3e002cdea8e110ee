// SavedTensorHooks: keeps the tensors that ops save for the backward pass in another form.
// SaveOnCpu: keeps them in host memory.
#pragma once

#include <functional>
#include <utility>

#include "lathe/core/tensor.h"

namespace lathe {

namespace autograd {
/// Takes a tensor and returns a function that returns this tensor later. If it returns an empty
/// function, the tensor is kept as it is.
using Packer = std::function<std::function<Tensor()>(const Tensor&)>;
}  // namespace autograd

/// { SavedTensorHooks scope(pack, unpack); … }: ops that this thread records in the scope keep
/// pack(t) in place of each tensor t that they save. Whenever their gradients need t, they call
/// unpack on that value.
///   pack    const Tensor& → any copyable value. Called after the op is recorded. The tensor has no
///           history; pack must not write to it. If the value holds the tensor itself, no memory is
///           saved, and in-place writes go unnoticed.
///   unpack  the value that pack returned → a Tensor of t's shape, dtype and device. The library
///           gives it t's history back.
/// pack and unpack run with NoGrad and without hooks. The objects that pack and unpack refer to
/// must live until the graph is freed.
/// Scopes nest: the innermost one counts. Each thread has its own scopes.
/// throws: in the op that saves t, what pack throws; the op then leaves no trace in the graph. In
/// the backward pass: what unpack throws; ShapeError, DTypeError, DeviceError if its result does
/// not match t.
class LATHE_API SavedTensorHooks {
 public:
  template <class Pack, class Unpack>
  [[nodiscard]] SavedTensorHooks(Pack pack, Unpack unpack)
      : SavedTensorHooks(autograd::Packer([pack, unpack](const Tensor& t) {
          return std::function<Tensor()>(
              [value = pack(t.detach()), unpack] { return unpack(value); });
        })) {}
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

 protected:
  explicit SavedTensorHooks(autograd::Packer packer);

 private:
  autograd::Packer packer_;
  const autograd::Packer* before_;
};

/// { SaveOnCpu scope; … }: the GPU tensors that ops save are copied to pinned host memory. The
/// backward pass copies each back when it needs it. Dense tensors keep their layout. Copying to the
/// host waits for the GPU; copying back does not. These tensors are not copied:
///   - leaves that require grad, and their views: the graph holds them anyway
///   - tensors of the CPU
struct LATHE_API SaveOnCpu : SavedTensorHooks {
  [[nodiscard]] SaveOnCpu();
};

namespace autograd {
/// Calls the hooks with the tensors that ops saved after the previous pack_saved(). attach() calls
/// pack_saved().
LATHE_API void pack_saved();
}  // namespace autograd

}  // namespace lathe
