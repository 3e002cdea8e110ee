// Programs that go back to a file, and those that a checkpoint carries. That PyTorch runs such files
// is what pt2_models.py --steps shows.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/files/file.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/json.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/cuda_case.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/pt2_files.h"

using namespace lathe;
using data::testing::message_of;
using data::testing::TempDir;
using doctest::Contains;
using nlohmann::json;
using testing::pt2_archive;
using testing::pt2_node;
using testing::pt2_program;
using testing::pt2_tensor;

namespace {

const std::filesystem::path kGolden = LATHE_GOLDEN_PT2;

std::string golden(const std::string& name) { return (kGolden / (name + ".pt2")).string(); }

std::span<const std::byte> bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Tensors inputs_of(const std::string& name) {
  const StateDict want = safetensors::read((kGolden / (name + ".golden")).string()).tensors;
  Tensors out;
  for (size_t i = 0; want.contains(concat("in.", i)); ++i) out.push_back(want[concat("in.", i)]);
  return out;
}

/// Steps of SGD in training.   → the results of the last one
Tensors train(jit::Program& model, const Tensors& inputs, int steps) {
  manual_seed(3);
  Tensors trained;
  for (const auto& [name, p] : model.named_parameters()) {
    if (p.requires_grad()) trained.push_back(p);
  }
  std::optional<optim::SGD> sgd;
  if (!trained.empty()) sgd.emplace(trained, optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  model.train();
  Tensors results;
  for (int i = 0; i < steps; ++i) {
    results = model.run(inputs);
    Tensor loss = zeros({});
    for (const Tensor& y : results) {
      if (is_floating(y.dtype())) loss = loss + y.square().mean();
    }
    if (!sgd) continue;
    model.zero_grad();
    loss.backward();
    sgd->step();
  }
  return results;
}

bool same(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, t] : a) {
    const Tensor* const other = b.find(name);
    if (other == nullptr || other->dtype() != t.dtype() || other->strides() != t.strides()) {
      return false;
    }
    if (!equal(t, *other)) return false;
  }
  return true;
}

bool same(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

/// The content of an entry below the archive's folder; "-" if there is none.
std::string entry(const std::string& file, const std::string& name) {
  const ByteSource source(bytes_in(file), "m.pt2");
  const zip::Archive archive(source);
  for (const zip::Entry& e : archive.entries()) {
    if (e.name.substr(e.name.find('/') + 1) == name) return zip::read_all(archive, e, 1 << 30);
  }
  return "-";
}

json weights_table(const std::string& file) {
  return json::parse(entry(file, "data/weights/model_weights_config.json"))["config"];
}

std::string saved(const jit::Program& model) {
  const TempDir folder;
  jit::save_program(model, folder / "m.pt2");
  return data::testing::read_file(folder / "m.pt2");
}

jit::Program loaded(const std::string& file) { return jit::load_program(bytes_in(file), "m.pt2"); }

/// y = x w + b, where b is a constant that each call counts up.
std::string counting_program() {
  std::string spec = testing::pt2_buffer_spec("c");
  spec.replace(spec.find("true"), 4, "false");
  return pt2_archive(
      {{"models/model.json",
        pt2_program(
            concat(
                pt2_node("aten.add_.Tensor",
                         concat(pt2_tensor("self", "b_c"), ",", pt2_tensor("other", "b_c")), "n"),
                ",",
                pt2_node("aten.matmul.default",
                         concat(pt2_tensor("self", "x"), ",", pt2_tensor("other", "p_w")), "m"),
                ",",
                pt2_node("aten.add.Tensor",
                         concat(pt2_tensor("self", "m"), ",", pt2_tensor("other", "n")), "y")),
            "y", "8", spec, testing::pt2_buffer_type("c", "2,2"))},
       {"data/weights/model_weights_config.json", testing::pt2_weights({{}})},
       {"data/weights/weight_0", testing::pt2_values()},
       {"data/constants/model_constants_config.json",
        testing::pt2_weights({{.name = "c", .entry = "tensor_0"}})},
       {"data/constants/tensor_0", testing::pt2_values()}});
}

}  // namespace

