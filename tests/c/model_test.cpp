// Models and training through the C interface, beside the same calls of C++.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lathe/graph/file.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/graph/trace.h"
#include "lathe/lathe_c.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe;
using lathe::test::TemporaryFolder;

namespace {

bool has(const char* text) {
  return std::string(lathe_last_error()).find(text) != std::string::npos;
}

constexpr int64_t kBatch[] = {5, 1};

/// The network of examples/c with a batch for it.
struct Training {
  explicit Training(const char* name = "adam", const char* options = "lr=0.01 beta2=0.9") {
    REQUIRE(lathe_tensor_wrap(x.data(), LATHE_F64, 2, kBatch, nullptr, nullptr, nullptr, &input) ==
            LATHE_OK);
    REQUIRE(lathe_tensor_wrap(y.data(), LATHE_F64, 2, kBatch, nullptr, nullptr, nullptr, &target) ==
            LATHE_OK);
    REQUIRE(lathe_model_load(LATHE_REACTION, &model) == LATHE_OK);
    REQUIRE(lathe_optimizer_new(model, name, options, &optimizer) == LATHE_OK);
  }
  ~Training() {
    CHECK(lathe_optimizer_free(optimizer) == LATHE_OK);
    CHECK(lathe_model_free(model) == LATHE_OK);
    CHECK(lathe_tensor_free(target) == LATHE_OK);
    CHECK(lathe_tensor_free(input) == LATHE_OK);
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  double step() {
    double loss = -1;
    CHECK(lathe_train_step(model, optimizer, "mse", 1, &input, target, &loss) == LATHE_OK);
    return loss;
  }
  std::vector<double> output() {
    lathe_tensor* out = nullptr;
    CHECK(lathe_model_forward(model, 0, 1, &input, 1, &out) == LATHE_OK);
    void* data = nullptr;
    CHECK(lathe_tensor_data(out, &data) == LATHE_OK);
    const auto* const values = static_cast<double*>(data);
    std::vector<double> all(values, values + x.size());
    CHECK(lathe_tensor_free(out) == LATHE_OK);
    return all;
  }

  std::vector<double> x = {0, 0.25, 0.5, 0.75, 1}, y = {0, 0.1875, 0.25, 0.1875, 0};
  lathe_tensor *input = nullptr, *target = nullptr;
  lathe_model* model = nullptr;
  lathe_optimizer* optimizer = nullptr;
};

}  // namespace

TEST_CASE("C models: training steps have the bits of those in C++") {
  Training training;
  jit::Program program = jit::load_program(LATHE_REACTION);
  optim::Adam adam(program.parameters(), {.lr = 0.01, .betas = {0.9, 0.9}});
  const Tensor x = from_blob(training.x.data(), {5, 1});
  const Tensor y = from_blob(training.y.data(), {5, 1});
  for (int step = 0; step < 5; ++step) {
    adam.zero_grad();
    const Tensor loss = mse_loss(program(x), y);
    loss.backward();
    adam.step();
    CHECK(training.step() == loss.item<double>());
  }
  CHECK(training.output() == program(x).to_vector<double>());
}

TEST_CASE("C models: names of inputs, outputs and parameters, and writing a parameter") {
  Training training;
  int32_t inputs = 0, outputs = 0, parameters = 0;
  CHECK(lathe_model_inputs(training.model, &inputs) == LATHE_OK);
  CHECK(lathe_model_outputs(training.model, &outputs) == LATHE_OK);
  CHECK(lathe_model_parameters(training.model, &parameters) == LATHE_OK);
  CHECK(inputs == 1);
  CHECK(outputs == 1);
  CHECK(parameters == 4);
  const char* text = nullptr;
  CHECK(lathe_model_input_name(training.model, 0, &text) == LATHE_OK);
  CHECK(std::string(text) == "input");
  CHECK(lathe_model_output_name(training.model, 1, &text) == LATHE_BAD_INDEX);
  CHECK(has("output 1 of 1"));
  CHECK(text == nullptr);
  lathe_tensor *bias = nullptr, *zeros = nullptr;
  CHECK(lathe_model_parameter(training.model, 3, &text, &bias) == LATHE_OK);
  CHECK(std::string(text) == "2.bias");
  const std::vector<double> before = training.output();
  const int64_t one[] = {1};
  double value = 0, old = 0;
  void* data = nullptr;
  CHECK(lathe_tensor_data(bias, &data) == LATHE_OK);
  old = *static_cast<double*>(data);
  CHECK(lathe_tensor_wrap(&value, LATHE_F64, 1, one, nullptr, nullptr, nullptr, &zeros) ==
        LATHE_OK);
  CHECK(lathe_tensor_copy(zeros, bias) == LATHE_OK);
  const std::vector<double> after = training.output();
  for (size_t i = 0; i < after.size(); ++i)
    CHECK(after[i] == doctest::Approx(before[i] - old).epsilon(1e-12));
  for (lathe_tensor* tensor : {bias, zeros}) CHECK(lathe_tensor_free(tensor) == LATHE_OK);
}

TEST_CASE("C models: a loss of the caller's through its derivative equals the loss by name") {
  Training named("sgd", "lr=0.5"), own("sgd", "lr=0.5");
  named.step();

  lathe_tensor *output = nullptr, *slope = nullptr, *loss = nullptr, *gradient = nullptr;
  CHECK(lathe_tensor_require_gradient(own.input, 1) == LATHE_OK);
  CHECK(lathe_tensor_gradient(own.input, &gradient) == LATHE_BAD_STATE);
  REQUIRE(lathe_model_forward(own.model, 1, 1, &own.input, 1, &output) == LATHE_OK);
  void* data = nullptr;
  CHECK(lathe_tensor_data(output, &data) == LATHE_OK);
  std::vector<double> derivative(5);
  for (size_t i = 0; i < 5; ++i) derivative[i] = 2 * (static_cast<double*>(data)[i] - own.y[i]) / 5;
  REQUIRE(lathe_tensor_wrap(derivative.data(), LATHE_F64, 2, kBatch, nullptr, nullptr, nullptr,
                            &slope) == LATHE_OK);
  CHECK(lathe_tensor_backward(output, nullptr) == LATHE_BAD_SHAPE);
  CHECK(lathe_tensor_backward(output, slope) == LATHE_OK);
  CHECK(lathe_tensor_gradient(own.input, &gradient) == LATHE_OK);
  CHECK(lathe_optimizer_step(own.optimizer) == LATHE_OK);
  CHECK(lathe_tensor_require_gradient(own.input, 0) == LATHE_OK);
  const std::vector<double> a = named.output(), b = own.output();
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12));
  CHECK(lathe_loss("mse", output, own.target, &loss) == LATHE_OK);
  CHECK(lathe_loss("mean", output, own.target, &loss) == LATHE_BAD_VALUE);
  CHECK(has("\"mean\" is not one of cross_entropy, mse"));
  for (lathe_tensor* tensor : {output, slope, gradient})
    CHECK(lathe_tensor_free(tensor) == LATHE_OK);
}

