// Every function with handles that are NULL, freed, or of another kind.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "lathe/lathe_c.h"

namespace {

struct Handles {
  lathe_tensor* tensor;
  lathe_model* model;
  lathe_optimizer* optimizer;
};

struct Call {
  const char* name;
  std::function<lathe_status(const Handles&)> run;
  std::string kinds;  // of the handles that it takes: t, m, o
};

constexpr int64_t kSizes[] = {2};

/// All functions that take a handle. What else they take is right.
const std::vector<Call>& calls() {
  static lathe_tensor* out = nullptr;
  static lathe_tensor* outs[1] = {};
  static int32_t number = 0;
  static int64_t size = 0;
  static double real = 0;
  static void* pointer = nullptr;
  static const char* text = nullptr;
  static lathe_dtype dtype = LATHE_BOOL;
  static lathe_optimizer* optimizer = nullptr;
  static const lathe_tensor* inputs[1] = {};
  static const std::vector<Call> all = {
      {"to_dlpack", [](auto& h) { return lathe_tensor_to_dlpack(h.tensor, 1, &pointer); }, "t"},
      {"copy", [](auto& h) { return lathe_tensor_copy(h.tensor, h.tensor); }, "t"},
      {"to", [](auto& h) { return lathe_tensor_to(h.tensor, LATHE_CPU, LATHE_F32, &out); }, "t"},
      {"dtype", [](auto& h) { return lathe_tensor_dtype(h.tensor, &dtype); }, "t"},
      {"device", [](auto& h) { return lathe_tensor_device(h.tensor, &number); }, "t"},
      {"ndim", [](auto& h) { return lathe_tensor_ndim(h.tensor, &number); }, "t"},
      {"size", [](auto& h) { return lathe_tensor_size(h.tensor, 0, &size); }, "t"},
      {"stride", [](auto& h) { return lathe_tensor_stride(h.tensor, 0, &size); }, "t"},
      {"data", [](auto& h) { return lathe_tensor_data(h.tensor, &pointer); }, "t"},
      {"require", [](auto& h) { return lathe_tensor_require_gradient(h.tensor, 1); }, "t"},
      {"gradient", [](auto& h) { return lathe_tensor_gradient(h.tensor, &out); }, "t"},
      {"backward", [](auto& h) { return lathe_tensor_backward(h.tensor, nullptr); }, "t"},
      {"loss", [](auto& h) { return lathe_loss("mse", h.tensor, h.tensor, &out); }, "t"},
      {"inputs", [](auto& h) { return lathe_model_inputs(h.model, &number); }, "m"},
      {"outputs", [](auto& h) { return lathe_model_outputs(h.model, &number); }, "m"},
      {"input_name", [](auto& h) { return lathe_model_input_name(h.model, 0, &text); }, "m"},
      {"output_name", [](auto& h) { return lathe_model_output_name(h.model, 0, &text); }, "m"},
      {"parameters", [](auto& h) { return lathe_model_parameters(h.model, &number); }, "m"},
      {"parameter", [](auto& h) { return lathe_model_parameter(h.model, 0, &text, &out); }, "m"},
      {"model_to", [](auto& h) { return lathe_model_to(h.model, LATHE_CPU); }, "m"},
      {"training", [](auto& h) { return lathe_model_set_training(h.model, 0); }, "m"},
      {"forward",
       [](auto& h) {
         inputs[0] = h.tensor;
         return lathe_model_forward(h.model, 0, 1, inputs, 1, outs);
       },
       "mt"},
      {"load", [](auto& h) { return lathe_model_load_weights(h.model, "no-file"); }, "m"},
      {"save", [](auto& h) { return lathe_model_save(h.model, "/no/file"); }, "m"},
      {"optimizer", [](auto& h) { return lathe_optimizer_new(h.model, "sgd", "", &optimizer); },
       "m"},
      {"lr", [](auto& h) { return lathe_optimizer_lr(h.optimizer, &real); }, "o"},
      {"set_lr", [](auto& h) { return lathe_optimizer_set_lr(h.optimizer, 1); }, "o"},
      {"step", [](auto& h) { return lathe_optimizer_step(h.optimizer); }, "o"},
      {"zero", [](auto& h) { return lathe_optimizer_zero_gradients(h.optimizer); }, "o"},
      {"train_step",
       [](auto& h) {
         inputs[0] = h.tensor;
         return lathe_train_step(h.model, h.optimizer, "mse", 1, inputs, h.tensor, &real);
       },
       "mot"},
      {"checkpoint_save",
       [](auto& h) { return lathe_checkpoint_save("/no/file", h.model, h.optimizer); }, "mo"},
      {"checkpoint_load",
       [](auto& h) { return lathe_checkpoint_load("no-file", h.model, h.optimizer); }, "mo"},
  };
  return all;
}

Handles make() {
  Handles out{};
  REQUIRE(lathe_tensor_zeros(LATHE_F64, 1, kSizes, &out.tensor) == LATHE_OK);
  REQUIRE(lathe_model_load(LATHE_REACTION, &out.model) == LATHE_OK);
  REQUIRE(lathe_optimizer_new(out.model, "sgd", nullptr, &out.optimizer) == LATHE_OK);
  return out;
}

void release(const Handles& handles) {
  CHECK(lathe_optimizer_free(handles.optimizer) == LATHE_OK);
  CHECK(lathe_model_free(handles.model) == LATHE_OK);
  CHECK(lathe_tensor_free(handles.tensor) == LATHE_OK);
}

/// The handles with one of them replaced.
Handles replaced(Handles handles, char kind, void* by) {
  if (kind == 't') handles.tensor = static_cast<lathe_tensor*>(by);
  if (kind == 'm') handles.model = static_cast<lathe_model*>(by);
  if (kind == 'o') handles.optimizer = static_cast<lathe_optimizer*>(by);
  return handles;
}

void check_refused(const Handles& right, void* wrong, const char* text) {
  for (const Call& call : calls()) {
    for (const char kind : call.kinds) {
      CAPTURE(call.name);
      CAPTURE(kind);
      CHECK(call.run(replaced(right, kind, wrong)) == LATHE_BAD_HANDLE);
      const std::string message = lathe_last_error();
      CHECK_MESSAGE(message.find(text) != std::string::npos, message);
      CHECK(message.starts_with("lathe_"));
    }
  }
}

}  // namespace

