// Handles: what lathe_c.h gives to C programs, and the register of those that live. A handle is a
// number in the form of a pointer, and leads to an object only through the register. No number is
// given twice. So a handle that was freed, or never was one, is an error.
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
template <class Object> inline constexpr std::string_view kKind = {};
template <> inline constexpr std::string_view kKind<lathe_tensor> = "a tensor";
template <> inline constexpr std::string_view kKind<lathe_model> = "a model";
template <> inline constexpr std::string_view kKind<lathe_optimizer> = "an optimiser";
// clang-format on

/// The object of a handle.
/// throws: HandleError unless the handle lives and is of this kind.
void* find_object(const void* handle, std::string_view kind, std::string_view parameter);
/// → the handle of an object
void* register_object(void* object, std::string_view kind);
/// → the object; its handle is not valid any more
/// throws: HandleError as find_object().
void* unregister_handle(const void* handle, std::string_view kind, std::string_view parameter);

/// Gives the object to the C program.   → its handle
template <class Object>
Object* give(std::unique_ptr<Object> object) {
  void* const handle = register_object(object.get(), kKind<Object>);
  object.release();
  return static_cast<Object*>(handle);
}

inline lathe_tensor* give(Tensor tensor) {
  return give(std::make_unique<lathe_tensor>(std::move(tensor)));
}

/// The object of a handle.
/// throws: HandleError.
template <class Object>
Object& checked(Object* handle, std::string_view parameter) {
  return *static_cast<Object*>(find_object(handle, kKind<std::remove_const_t<Object>>, parameter));
}

/// Takes the object back and destroys it. NULL is allowed.
/// throws: HandleError.
template <class Object>
void destroy(Object* handle, std::string_view parameter) {
  if (handle == nullptr) return;
  delete static_cast<Object*>(unregister_handle(handle, kKind<Object>, parameter));
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
