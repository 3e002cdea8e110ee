// Models for C programs. Contract: lathe_c.h.
#include <algorithm>
#include <string>
#include <string_view>

#include "lathe/autograd/grad_mode.h"
#include "lathe/c/call.h"
#include "lathe/c/handles.h"
#include "lathe/graph/file.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/nn/weights.h"

using namespace lathe;
using c::call, c::checked, c::clear, c::give;

namespace {

std::unique_ptr<lathe_model> load_model(const std::string& path) {
  auto out = std::make_unique<lathe_model>();
  if (path.ends_with(".pt2")) {
    out->program.reset(new jit::Program(jit::load_program(path)));
    out->inputs = out->program->input_names();
    out->outputs = out->program->output_names();
    out->parameters = out->program->named_parameters();
    return out;
  }
  const bool is_onnx = path.ends_with(".onnx");
  LATHE_CHECK(ValueError, is_onnx || path.ends_with(".lathe"), path,
              ": a model's file ends in .pt2, .onnx or .lathe");
  out->graph = is_onnx ? jit::load_onnx(path).graph : jit::load(path);
  const auto names = [&](const std::vector<int>& values) {
    std::vector<std::string> all;
    for (const int value : values)
      all.push_back(out->graph->values[static_cast<size_t>(value)].name);
    return all;
  };
  out->inputs = names(out->graph->inputs);
  out->outputs = names(out->graph->outputs);
  return out;
}

template <class Names>
auto& entry(Names& names, int32_t number, std::string_view what) {
  LATHE_CHECK(IndexError, number >= 0 && static_cast<size_t>(number) < names.size(), what, " ",
              number, " of ", names.size());
  return names[static_cast<size_t>(number)];
}

Tensors run_model(const lathe_model& model, const Tensors& inputs) {
  return model.program != nullptr ? model.program->run(inputs) : model.graph->run(inputs);
}

}  // namespace

lathe_status lathe_model_load(const char* path, lathe_model** out) {
  return call("lathe_model_load", [&] {
    clear(out);
    *out = give(load_model(std::string(c::text_of(path, "path"))));
  });
}

lathe_status lathe_model_inputs(const lathe_model* model, int32_t* out) {
  return call("lathe_model_inputs", [&] {
    clear(out);
    *out = static_cast<int32_t>(checked(model, "model").inputs.size());
  });
}

lathe_status lathe_model_outputs(const lathe_model* model, int32_t* out) {
  return call("lathe_model_outputs", [&] {
    clear(out);
    *out = static_cast<int32_t>(checked(model, "model").outputs.size());
  });
}

lathe_status lathe_model_input_name(const lathe_model* model, int32_t number, const char** out) {
  return call("lathe_model_input_name", [&] {
    clear(out);
    *out = entry(checked(model, "model").inputs, number, "input").c_str();
  });
}

lathe_status lathe_model_output_name(const lathe_model* model, int32_t number, const char** out) {
  return call("lathe_model_output_name", [&] {
    clear(out);
    *out = entry(checked(model, "model").outputs, number, "output").c_str();
  });
}

lathe_status lathe_model_parameters(const lathe_model* model, int32_t* out) {
  return call("lathe_model_parameters", [&] {
    clear(out);
    *out = static_cast<int32_t>(checked(model, "model").parameters.size());
  });
}

lathe_status lathe_model_parameter(const lathe_model* model, int32_t number, const char** name,
                                   lathe_tensor** out) {
  return call("lathe_model_parameter", [&] {
    clear(out);
    clear(name);
    const auto& [text, tensor] = entry(checked(model, "model").parameters, number, "parameter");
    *out = give(tensor);
    *name = text.c_str();
  });
}

lathe_status lathe_model_to(lathe_model* model, int32_t device) {
  return call("lathe_model_to", [&] {
    lathe_model& self = checked(model, "model");
    const Device to = c::device_of_number(device);
    if (self.program != nullptr) {
      self.program->to(to);
    } else {
      self.graph->to(to);
    }
  });
}

lathe_status lathe_model_set_training(lathe_model* model, int32_t on) {
  return call("lathe_model_set_training", [&] {
    lathe_model& self = checked(model, "model");
    if (self.program != nullptr || on != 0) c::program_of(self).train(on != 0);
  });
}

lathe_status lathe_model_forward(lathe_model* model, int32_t gradients, int32_t n_inputs,
                                 const lathe_tensor* const* inputs, int32_t n_outputs,
                                 lathe_tensor** outputs) {
  return call("lathe_model_forward", [&] {
    lathe_model& self = checked(model, "model");
    LATHE_CHECK(ValueError, n_outputs >= 0 && static_cast<size_t>(n_outputs) == self.outputs.size(),
                "n_outputs is ", n_outputs, "; the model has ", self.outputs.size());
    LATHE_CHECK(ValueError, outputs != nullptr || n_outputs == 0, "outputs is NULL");
    const Tensors batch = [&] {
      try {
        return c::tensors_of(n_inputs, inputs, "inputs");
      } catch (...) {
        std::fill_n(outputs, n_outputs, nullptr);
        throw;
      }
    }();
    std::fill_n(outputs, n_outputs, nullptr);
    const autograd::ModeScope mode({.grad = gradients != 0});
    const Tensors results = run_model(self, batch);
    std::vector<std::unique_ptr<lathe_tensor>> handles;
    for (const Tensor& result : results) handles.push_back(std::make_unique<lathe_tensor>(result));
    for (size_t i = 0; i < handles.size(); ++i) outputs[i] = give(std::move(handles[i]));
  });
}

lathe_status lathe_model_load_weights(lathe_model* model, const char* path) {
  return call("lathe_model_load_weights", [&] {
    nn::load(c::program_of(checked(model, "model")), std::string(c::text_of(path, "path")));
  });
}

lathe_status lathe_model_save(const lathe_model* model, const char* path) {
  return call("lathe_model_save", [&] {
    const jit::Program& program = c::program_of(checked(model, "model"));
    const std::string file(c::text_of(path, "path"));
    if (file.ends_with(".pt2")) return jit::save_program(program, file);
    LATHE_CHECK(ValueError, file.ends_with(".safetensors"), file,
                ": a model is saved as .pt2 or .safetensors");
    nn::save(program, file);
  });
}

lathe_status lathe_model_free(lathe_model* model) {
  return call("lathe_model_free", [&] { c::destroy(model, "model"); });
}