TEST_CASE("pt2: a trained program is the same one after save_program(), and as architecture") {
  for (const std::string& name : data::testing::names_in(kGolden)) {
    if (!name.ends_with(".pt2")) continue;
    const std::string stem = name.substr(0, name.size() - 4);
    CAPTURE(stem);
    const Tensors inputs = inputs_of(stem);
    jit::Program model = jit::load_program(golden(stem));
    train(model, inputs, 3);

    jit::Program from_file = loaded(saved(model));
    const std::string carried = model.architecture();
    jit::Program from_checkpoint =
        jit::load_program(bytes_in(carried), "last.safetensors", model.state_dict());
    for (jit::Program* copy : {&from_file, &from_checkpoint}) {
      CHECK(same(copy->state_dict(), model.state_dict()));
      CHECK(copy->named_parameters().size() == model.named_parameters().size());
      CHECK(copy->output_names() == model.output_names());
    }
    CHECK(saved(from_file) == saved(model));
    CHECK(saved(from_checkpoint) == saved(model));
    CHECK(from_checkpoint.architecture() == carried);
    const Tensors on = train(model, inputs, 2);
    CHECK(same(on, train(from_file, inputs, 2)));
    CHECK(same(on, train(from_checkpoint, inputs, 2)));
  }
}

TEST_CASE("pt2: the program is written as it was, and values under their names") {
  const std::string before = data::testing::read_file(golden("conv_net"));
  const std::string after = saved(jit::load_program(golden("conv_net")));
  CHECK(entry(after, "models/model.json") == entry(before, "models/model.json"));
  CHECK(entry(after, "archive_format") == "pt2");
  CHECK(entry(after, "archive_version") == entry(before, "archive_version"));
  CHECK(entry(after, ".data/version") == entry(before, ".data/version"));
  CHECK(entry(after, "byteorder") == "little");
  CHECK(entry(after, "data/sample_inputs/model.pt") == "");  // torch.export.load wants an entry
  const json was = weights_table(before), is = weights_table(after);
  CHECK(was.size() == is.size());
  for (const auto& [name, payload] : was.items()) {
    CAPTURE(name);
    REQUIRE(is.contains(name));
    CHECK(is[name]["tensor_meta"] == payload["tensor_meta"]);
    CHECK(is[name]["is_param"] == payload["is_param"]);
    CHECK(is[name]["use_pickle"] == false);
    const auto values = [&](const std::string& file, const json& table) {
      return entry(file, "data/weights/" + table["path_name"].get<std::string>());
    };
    CHECK(values(after, is[name]) == values(before, payload));
  }
}

TEST_CASE("pt2: what shares memory shares it in the file, and nothing else does") {
  const json tied = weights_table(saved(jit::load_program(golden("tied_saved"))));
  CHECK(tied["token.weight"]["path_name"] == tied["head.weight"]["path_name"]);
  CHECK(tied["token.weight"]["path_name"] != tied["fc.weight"]["path_name"]);

  jit::Program model = jit::load_program(golden("alias"));
  const auto values = [&](const std::string& name) {
    const std::string file = saved(model);
    return entry(file, "data/weights/" + weights_table(file)[name]["path_name"].get<std::string>());
  };
  const auto entry_of = [&](const std::string& name) {
    return weights_table(saved(model))[name]["path_name"].get<std::string>();
  };
  const Tensor arena = rand({40});
  const auto place = [&](const std::string& name, const Shape& shape, int64_t offset) {
    for (const auto& [known, p] : model.named_parameters()) {
      if (known == name) p.set_data(alias(arena, shape, contiguous_strides(shape), offset));
    }
  };
  place("fc.weight", {4, 4}, 8);
  place("fc.bias", {4}, 24);  // behind it
  CHECK(entry_of("fc.weight") != entry_of("fc.bias"));
  CHECK(values("fc.weight").size() == 64);
  CHECK(values("fc.bias").size() == 16);
  place("fc.bias", {4}, 22);  // over its end
  CHECK(entry_of("fc.weight") == entry_of("fc.bias"));
  CHECK(values("fc.bias").size() == 72);
  const jit::Program again = loaded(saved(model));
  CHECK(same(again.state_dict(), model.state_dict()));
  CHECK(again.state_dict()["fc.bias"].shares_storage(again.state_dict()["fc.weight"]));
}

TEST_CASE("pt2: weights of another dtype, device order or shape") {
  const std::string want = saved(jit::load_program(golden("conv_net")));
  jit::Program model = jit::load_program(golden("conv_net"));
  model.to(kF64);
  CHECK(saved(model) == want);  // back in f32

  model.half();
  jit::Program rounded = loaded(saved(model));
  for (const auto& [name, t] : model.state_dict()) {
    const Tensor got = rounded.state_dict()[name];
    CHECK(got.dtype() == (is_floating(t.dtype()) ? kF32 : t.dtype()));
    CHECK(equal(got, t.to(got.dtype())));
  }

  // Strides are kept.
  jit::Program nhwc = jit::load_program(golden("conv_net"));
  nhwc.to(kChannelsLast);
  jit::Program again = loaded(saved(nhwc));
  CHECK(same(again.state_dict(), nhwc.state_dict()));
  CHECK(again.state_dict()["stem.weight"].is_contiguous(kChannelsLast));

  // A new head.
  jit::Program head = loaded(testing::pt2_file(testing::pt2_program(
      pt2_node("aten.matmul.default", pt2_tensor("self", "x") + "," + pt2_tensor("other", "p_w"),
               "y"),
      "y")));
  const Tensor fresh = rand({2, 5});
  head.named_parameters()[0].second.set_data(fresh);
  const std::string carried = head.architecture();
  CHECK(loaded(saved(head))(ones({3, 2})).shape() == Shape{3, 5});
  jit::Program wide = jit::load_program(bytes_in(carried), "m.pt2", head.state_dict());
  CHECK(equal(wide.state_dict()["w"], fresh));
}

