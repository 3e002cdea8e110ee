// Weights in files, and the summary.
#include "lathe/nn/weights.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "lathe/nn/activation.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/resnet.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;

TEST_CASE("weights: save and load bring back every value, into the tensors that exist") {
  const TempDir dir;
  const std::string path = dir / "resnet8.safetensors";
  manual_seed(1);
  auto model = nn::resnet8(), other = nn::resnet8();
  model(randn({2, 3, 32, 32}));  // moves the statistics
  nn::save(model, path, {{"epoch", "7"}});
  const Tensor held = other.conv1.weight;
  nn::load(other, path);
  CHECK(held.is_same(other.conv1.weight));
  const StateDict a = model.state_dict(), b = other.state_dict();
  for (const auto& [name, t] : a) {
    CAPTURE(name);
    CHECK(t.to_vector<double>() == b.at(name).to_vector<double>());
  }
  CHECK(safetensors::read(path).metadata == safetensors::Metadata{{"epoch", "7"}});
}

TEST_CASE("weights: convolution weights are OIHW on disk whatever their layout in memory") {
  const TempDir dir;
  const std::string path = dir / "conv.safetensors";
  nn::Conv2d conv(2, 3, {.kernel = 3});
  const auto values = conv.weight.to_vector<float>();
  conv.weight.set_data(conv.weight.detach().contiguous(kChannelsLast));
  REQUIRE(conv.weight.is_contiguous(kChannelsLast));
  nn::save(conv, path);
  const Tensor read = safetensors::read(path).tensors.at("weight");
  CHECK(read.shape() == Shape{3, 2, 3, 3});
  CHECK(std::vector<float>(read.data<float>(), read.data<float>() + 54) == values);
  nn::load(conv, path);
  CHECK(conv.weight.is_contiguous(kChannelsLast));
  CHECK(conv.weight.to_vector<float>() == values);
}

TEST_CASE("weights: a file of another model is refused with its path, and nothing changes") {
  const TempDir dir;
  const std::string path = dir / "x.safetensors";
  nn::Linear small(2, 3), large(2, 4, {.bias = false});
  nn::save(small, path);
  const auto before = large.weight.to_vector<float>();
  CHECK(message_of<ValueError>([&] { nn::load(large, path); }) ==
        path +
            ": load_state_dict: Linear does not take this state: 1 unexpected: bias; 1 of another "
            "shape or dtype: "
            "weight (f32[3,2]@cpu instead of f32[4,2]@cpu)");
  CHECK(large.weight.to_vector<float>() == before);
  CHECK_THROWS_AS(nn::load(large, dir / "absent.safetensors"), FileError);
  nn::Linear bare(2, 3, {.bias = false});
  const nn::LoadReport report = nn::load(bare, path, {.strict = false});
  CHECK(report.unexpected == std::vector<std::string>{"bias"});
  CHECK(bare.weight.to_vector<float>() == small.weight.to_vector<float>());
}

TEST_CASE("weights: the other sections of a checkpoint are passed over") {
  const TempDir dir;
  const std::string path = dir / "last.safetensors";
  nn::Sequential model;
  model.add<nn::Linear>(2, 3);
  struct WithLoader : nn::Module {
    nn::Linear loader{*this, "loader", 2, 3};  // a model's own entry stays one
  } own_loader;
  for (nn::Module* module : std::initializer_list<nn::Module*>{&model, &own_loader}) {
    StateDict checkpoint = module->state_dict().clone();
    for (const char* section : {"optimizer", "scheduler", "scaler", "ema", "rng", "loader"}) {
      checkpoint.add_number(concat(section, ".0.step"), 3);
    }
    safetensors::write(path, checkpoint);
    for (const Tensor& p : module->parameters()) nn::init::zeros_(p);
    const nn::LoadReport report = nn::load(*module, path);
    CHECK(report.unexpected.empty());
    const StateDict now = module->state_dict();
    for (const auto& [name, t] : now) {
      CHECK(t.to_vector<float>() == checkpoint.at(name).to_vector<float>());
    }
    checkpoint.add_number("optimizers.step", 3);  // no section
    safetensors::write(path, checkpoint);
    CHECK(message_of<ValueError>([&] {
            nn::load(*module, path);
          }).find("1 unexpected: optimizers.step") != std::string::npos);
  }
}