TEST_CASE("C models: weights and checkpoints go on to the same bits") {
  const TemporaryFolder folder;
  const std::string weights = (folder.path() / "w.safetensors").string();
  const std::string checkpoint = (folder.path() / "c.safetensors").string();
  Training first;
  first.step();
  CHECK(lathe_model_save(first.model, weights.c_str()) == LATHE_OK);
  CHECK(lathe_checkpoint_save(checkpoint.c_str(), first.model, first.optimizer) == LATHE_OK);
  first.step();
  Training second, third;
  CHECK(lathe_checkpoint_load(checkpoint.c_str(), second.model, second.optimizer) == LATHE_OK);
  second.step();
  CHECK(second.output() == first.output());
  CHECK(lathe_model_load_weights(third.model, weights.c_str()) == LATHE_OK);
  third.step();
  CHECK(third.output() != first.output());  // Adam began again
  CHECK(lathe_checkpoint_load(weights.c_str(), third.model, third.optimizer) == LATHE_BAD_DATA);
  CHECK(lathe_model_load_weights(third.model, "no-file.safetensors") == LATHE_BAD_FILE);
  CHECK(has("no-file.safetensors"));
}

TEST_CASE("C models: a trained program saved as .pt2 computes the same") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "trained.pt2").string();
  Training training;
  training.step();
  CHECK(lathe_model_save(training.model, path.c_str()) == LATHE_OK);
  lathe_model* again = nullptr;
  REQUIRE(lathe_model_load(path.c_str(), &again) == LATHE_OK);
  lathe_tensor* out = nullptr;
  CHECK(lathe_model_forward(again, 0, 1, &training.input, 1, &out) == LATHE_OK);
  void* data = nullptr;
  CHECK(lathe_tensor_data(out, &data) == LATHE_OK);
  CHECK(static_cast<double*>(data)[0] == training.output()[0]);
  CHECK(static_cast<double*>(data)[4] == training.output()[4]);
  CHECK(lathe_tensor_free(out) == LATHE_OK);
  CHECK(lathe_model_free(again) == LATHE_OK);
  CHECK(lathe_model_save(training.model, "model.onnx") == LATHE_BAD_VALUE);
  CHECK(has(".pt2 or .safetensors"));
}

