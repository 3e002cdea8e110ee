// ONNX export: a model in evaluation mode as a graph that other runtimes execute (onnxruntime,
// TensorRT, OpenVINO).
//   nn::save_onnx(model, "resnet18.onnx", {.input = {1, 3, 224, 224}});
// onnx.cpp: which module becomes which nodes; onnx_graph.h: the file.
// ref: https://onnx.ai/onnx/repo-docs/IR.html; operators of opset 13.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lathe/core/dtype.h"
#include "lathe/core/shape.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

struct OnnxOptions {
  Shape input = {};            // of one batch: [N,C,H,W], [N,…]; must be set
  DType input_dtype = kF32;    // kI64 for a model that begins with an Embedding
  bool dynamic_batch = true;   // false: N is fixed, too
  std::string name = "model";  // of the graph
  // Texts for the programs that use the file; its metadata_props.
  std::map<std::string, std::string, std::less<>> metadata = {};
};

/// Writes the graph "input" → "output" and its weights, whose names are those of the state dict.
/// Floats are written as f32 whatever the model computes in. The file is replaced in one step
/// (core/file.h); the model is not changed. Batch norms use their running statistics, dropout
/// passes its input through, and hooks are not called.
/// Modules: Conv2d, BatchNorm1d/2d, Linear, Flatten (from dimension 1), Embedding, MaxPool2d,
/// AvgPool2d, AdaptiveAvgPool2d(1), ReLU, ReLU6, SiLU, LeakyReLU, Tanh, Sigmoid, Softmax, Dropout,
/// StochasticDepth, Identity, Sequential, MLP with a relu, Conv2dNormActivation, SqueezeExcitation,
/// the ResNets of resnet.h, MobileNetV2 and EfficientNet.
/// throws: ValueError naming a module that has no ONNX form (another class, or ceil_mode), and for
/// a model above protobuf's limit of 2 GiB; FileError.
LATHE_API void save_onnx(const Module& model, const std::string& path, const OnnxOptions& options);

/// Whether a file begins as save_onnx() writes it; another program's graphs begin differently.
/// throws: FileError.
LATHE_API bool is_saved_onnx(const std::string& path);

}  // namespace lathe::nn
