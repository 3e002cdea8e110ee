// Operation graphs of cuDNN. They are built and finalized without a GPU, so these cases always run.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "../cuda_case.h"
#include "conv_keys.h"
#include "lathe/core/gpu/cudnn_handle.h"
#include "lathe/ops/conv/cudnn/conv2d_engines_cudnn.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// The reason why no graph can be made; "" if it can.
std::string refusal_of(const ConvKey& key) {
  try {
    return cuda::conv2d_graph(key).get().object() != nullptr ? "" : "no descriptor";
  } catch (const ShapeError& e) {
    return e.message();
  }
}

const Conv2dCase kBlock{"block", {2, 16, 8, 8}, {16, 16, 3, 3}, {.pad = 1}};

ConvKey block_key(ConvPass pass = ConvPass::kForward) {
  return conv2d_key(pass, geometry_of(kBlock), kChannelsLast, kF16);
}

}  // namespace

TEST_CASE("cudnn graph: every convolution of ResNet-18, three passes, two orders, three dtypes") {
  int built = 0;
  for (const Conv2dCase& c : resnet18_convolutions(128)) {
    for (const ConvPass pass : kPasses)
      for (const MemoryFormat format : kFormats)
        for (const DType dtype : {kF32, kF16, kBF16}) {
          const ConvKey key = conv2d_key(pass, geometry_of(c), format, dtype);
          CHECK_MESSAGE(refusal_of(key) == "", c.name, " ", concat(key));
          ++built;
        }
  }
  CHECK(built == 22 * 3 * 2 * 3);
}

TEST_CASE("cudnn graph: every row of the convolution table that has products to add up") {
  for (const Conv2dCase& c : kConv2dCases) {
    const Conv2dGeometry g = geometry_of(c);
    if (g.is_trivial()) continue;
    for (const ConvPass pass : kPasses)
      for (const MemoryFormat format : kFormats) {
        CHECK_MESSAGE(refusal_of(conv2d_key(pass, g, format, kF32)) == "", c.name);
      }
  }
}

TEST_CASE("cudnn graph: a bias after a convolution") {
  const Conv2dGeometry g = geometry_of(kBlock);
  for (const MemoryFormat format : kFormats) {
    for (const DType dtype : {kF32, kF16, kBF16}) {
      ConvKey key = conv2d_key(ConvPass::kForward, g, format, dtype);
      key.bias = conv2d_tensor({1, g.K, 1, 1}, format, dtype);
      CHECK_MESSAGE(refusal_of(key) == "", concat(key));
    }
  }
}

TEST_CASE("cudnn graph: sizes that do not fit are refused with cuDNN's reason") {
  for (const ConvPass pass : kPasses) {
    ConvKey wrong_rows = block_key(pass);
    wrong_rows.y.dims[2] = 7;
    CHECK(refusal_of(wrong_rows).find("CUDNN_STATUS_BAD_PARAM") != std::string::npos);
    ConvKey wrong_channels = block_key(pass);
    wrong_channels.x.dims[1] = 15;
    CHECK(refusal_of(wrong_channels).find("CUDNN_STATUS_BAD_PARAM") != std::string::npos);
    ConvKey wrong_stride = block_key(pass);
    wrong_stride.stride = {2, 1};
    CHECK(refusal_of(wrong_stride).find("CUDNN_STATUS_BAD_PARAM") != std::string::npos);
  }
  ConvKey rows = block_key();
  rows.y.dims[2] = 7;
  const std::string text = refusal_of(rows);
  CHECK(text.starts_with("cudnn: finalize a convolution forward: CUDNN_STATUS_BAD_PARAM"));
  CHECK_MESSAGE(text.find('(') != std::string::npos, text);   // its account of the reason
  CHECK_MESSAGE(text.find('\n') == std::string::npos, text);  // in one line
}

TEST_CASE("cudnn descriptors: errors name the call, and nothing is kept of what failed") {
  using namespace cudnn;
  CHECK_THROWS_WITH_AS(data_type(kF64), doctest::Contains("f64"), DTypeError);
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  CHECK_THROWS_WITH_AS(tensor.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
                       doctest::Contains("of a tensor: CUDNN_STATUS_"), CudaError);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{1});
  CHECK_THROWS_WITH_AS(tensor.finalize(), doctest::Contains("finalize a tensor: CUDNN_STATUS_"),
                       Error);
  Descriptor taken = std::move(tensor);
  tensor = Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  CHECK(tensor.object() != taken.object());
  OperationGraph nothing;
  CHECK_THROWS_AS(nothing.get(), StateError);
}

TEST_CASE("cudnn graph: attributes read back as they were set") {
  using namespace cudnn;
  OperationGraph graph;
  const Descriptor& t = graph.tensor({.uid = 42,
                                      .dtype = kBF16,
                                      .dims = {2, 3, 5, 7},
                                      .strides = {105, 1, 21, 3},
                                      .alignment = 4,
                                      .is_virtual = true});
  CHECK(t.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID) == 42);
  CHECK(t.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL));
  CHECK(t.get_array<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, 8) == std::vector<int64_t>{105, 1, 21, 3});
  CHECK(t.get_array<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, 8) == std::vector<int64_t>{2, 3, 5, 7});
}

TEST_CASE("cudnn plan: an engine that does not exist is an error, not a crash") {
  const cudnn::OperationGraph graph = cuda::conv2d_graph(block_key());
  CHECK_THROWS_AS(cudnn::engine_config(graph, 1'000'000, {}), CudaError);
  CHECK_THROWS_AS(cudnn::engine_config(graph, -1, {}), CudaError);
}

TEST_CASE("cudnn: the version that was loaded has the form 9.19.0") {
  CHECK(cudnn::version().starts_with("9."));
  CHECK(std::ranges::count(cudnn::version(), '.') == 2);
}

TEST_CASE("cudnn: without a GPU there are no engines and no handle" *
          doctest::skip(cuda_is_available())) {
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    CHECK(cudnn::heuristic_configs(cuda::conv2d_graph(block_key()), mode).empty());
  }
  CHECK_THROWS_AS(cudnn::handle(Device(DeviceType::kCUDA)), Error);
}