TEST_CASE("weights: what wrappers put before every name is taken off, and named") {
  const TempDir dir;
  const std::string path = dir / "wrapped.safetensors";
  nn::Sequential model;
  model.add<nn::Linear>(2, 3);
  const auto values = model.parameters()[0].to_vector<float>();
  for (const char* prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod.",
                             "model.module.", "backbone.", "net.", "encoder.", "module.net."}) {
    CAPTURE(prefix);
    StateDict wrapped;
    wrapped.add_all(prefix, model.state_dict().clone());
    safetensors::write(path, wrapped);
    for (const Tensor& p : model.parameters()) nn::init::zeros_(p);
    CHECK(nn::read_weights(path, model).prefix == prefix);
    nn::load(model, path);
    CHECK(model.parameters()[0].to_vector<float>() == values);
    wrapped.add_number("criterion.weight", 1.0);  // no part of the model
    safetensors::write(path, wrapped);
    CHECK(message_of<ValueError>([&] {
            nn::load(model, path);
          }).find("1 unexpected: criterion.weight") != std::string::npos);
  }
  safetensors::write(path, model.state_dict());
  CHECK(nn::read_weights(path, model).prefix.empty());
  StateDict other;  // neither a known prefix nor a name of the model
  other.add_number("net.0.weight", 1.0);
  other.add_number("module.1.weight", 1.0);
  safetensors::write(path, other);
  CHECK(nn::read_weights(path, model).prefix.empty());
  StateDict twice;
  twice.add_all("module.", model.state_dict());
  twice.add_number("module.x", 1.0);
  twice.add_number("x", 2.0);
  safetensors::write(path, twice);
  const StateDict entries = nn::read_weights(path, model).entries;
  CHECK(entries.contains("0.weight"));
  CHECK(entries.number<double>("module.x") == 1);
  CHECK(entries.number<double>("x") == 2);
}

TEST_CASE("weights: a backbone in a larger model is found by all of its names, but the head's") {
  const TempDir dir;
  const std::string path = dir / "part.safetensors";
  auto model = nn::resnet8();
  const StateDict own = model.state_dict();
  StateDict body, some;
  for (const auto& [name, tensor] : own) {
    if (!name.starts_with("fc.")) body.add("backbone." + name, tensor);
    if (!name.starts_with("layer3.")) some.add("encoder." + name, tensor);
  }
  body.add_number("projector.weight", 1.0);
  safetensors::write(path, body);
  const nn::FileWeights found = nn::read_weights(path, model);
  CHECK(found.prefix == "backbone.");
  CHECK(found.entries.contains("layer3.0.conv1.weight"));
  CHECK(found.entries.contains("projector.weight"));
  safetensors::write(path, some);  // an encoder with some names of the model is none
  CHECK(nn::read_weights(path, model).prefix.empty());
  CHECK(nn::read_weights(path, model).entries.contains("encoder.fc.weight"));
}

