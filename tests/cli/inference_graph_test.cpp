// The model of eval and predict as a graph on a GPU: scores beside those of the layers, batches of
// any size, launches, memory; and when the layers stay.
#include "lathe/tools/cli/training/inference_graph.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "../cuda_case.h"
#include "../emulated_count.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/cuda.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/op_table.h"
#include "lathe/nn/models.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/search/conv_search.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/training/compute.h"

using namespace lathe;
using namespace lathe::cli;
using lathe::test::cuda_case;
using lathe::test::kEmulated;

namespace {

const Device kGpu(DeviceType::kCUDA);
constexpr int64_t kSide = 4;
constexpr int64_t kLayers = 8;  // of a resnet8 behind one another, with the linear one

Settings in_half() {
  Settings settings;
  settings.amp = "fp16";
  settings.layout = "nhwc";
  return settings;
}

Tensor images(int64_t count) { return randn({count, 3, kSide, kSide}).to(kGpu); }

/// A resnet8 in evaluation mode with statistics of some images; the same one for one seed.
std::unique_ptr<nn::Module> resnet8(const Settings& settings) {
  manual_seed(5);
  auto model = nn::make_model("resnet8", {.classes = 10, .image_size = kSide});
  for (int i = 0; i < 3; ++i) (*model)(randn({16, 3, kSide, kSide}));
  place_model(*model, kGpu, settings);
  model->eval();
  return model;
}

/// What a case changes, as it was before.
struct Fixture {
  Fixture() { cudnn::set_benchmark(true); }
  ~Fixture() {
    cudnn::set_benchmark(false);
    cudnn::set_fusion(true);
    conv_search().clear();
  }
  const NoGrad off;
  lathe::test::TemporaryFolder folder;
};

/// Is this what for_inference() returns for the model? `said`: a part of the line that it writes.
void check_stays(const Fixture& f, std::unique_ptr<nn::Module> model, Device device,
                 const Settings& settings, const std::string& said = "") {
  Log log(true);
  log.open(f.folder.path() / "log.txt");
  const nn::Module* const before = model.get();
  const auto after = for_inference(std::move(model), {3, kSide, kSide}, device, settings, log);
  CHECK(after.get() == before);
  const std::string lines = f.folder.read("log.txt");
  INFO(lines);
  CHECK((said.empty() ? lines.empty() : lines.find(said) != std::string::npos));
  std::filesystem::remove(f.folder.path() / "log.txt");
}

struct ReadsTheHost final : nn::Module {
  Tensor forward(const Tensor& x) override { return x * x.max().item<float>(); }
};

}  // namespace

TEST_CASE("inference graph: scores and classes of the layers, for batches of any size" *
          cuda_case()) {
  Fixture f;
  const Settings settings = in_half();
  const auto layers = resnet8(settings);
  Log log(true);
  const size_t before = cuda::memory_allocated();
  auto graph = for_inference(resnet8(settings), {3, kSide, kSide}, kGpu, settings, log);
  CHECK(graph->parameters().empty());
  CHECK(cudnn::benchmark());
  const size_t weights = cuda::memory_allocated() - before;
  size_t bytes = 0;
  for (const Tensor& t : layers->parameters()) bytes += static_cast<size_t>(t.bytes());
  CHECK(weights < bytes);  // half as much in f16, and some rounding up

  for (const int64_t count : {5, 2, 5}) {
    CAPTURE(count);
    const Tensor x = cast(images(count), count == 2 ? kF32 : kF16);
    const auto run = [&](nn::Module& model) {
      scores_of(model, x, settings);  // searches
      const uint64_t launches = cuda::counters().launches;
      const Tensor scores = scores_of(model, x, settings).cpu();
      return std::pair(scores, cuda::counters().launches - launches);
    };
    const auto [want, by_layers] = run(*layers);
    const auto [got, by_graph] = run(*graph);
    CHECK(got.dtype() == kF32);
    const double error = max(abs(got - want)).item<double>() / max(abs(want)).item<double>();
    MESSAGE("off by ", error, ", launches of our own kernels: ", by_graph, ", layer by layer ",
            by_layers);
    CHECK(error < std::ldexp(static_cast<double>(kLayers), -10));
    // A GPU may add in another order, so that scores that are close change places.
    if (kEmulated) CHECK(equal(argmax(got, 1), argmax(want, 1)));
    CHECK(by_graph < by_layers);
  }
  graph.reset();
  CHECK(cuda::memory_allocated() <= before);
}

TEST_CASE("inference graph: elsewhere the layers stay, and the log says why" * cuda_case()) {
  Fixture f;
  const Settings settings = in_half();
  Settings other = settings;
  for (const char* amp : {"off", "bf16"}) {
    other.amp = amp;
    check_stays(f, resnet8(other), kGpu, other);
  }
  other = settings;
  other.deterministic = true;
  check_stays(f, resnet8(other), kGpu, other);
  check_stays(f, resnet8(settings), kCPU, settings);
  cudnn::set_fusion(false);
  check_stays(f, resnet8(settings), kGpu, settings);
  cudnn::set_fusion(true);
  cudnn::set_benchmark(false);
  check_stays(f, resnet8(settings), kGpu, settings);
  cudnn::set_benchmark(true);

  check_stays(f, std::make_unique<ReadsTheHost>(), kGpu, settings,
              "the layers are computed one by one, not as a graph: ReadsTheHost: trace: ");
  auto model = resnet8(settings);
  for (auto& [name, t] : model->named_parameters()) {
    if (name.ends_with("bn1.bias")) t.fill_(1e6);
  }
  check_stays(f, std::move(model), kGpu, settings, "beyond 65504");
  CHECK(cudnn::benchmark());
}

TEST_CASE("inference graph: in each precision of --amp, on a CPU and on a GPU" * cuda_case()) {
  Fixture f;
  Settings settings = in_half();
  for (const Device device : {kCPU, kGpu}) {
    for (const auto& [amp, dtype] :
         {std::pair("off", kF32), std::pair("fp16", kF16), std::pair("bf16", kBF16)}) {
      CAPTURE(device);
      settings.amp = amp;
      CAPTURE(settings.amp);
      const auto model = resnet8(settings);
      model->to(device);
      const jit::Graph graph = inference_graph(*model, {3, kSide, kSide}, device, settings);
      const auto type_of = [&](int value) { return graph.values[static_cast<size_t>(value)].type; };
      const DType images = device.is_cuda() ? dtype : kF32;
      CHECK(type_of(graph.inputs[0]).dtype == images);
      CHECK(type_of(graph.outputs[0]).dtype == dtype);
      int64_t convolutions = 0;
      for (const jit::Node& node : graph.nodes) {
        if (node.op->name != "fused_conv2d" && node.op->name != "conv2d") continue;
        CHECK(type_of(node.output).dtype == dtype);
        ++convolutions;
      }
      CHECK(convolutions == kLayers - 1);
      const Tensor x = in_layout(randn({2, 3, kSide, kSide}), settings).to(device);
      const Tensor want = scores_of(*model, x, settings).cpu();
      const Tensor got = cast(graph.run({cast(x, images)})[0], kF32).cpu();
      const double rounding = dtype == kF32 ? 1e-6 : dtype == kF16 ? 0x1p-10 : 0x1p-7;
      const double error = max(abs(got - want)).item<double>() / max(abs(want)).item<double>();
      CHECK(error < static_cast<double>(kLayers) * rounding);
    }
  }
}