TEST_CASE("C models: a GPU trains to the loss of the CPU") {
  if (lathe_gpus() == 0) return;
  Training host, training;
  CHECK(lathe_model_to(training.model, 0) == LATHE_OK);
  lathe_tensor *input = nullptr, *target = nullptr;
  REQUIRE(lathe_tensor_to(training.input, 0, LATHE_F64, &input) == LATHE_OK);
  REQUIRE(lathe_tensor_to(training.target, 0, LATHE_F64, &target) == LATHE_OK);
  int32_t device = LATHE_CPU;
  CHECK(lathe_tensor_device(input, &device) == LATHE_OK);
  CHECK(device == 0);
  lathe_optimizer* optimizer = nullptr;
  REQUIRE(lathe_optimizer_new(training.model, "sgd", "lr=0.1", &optimizer) == LATHE_OK);
  double loss = 0;
  CHECK(lathe_train_step(training.model, optimizer, "mse", 1, &input, target, &loss) == LATHE_OK);
  CHECK(loss == doctest::Approx(host.step()).epsilon(1e-12));
  CHECK(lathe_train_step(training.model, optimizer, "mse", 1, &training.input, target, &loss) ==
        LATHE_BAD_DEVICE);
  CHECK(lathe_optimizer_free(optimizer) == LATHE_OK);
  for (lathe_tensor* tensor : {input, target}) CHECK(lathe_tensor_free(tensor) == LATHE_OK);
}

TEST_CASE("C models: muon takes a whole model, vectors included") {
  Training training;
  lathe_optimizer* out = nullptr;
  CHECK(lathe_optimizer_new(training.model, "muon", "lr=0.01 ns_steps=3", &out) == LATHE_OK);
  CHECK(lathe_optimizer_free(out) == LATHE_OK);
}