TEST_CASE("weights: a count of batches in half precision is read, and is 0 where f16 ended") {
  const TempDir dir;
  const std::string path = dir / "half.safetensors";
  auto model = nn::resnet8();
  model.bn1.num_batches_tracked.fill_(1000);
  StateDict half;
  for (const auto& [name, tensor] : model.state_dict()) half.add(name, tensor.to(kF16));
  safetensors::write(path, half);
  auto other = nn::resnet8();
  nn::load(other, path);
  CHECK(other.bn1.num_batches_tracked.item<int64_t>() == 1000);
  model.bn1.num_batches_tracked.fill_(100'000);
  StateDict above;
  for (const auto& [name, tensor] : model.state_dict()) above.add(name, tensor.to(kF16));
  safetensors::write(path, above);
  nn::load(other, path);
  CHECK(other.bn1.num_batches_tracked.item<int64_t>() == 0);
}

TEST_CASE("weights: the shape of an entry by a file's header, whatever its values are") {
  const TempDir dir;
  const std::string path = dir / "w.safetensors";
  const auto write = [&](const std::string& prefix) {
    StateDict state;
    state.add_number("optimizer.conv1.weight", 1.0);
    state.add(prefix + "layer1.conv1.weight", zeros({1}));
    state.add(prefix + "conv1.weight", zeros({4, 3, 7, 7}));
    safetensors::write(path, state);
  };
  for (const char* prefix : {"", "module.", "module._orig_mod."}) {
    CAPTURE(prefix);
    write(prefix);
    CHECK(nn::stored_shape(path, "conv1.weight") == Shape({4, 3, 7, 7}));
    CHECK_FALSE(nn::stored_shape(path, "fc.weight").has_value());
    CHECK_FALSE(nn::stored_shape(path, "1.weight").has_value());
  }
  {
    std::fstream values(path, std::ios::in | std::ios::out | std::ios::binary);
    values.seekp(-1, std::ios::end).put('\x7f');
  }
  CHECK_THROWS_AS(safetensors::read(path), DataError);  // the checksum
  CHECK(nn::stored_shape(path, "conv1.weight") == Shape({4, 3, 7, 7}));
  CHECK_THROWS_AS(nn::stored_shape(dir / "none", "conv1.weight"), FileError);
}

TEST_CASE(
    "summary: shapes, parameters, multiply-adds and memory, and the model is left as it was") {
  nn::Sequential seq;
  seq.add<nn::Linear>(4, 8);
  seq.add<nn::ReLU>();
  seq.add<nn::Linear>(8, 2, nn::LinearOptions{.bias = false});
  seq[1].eval();
  const nn::Summary s = nn::summary(seq, {3, 4});
  REQUIRE(s.rows.size() == 4);
  CHECK(s.rows[0].type == "Sequential");
  CHECK(s.rows[0].output == Shape{3, 2});
  CHECK(s.rows[1].name == "0");
  CHECK(s.rows[1].parameters == 40);
  CHECK(s.rows[1].macs == 3 * 4 * 8);
  CHECK(s.parameters == 40 + 16);
  CHECK(s.trainable == 56);
  CHECK(s.macs == 3 * (4 * 8 + 8 * 2));
  CHECK(s.input_bytes == 48);
  CHECK(s.parameter_bytes == 4 * 56);
  CHECK(s.output_bytes == 4 * 3 * (8 + 8 + 2));
  CHECK(seq.is_training());
  CHECK_FALSE(seq[1].is_training());
  std::ostringstream out;
  out << s;
  CHECK_MESSAGE(out.str().find("  Linear (0)  -       [3,4]  [3,8]") != std::string::npos,
                out.str());
  CHECK(out.str().find("parameters     56 (56 trainable)") != std::string::npos);
}

TEST_CASE(
    "summary: ResNet-18 for CIFAR-10 has 0.56 G multiply-adds, batch norms included in the table") {
  auto model = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  const nn::Summary s = nn::summary(model, {1, 3, 32, 32});
  CHECK(s.parameters == 11'173'962);
  // 3x3 convolutions: conv1 27·64·1024 and 16 in the stages, 1x1 shortcuts 3, fc.
  CHECK(s.macs ==
        1'769'472 + 4 * 37'748'736 + 3 * (18'874'368 + 3 * 37'748'736) + 3 * 2'097'152 + 5120);
  for (const nn::SummaryRow& row : s.rows) {
    CAPTURE(row.name);
    CHECK(row.called);
  }
  CHECK(model.bn1.num_batches_tracked.item<int64_t>() == 0);
}

}  // namespace
}  // namespace lathe
