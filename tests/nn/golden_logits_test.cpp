// The logits of torchvision's ResNet-18 and 34 for weights that are a function of their names:
// golden_logits.h, made by golden_logits.py, which says how. A weight under another name, or of
// another shape, would change every one of them. torch_weights_test.py does the same with a .pth
// file where PyTorch is installed.
#include "golden_logits.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "golden_weights.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/npz.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/nn/resnet.h"
#include "lathe/nn/weights.h"
#include "lathe/ops/binary.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;

void check_logits(nn::Module& net, DType dtype, double tolerance, const test::GoldenLogits& want) {
  const NoGrad off;
  net.to(dtype);
  net.eval();
  const Tensor x = (test::uniforms(1000, {2, 3, 64, 64}) * 1.7).to(dtype);
  const std::vector<double> y = net(x).to_vector<double>();
  REQUIRE(y.size() == 2000);
  double square = 0;
  for (const double v : y) square += v * v;
  CHECK(std::fabs(std::sqrt(square) - want.norm) <= tolerance * want.norm);
  for (size_t i = 0; i < std::size(want.every_fortieth); ++i) {
    const double got = y[40 * i], expected = want.every_fortieth[i];
    CHECK_MESSAGE(std::fabs(got - expected) <= tolerance * (std::fabs(expected) + 1), "logit ",
                  40 * i, ": got ", got, ", PyTorch ", expected);
  }
}

TEST_CASE("torchvision's weights load by name: ResNet-18 and 34 give PyTorch's logits") {
  {
    auto net = nn::resnet18();
    net.load_state_dict(test::golden_weights(net));
    check_logits(net, kF32, 1e-4, test::kResNet18Logits);  // f32 convolutions, 20 deep
    net.to(kF64);
    net.load_state_dict(test::golden_weights(net));
    check_logits(net, kF64, 1e-10, test::kResNet18Logits);
  }
  auto net = nn::resnet34();
  net.load_state_dict(test::golden_weights(net));
  check_logits(net, kF32, 1e-4, test::kResNet34Logits);
}

TEST_CASE("weights: nn::load tells the format by the content, whatever the name") {
  const TempDir dir;
  auto net = nn::resnet8(), other = nn::resnet8();
  StateDict state = test::golden_weights(net);
  write_tensor_file(dir / "w.npz", state);
  write_tensor_file(dir / "w.safetensors", state, {{"note", "a"}});
  CHECK(tensor_file_format(dir / "w.npz") == TensorFileFormat::kNpz);
  CHECK(tensor_file_format(dir / "w.safetensors") == TensorFileFormat::kSafetensors);
  CHECK(read_tensor_file(dir / "w.safetensors").metadata.at("note") == "a");
  std::filesystem::rename(dir / "w.npz", dir / "w.bin");
  nn::load(net, dir / "w.bin");
  nn::load(other, dir / "w.safetensors");
  for (const auto& [name, tensor] : net.state_dict()) {
    CHECK(tensor.to_vector<float>() == other.state_dict().at(name).to_vector<float>());
  }
  CHECK(message_of<ValueError>([&] {
          write_tensor_file(dir / "w.pth", state);
        }).ends_with("must be .safetensors or .npz"));
  CHECK(message_of<ValueError>([&] {
          write_tensor_file(dir / "x.npz", state, {{"k", "v"}});
        }).ends_with(".npz has no place for metadata (\"k\")"));
  CHECK(message_of<ValueError>([&] {
          write_tensor_file(dir / "x.npz", state, {{"k", "v"}, {"l", "w"}});
        }).ends_with(".npz has no place for metadata (\"k\" and 1 more)"));
  data::testing::write_file(dir / "one.npy", "\x93NUMPY\1");
  CHECK(message_of<DataError>([&] { nn::load(net, dir / "one.npy"); }).find("a single array") !=
        std::string::npos);
  data::testing::write_file(dir / "old.pth", "\x80\2\x8a");
  CHECK(message_of<DataError>([&] { nn::load(net, dir / "old.pth"); }).find("before 1.6") !=
        std::string::npos);
}

}  // namespace
}  // namespace lathe