TEST_CASE("C models: muon trains a network whose hidden matrices do not come first") {
  constexpr int64_t kImages[] = {4, 3, 16, 16}, kClasses[] = {4};
  std::vector<float> pixels(4 * 3 * 16 * 16);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 7) / 7;
  std::vector<int64_t> classes = {0, 1, 2, 3};
  lathe_tensor *input = nullptr, *target = nullptr;
  REQUIRE(lathe_tensor_wrap(pixels.data(), LATHE_F32, 4, kImages, nullptr, nullptr, nullptr,
                            &input) == LATHE_OK);
  REQUIRE(lathe_tensor_wrap(classes.data(), LATHE_I64, 1, kClasses, nullptr, nullptr, nullptr,
                            &target) == LATHE_OK);
  lathe_model* model = nullptr;
  REQUIRE(lathe_model_load(LATHE_CLASSIFIER, &model) == LATHE_OK);
  lathe_optimizer* optimizer = nullptr;
  REQUIRE(lathe_optimizer_new(model, "muon", "lr=0.02", &optimizer) == LATHE_OK);
  double first = 0, loss = 0;
  for (int step = 0; step < 10; ++step) {
    const lathe_status status =
        lathe_train_step(model, optimizer, "cross_entropy", 1, &input, target, &loss);
    CHECK_MESSAGE(status == LATHE_OK, lathe_last_error());
    if (step == 0) first = loss;
  }
  CHECK(loss < first);
  CHECK(lathe_optimizer_free(optimizer) == LATHE_OK);
  CHECK(lathe_model_free(model) == LATHE_OK);
  for (lathe_tensor* tensor : {input, target}) CHECK(lathe_tensor_free(tensor) == LATHE_OK);
}

TEST_CASE("C models: options of an optimiser that are wrong are named") {
  Training training;
  lathe_optimizer* out = nullptr;
  const auto refused = [&](const char* name, const char* options, const char* text) {
    CAPTURE(options);
    CHECK(lathe_optimizer_new(training.model, name, options, &out) == LATHE_BAD_VALUE);
    CHECK_MESSAGE(has(text), lathe_last_error());
    CHECK(out == nullptr);
  };
  refused("adamix", "", "\"adamix\" is not one of sgd, adam, adamw");
  refused("sgd", "lr", "\"lr\"");
  refused("sgd", "lr=0.1x", "\"lr=0.1x\"");
  refused("sgd", "lr=", "\"lr=\"");
  refused("sgd", "beta1=0.9", "beta1; there are lr, momentum, dampening, weight_decay, nesterov");
  refused("sgd", "lr=1 lr=2", "lr stands twice");
  refused("sgd", "nesterov=2", "nesterov is 2");
  refused("muon", "ns_steps=2.5", "ns_steps is 2.5");
  refused("muon", "ns_steps=1e300", "ns_steps is 1e+300");
  refused("muon", "ns_steps=nan", "ns_steps is nan");
  refused("sgd", "lr=-1", "-1");
  refused(nullptr, "", "name is NULL");
  REQUIRE(lathe_optimizer_new(training.model, "sgd", "  lr=0.1\n momentum=0.9\tnesterov=1 ",
                              &out) == LATHE_OK);
  double lr = 0;
  CHECK(lathe_optimizer_lr(out, &lr) == LATHE_OK);
  CHECK(lr == 0.1);
  CHECK(lathe_optimizer_set_lr(out, -1) == LATHE_BAD_VALUE);
  CHECK(lathe_optimizer_set_lr(out, 0.5) == LATHE_OK);
  CHECK(lathe_optimizer_lr(out, &lr) == LATHE_OK);
  CHECK(lr == 0.5);
  CHECK(lathe_optimizer_free(out) == LATHE_OK);
}