TEST_CASE("pt2: constants are written as they are now") {
  jit::Program model = loaded(counting_program());
  const Tensor x = zeros({2, 2}), c = tensor({{1.f, 2.f}, {3.f, 4.f}});
  const NoGrad off;
  CHECK(equal(model(x), c * 2));
  CHECK(equal(loaded(saved(model))(x), c * 4));
  model.to(kF64);
  CHECK(equal(model(x.to(kF64)), (c * 4).to(kF64)));
  jit::Program again = loaded(saved(model));
  CHECK(equal(again(x), c * 8));
  const std::string carried = again.architecture();
  CHECK(equal(jit::load_program(bytes_in(carried), "m", again.state_dict())(x), c * 16));
}

TEST_CASE("pt2: constants of a program without weights are written as they are now") {
  std::string spec = testing::pt2_buffer_spec("c");
  spec.replace(spec.find("true"), 4, "false");
  std::string program = pt2_program(
      concat(pt2_node("aten.add_.Tensor",
                      concat(pt2_tensor("self", "b_c"), ",", pt2_tensor("other", "b_c")), "n"),
             ",",
             pt2_node("aten.add.Tensor",
                      concat(pt2_tensor("self", "x"), ",", pt2_tensor("other", "n")), "y")),
      "y", "8", spec, testing::pt2_buffer_type("c", "2,2"));
  const std::string weight = R"({"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}},)";
  program.erase(program.find(weight), weight.size());
  jit::Program model =
      loaded(pt2_archive({{"models/model.json", program},
                          {"data/weights/model_weights_config.json", R"({"config":{}})"},
                          {"data/constants/model_constants_config.json",
                           testing::pt2_weights({{.name = "c", .entry = "tensor_0"}})},
                          {"data/constants/tensor_0", testing::pt2_values()}}));
  const Tensor x = zeros({2, 2}), c = tensor({{1.f, 2.f}, {3.f, 4.f}});
  const NoGrad off;
  CHECK(equal(model(x.to(kF64)), (c * 2).to(kF64)));
  CHECK(equal(loaded(saved(model))(x), c * 4));
  CHECK(equal(model(x.to(kF64)), (c * 4).to(kF64)));
}

TEST_CASE("pt2: a program on a GPU is written as one on the CPU" * test::cuda_case()) {
  for (const char* name : {"conv_net", "tied", "bare"}) {
    CAPTURE(name);
    const std::string want = saved(jit::load_program(golden(name)));
    jit::Program model = jit::load_program(golden(name));
    model.to(Device(DeviceType::kCUDA));
    CHECK(saved(model) == want);
  }
}

TEST_CASE("pt2: sample inputs and extra files are kept up to 4 MiB in all") {
  const std::string large((4 << 20) - 10, 'l');
  const std::string file =
      pt2_archive({{"models/model.json", testing::pt2_small_program()},
                   {"data/weights/model_weights_config.json", testing::pt2_weights({{}})},
                   {"data/weights/weight_0", testing::pt2_values()},
                   {"data/constants/model_constants_config.json", R"({"config":{}})"},
                   {"data/sample_inputs/model.pt", "pickled"},
                   {"extra/classes.txt", "cat dog"},
                   {"extra/large", large},  // 4 bytes too many
                   {"data/aotinductor/model/x.so", "code that has the old weights"}});
  for (const std::string& out : {saved(loaded(file)), loaded(file).architecture()}) {
    CHECK(entry(out, "data/sample_inputs/model.pt") == "pickled");
    CHECK(entry(out, "extra/classes.txt") == "cat dog");
    CHECK(entry(out, "extra/large") == "-");
    CHECK(entry(out, "data/aotinductor/model/x.so") == "-");
  }
}