TEST_CASE("C handles: NULL is refused by every function that takes one, but for free") {
  const Handles handles = make();
  check_refused(handles, nullptr, " is NULL");
  release({});
  release(handles);
}

TEST_CASE("C handles: what never was one is refused") {
  const Handles handles = make();
  int something = 0;
  check_refused(handles, &something, " is no handle: ");
  CHECK(lathe_tensor_free(reinterpret_cast<lathe_tensor*>(&something)) == LATHE_BAD_HANDLE);
  release(handles);
}

TEST_CASE("C handles: a freed one is refused, also by free") {
  const Handles handles = make(), freed = make();
  release(freed);
  for (const Call& call : calls()) {
    for (const char kind : call.kinds) {
      CAPTURE(call.name);
      void* const wrong = kind == 't'   ? static_cast<void*>(freed.tensor)
                          : kind == 'm' ? static_cast<void*>(freed.model)
                                        : static_cast<void*>(freed.optimizer);
      CHECK(call.run(replaced(handles, kind, wrong)) == LATHE_BAD_HANDLE);
    }
  }
  CHECK(lathe_tensor_free(freed.tensor) == LATHE_BAD_HANDLE);
  CHECK(lathe_model_free(freed.model) == LATHE_BAD_HANDLE);
  CHECK(lathe_optimizer_free(freed.optimizer) == LATHE_BAD_HANDLE);
  release(handles);
}

TEST_CASE("C handles: one of another kind is refused and says which it is") {
  const Handles handles = make();
  for (const Call& call : calls()) {
    for (const char kind : call.kinds) {
      CAPTURE(call.name);
      void* const wrong = kind == 't' ? static_cast<void*>(handles.model) : handles.tensor;
      CHECK(call.run(replaced(handles, kind, wrong)) == LATHE_BAD_HANDLE);
      const std::string message = lathe_last_error();
      const char* const expected = kind == 't'   ? "is the handle of a model, not of a tensor"
                                   : kind == 'm' ? "is the handle of a tensor, not of a model"
                                                 : "is the handle of a tensor, not of an optimiser";
      CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
    }
  }
  release(handles);
}

TEST_CASE("C handles: one that was freed never stands for a new object") {
  lathe_tensor *first = nullptr, *second = nullptr;
  REQUIRE(lathe_tensor_zeros(LATHE_F64, 1, kSizes, &first) == LATHE_OK);
  CHECK(lathe_tensor_free(first) == LATHE_OK);
  REQUIRE(lathe_tensor_zeros(LATHE_F64, 1, kSizes, &second) == LATHE_OK);
  int32_t ndim = 0;
  CHECK(lathe_tensor_ndim(first, &ndim) == LATHE_BAD_HANDLE);
  CHECK(lathe_tensor_free(first) == LATHE_BAD_HANDLE);
  CHECK(std::string(lathe_last_error()) ==
        "lathe_tensor_free: tensor is no handle: it was freed, or never made");
  CHECK(lathe_tensor_free(second) == LATHE_OK);
}

TEST_CASE("C handles: they may be freed in any order") {
  const Handles handles = make();
  const char* name = nullptr;
  lathe_tensor* parameter = nullptr;
  REQUIRE(lathe_model_parameter(handles.model, 0, &name, &parameter) == LATHE_OK);
  CHECK(std::string(name) == "0.weight");
  CHECK(lathe_model_free(handles.model) == LATHE_OK);
  CHECK(lathe_optimizer_step(handles.optimizer) == LATHE_OK);
  double lr = 0;
  CHECK(lathe_optimizer_lr(handles.optimizer, &lr) == LATHE_OK);
  CHECK(lr == 1e-3);
  CHECK(lathe_optimizer_free(handles.optimizer) == LATHE_OK);
  int64_t size = 0;
  CHECK(lathe_tensor_size(parameter, 0, &size) == LATHE_OK);
  CHECK(size == 16);
  CHECK(lathe_tensor_free(parameter) == LATHE_OK);
  CHECK(lathe_tensor_free(handles.tensor) == LATHE_OK);
}