TEST_CASE("C models: a graph evaluates, and says that it does not train") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "g.lathe").string();
  nn::Linear linear(1, 1);
  linear.to(kF64);
  jit::save(jit::trace(linear, zeros({2, 1}, {.dtype = kF64})), path);
  lathe_model* graph = nullptr;
  REQUIRE(lathe_model_load(path.c_str(), &graph) == LATHE_OK);
  Training training;
  lathe_tensor* out = nullptr;
  CHECK(lathe_model_forward(graph, 0, 1, &training.input, 1, &out) == LATHE_OK);
  void* data = nullptr;
  CHECK(lathe_tensor_data(out, &data) == LATHE_OK);
  CHECK(static_cast<double*>(data)[1] ==
        linear(from_blob(training.x.data(), {5, 1})).to_vector<double>()[1]);
  CHECK(lathe_tensor_free(out) == LATHE_OK);
  lathe_optimizer* optimizer = nullptr;
  CHECK(lathe_optimizer_new(graph, "sgd", "", &optimizer) == LATHE_BAD_STATE);
  CHECK(has("does not train"));
  CHECK(lathe_model_set_training(graph, 1) == LATHE_BAD_STATE);
  CHECK(lathe_model_set_training(graph, 0) == LATHE_OK);
  CHECK(lathe_model_free(graph) == LATHE_OK);
  CHECK(lathe_model_load((folder.path() / "none.pt2").c_str(), &graph) == LATHE_BAD_FILE);
  CHECK(lathe_model_load(folder.write("bad.pt2", "text").c_str(), &graph) == LATHE_BAD_DATA);
  CHECK(has("bad.pt2"));
  CHECK(lathe_model_load("model.txt", &graph) == LATHE_BAD_VALUE);
  CHECK(has(".pt2, .onnx or .lathe"));
  CHECK(graph == nullptr);
}

TEST_CASE("C models: a batch of another shape or number is refused and changes nothing") {
  Training training;
  const std::vector<double> before = training.output();
  const int64_t wide[] = {5, 2};
  lathe_tensor *wrong = nullptr, *outs[2] = {};
  REQUIRE(lathe_tensor_zeros(LATHE_F64, 2, wide, &wrong) == LATHE_OK);
  const lathe_tensor* two[] = {training.input, training.input};
  double loss = -1;
  CHECK(lathe_train_step(training.model, training.optimizer, "mse", 1, &wrong, training.target,
                         &loss) == LATHE_BAD_SHAPE);
  CHECK(loss == 0);
  CHECK(lathe_train_step(training.model, training.optimizer, "mse", 2, two, training.target,
                         &loss) == LATHE_BAD_VALUE);
  CHECK(lathe_train_step(training.model, training.optimizer, "mse", -1, two, training.target,
                         &loss) == LATHE_BAD_VALUE);
  CHECK(lathe_train_step(training.model, training.optimizer, "mean", 1, &training.input,
                         training.target, &loss) == LATHE_BAD_VALUE);
  Training other;
  CHECK(lathe_train_step(training.model, other.optimizer, "mse", 1, &training.input,
                         training.target, &loss) == LATHE_BAD_VALUE);
  CHECK(has("another model"));
  CHECK(lathe_model_forward(training.model, 0, 1, &training.input, 2, outs) == LATHE_BAD_VALUE);
  CHECK(has("n_outputs is 2; the model has 1"));
  two[1] = nullptr;
  CHECK(lathe_model_forward(training.model, 0, 2, two, 1, outs) == LATHE_BAD_HANDLE);
  CHECK(has("inputs[1] is NULL"));
  CHECK(training.output() == before);
  lathe_tensor* both[] = {training.input};  // results in place of the inputs
  CHECK(lathe_model_forward(training.model, 0, 1, both, 1, both) == LATHE_OK);
  CHECK(both[0] != training.input);
  CHECK(lathe_tensor_free(both[0]) == LATHE_OK);
  CHECK(lathe_tensor_free(wrong) == LATHE_OK);
}

TEST_CASE("C library: version, ABI, threads, seed") {
  CHECK(std::string(lathe_version()).find('.') != std::string::npos);
  CHECK(lathe_abi_version() == LATHE_C_ABI);
  const int32_t threads = lathe_threads();
  CHECK(lathe_set_threads(1) == LATHE_OK);
  CHECK(lathe_threads() == 1);
  CHECK(lathe_set_threads(0) == LATHE_BAD_VALUE);
  CHECK(lathe_set_threads(threads) == LATHE_OK);
  CHECK(lathe_seed(3) == LATHE_OK);
  CHECK(lathe_gpus() >= 0);
}