TEST_CASE("pt2: an architecture needs its weights, all of them and of its shapes") {
  jit::Program model = jit::load_program(golden("conv_net"));
  const std::string carried = model.architecture();
  CHECK(message_of<DataError>([&] {
          loaded(carried);
        }).find("load_program() takes weights beside a file that has none") != std::string::npos);
  const auto error = [&](const StateDict& weights) {
    return message_of<ValueError>([&] { jit::load_program(bytes_in(carried), "m.pt2", weights); });
  };
  CHECK(error({}).find("missing: ") != std::string::npos);
  StateDict wrong;
  for (const auto& [name, t] : model.state_dict()) {
    wrong.add(name, name == "stem.weight" ? zeros({8, 3, 3, 4}) : t);
  }
  CHECK(error(wrong).find("stem.weight (f32[8,3,3,4]") != std::string::npos);

  // A whole file takes other weights, too.
  const std::string file = data::testing::read_file(golden("conv_net"));
  StateDict zero;
  for (const auto& [name, t] : model.state_dict()) zero.add(name, zeros(t.shape(), t.dtype()));
  CHECK(same(jit::load_program(bytes_in(file), "m.pt2", zero).state_dict(), zero));
}

TEST_CASE("pt2: a hostile architecture takes no more memory than its weights allow") {
  const auto error = [](const testing::Pt2Weight& weight, const std::string& shape) {
    const std::string file = pt2_archive(
        {{"models/model.json",
          pt2_program(pt2_node("aten.matmul.default",
                               pt2_tensor("self", "x") + "," + pt2_tensor("other", "p_w"), "y"),
                      "y")},
         {"data/weights/model_weights_config.json", testing::pt2_weights({weight})},
         {"data/constants/model_constants_config.json", R"({"config":{}})"}});
    StateDict weights;
    weights.add("w", rand({2, 2}));
    return message_of<DataError>([&] { jit::load_program(bytes_in(file), "m.pt2", weights); }) +
           shape;
  };
  CHECK(error({.sizes = "2,1000000000000"}, "").find("the tensors and their storages have") !=
        std::string::npos);
  CHECK(error({.strides = "100000000,1"}, "").find("the tensors and their storages have") !=
        std::string::npos);
  CHECK(error({.strides = "9223372036854775807,1"}, "").find("overflows") != std::string::npos);
  CHECK(error({.sizes = "4,4", .strides = "4,1"}, "").find("has the shape [4,4] in the file") !=
        std::string::npos);
}

TEST_CASE("pt2: a file that cannot be written leaves the old one") {
  const TempDir folder;
  const std::string path = folder / "m.pt2";
  data::testing::write_file(path, "old");
  const jit::Program model = jit::load_program(golden("conv_net"));
  FileFaults& faults = file_faults();
  for (FaultPoint* fault : {&faults.open, &faults.write, &faults.sync, &faults.rename}) {
    const ArmedFault armed(*fault, 1);
    CHECK_THROWS_AS(jit::save_program(model, path), FileError);
    CHECK(data::testing::read_file(path) == "old");
    CHECK(data::testing::names_in(folder.path()).size() == 1);
  }
  CHECK_THROWS_AS(jit::save_program(model, folder / "none/m.pt2"), FileError);
  jit::save_program(model, path);
  CHECK(same(jit::load_program(path).state_dict(), model.state_dict()));
}

TEST_CASE("pt2: example inputs have the types of the export, and another batch size") {
  const jit::Program scopes = jit::load_program(golden("scopes"));
  const Tensors two = scopes.example_inputs(), five = scopes.example_inputs(5);
  REQUIRE(two.size() == 2);
  CHECK(two[1].shape() == Shape{2, 4});
  CHECK(five[0].shape() == Shape{5, 4});
  CHECK(five[1].shape() == Shape{5, 4});
  CHECK(five[1].dtype() == kF32);
  const Tensors ids = jit::load_program(golden("tied")).example_inputs();
  CHECK(ids[0].dtype() == kI64);
  // Of the free sizes [s0,s1] only the first is the batch.
  const auto free = [](const std::string& symbol, int64_t size) {
    return concat(R"j({"as_expr":{"expr_str":"Symbol(')j", symbol, R"j(')","hint":{"as_int":)j",
                  size, "}}}");
  };
  std::string program = testing::pt2_small_program();
  const std::string old = testing::pt2_type("s0,2"), sizes = R"("sizes":)";
  const size_t begin = program.find(old) + old.find(sizes) + sizes.size();
  const size_t end = program.find(']', begin) + 1;
  program.replace(begin, end - begin, concat("[", free("s0", 4), ",", free("s1", 7), "]"));
  CHECK(loaded(testing::pt2_file(program)).example_inputs(3)[0].shape() == Shape{3, 7});
}
