// Handles: what lathe_c.h gives to C programs, and the register of those that live. A handle is
// looked up before it is used, so one that was freed, or never was one, is an error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/c/call.h"
#include "lathe/core/tensor.h"
#include "lathe/graph/graph.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/lathe_c.h"
#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"

struct lathe_tensor {
  lathe::Tensor value;
};

/// One of the two.
struct lathe_model {
  std::unique_ptr<lathe::jit::Program> program;
  std::optional<lathe::jit::Graph> graph;
  std::vector<std::string> inputs, outputs;            // names
  lathe::nn::Module::Named<lathe::Tensor> parameters;  // of the program
};

struct lathe_optimizer {
  std::unique_ptr<lathe::optim::Optimizer> value;
};

namespace lathe::c {

// clang-format off
template <class Handle> inline constexpr std::string_view kKind = {};
template <> inline constexpr std::string_view kKind<lathe_tensor> = "a tensor";
template <> inline constexpr std::string_view kKind<lathe_model> = "a model";
template <> inline constexpr std::string_view kKind<lathe_optimizer> = "an optimiser";
// clang-format on

/// throws: HandleError unless `handle` lives and is of this kind.
void check_handle(const void* handle, std::string_view kind, std::string_view parameter);
void register_handle(const void* handle, std::string_view kind);
/// throws: HandleError as check_handle().
void unregister_handle(const void* handle, std::string_view kind);

/// Gives the object to the C program.
template <class Handle>
Handle* give(std::unique_ptr<Handle> object) {
  register_handle(object.get(), kKind<Handle>);
  return object.release();
}

inline lathe_tensor* give(Tensor tensor) {
  return give(std::make_unique<lathe_tensor>(std::move(tensor)));
}

/// throws: HandleError.
template <class Handle>
Handle& checked(Handle* handle, std::string_view parameter) {
  check_handle(handle, kKind<std::remove_const_t<Handle>>, parameter);
  return *handle;
}

/// Takes the object back and destroys it. NULL is allowed.
/// throws: HandleError.
template <class Handle>
void destroy(Handle* handle) {
  if (handle == nullptr) return;
  unregister_handle(handle, kKind<Handle>);
  delete handle;
}

/// throws: StateError for a graph.
jit::Program& program_of(const lathe_model& model);

/// The tensors of an array of handles.
/// throws: HandleError that names the number of the wrong one; ValueError for a negative count, or
/// NULL with a count above 0.
Tensors tensors_of(int32_t count, const lathe_tensor* const* handles, std::string_view parameter);

/// throws: ValueError for a number that is no lathe_dtype.
DType dtype_of_number(lathe_dtype dtype);
/// throws: DeviceError for a GPU that there is not.
Device device_of_number(int32_t device);

}  // namespace lathe::c
