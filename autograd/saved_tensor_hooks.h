// SavedTensorHooks: what ops save for the backward pass, kept in another form; SaveOnCpu: in host
// memory.
#pragma once

#include <functional>
#include <utility>

#include "lathe/core/tensor.h"

namespace lathe {

namespace autograd {
/// Takes a tensor and returns how to get it back; an empty function keeps the tensor as it is.
using Packer = std::function<std::function<Tensor()>(const Tensor&)>;
}  // namespace autograd

/// { SavedTensorHooks scope(pack, unpack); … }: ops that this thread records in the scope keep
/// pack(t) in place of each tensor t that they save. Their gradients use unpack of it, each time
/// anew.
///   pack    const Tensor& → any copyable value. Called once the op is recorded. The tensor has no
///           history; do not write it. If the value holds the tensor itself, no memory is saved and
///           in-place writes are no longer noticed.
///   unpack  that value → Tensor of t's shape, dtype and device. It gets t's history back.
/// Both run with NoGrad and without hooks. What they refer to must live until the graph is freed.
/// Scopes nest: the innermost one counts. Threads are independent.
/// throws: what pack throws, from the op, which then leaves no trace in the graph. In the backward
/// pass: what unpack throws; ShapeError, DTypeError, DeviceError if its result does not match t.
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

/// { SaveOnCpu scope; … }: tensors of a GPU that ops save go to pinned host memory, and back when
/// they are needed. Dense ones keep their layout. Leaves that require grad stay, and so do their
/// views: the graph holds them anyway. Tensors of the CPU stay. Saving waits for the GPU; getting
/// back does not.
struct LATHE_API SaveOnCpu : SavedTensorHooks {
  [[nodiscard]] SaveOnCpu();
};

namespace autograd {
/// Hands the tensors that were saved since the last call to the hooks. attach() calls it.
LATHE_API void pack_saved();
}  // namespace autograd

}  // namespace lathe
