// The programs of docs/library.md, one function per section. The tests compile and run them, and hold the page to them.
#include <lathe/lathe.h>

#include <filesystem>
#include <iostream>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
namespace train = lathe::train;
namespace data = lathe::data;
using lathe::Tensor;

// [tensors]
void tensors() {
  Tensor a = lathe::tensor({{1.0, 2.0}, {3.0, 4.0}});  // f32, the default; tensor({1, 2}) is i64
  Tensor b = lathe::randn({2, 2}, {.dtype = lathe::kF64, .requires_grad = true});
  Tensor c = lathe::matmul(a, a.t()) + 1;         // operators broadcast; f32 with f64 gives f64
  Tensor rows = c.sum(1), kept = c.sum(1, true);  // [2] and [2,1]
  std::cout << c.shape() << ' ' << c.dtype() << ' ' << c.device() << '\n' << c << '\n';
  float first = c[0][0].item<float>();  // item() and to_vector() wait for the device
  std::vector<float> all = c.to_vector<float>();
  std::cout << first << ' ' << all.size() << ' ' << rows.ndim() << kept.ndim() << b.numel() << '\n';
}
// [indexing]
void indexing() {
  using lathe::Slice, lathe::None, lathe::Ellipsis;
  Tensor x = lathe::arange(12).view({3, 4});
  Tensor corner = x.index({Slice(0, 2), Slice(0, 2)});  // x[0:2, 0:2], a view
  Tensor last = x.index({Ellipsis, -1});                // x[..., -1]
  Tensor large = x.index({x > 6});                      // a copy of the chosen elements
  x[0] = 0;                                             // writes into x; so do the next two
  x.slice(1, 0, 2) = lathe::tensor({{7, 8}});
  x.index_put_({x > 9}, -1);
  Tensor y = x;  // names the same tensor; x.clone() copies
  std::cout << x << corner.numel() << last.numel() << large.numel() << y.is_same(x) << '\n';
}
// [gradients]
void gradients() {
  Tensor w = lathe::ones({3}, lathe::requires_grad());
  Tensor loss = (w * lathe::tensor({1.0, 2.0, 3.0})).square().sum();
  loss.backward();  // adds to w.grad()
  std::cout << w.grad() << '\n';
  {
    lathe::NoGrad off;  // nothing is recorded until the end of the scope
    w -= 0.1 * w.grad();
  }
  Tensor x = lathe::tensor({0.5}, {.dtype = lathe::kF64, .requires_grad = true});
  Tensor slope = lathe::grad({lathe::sin(x)}, {x}, {.create_graph = true})[0];
  Tensor curvature = lathe::grad({slope}, {x})[0];  // -sin(x)
  std::cout << curvature << '\n';
}
// [custom function]
struct Cube : lathe::CustomFunction<Cube> {
  static Tensor forward(Context& context, const Tensor& x) {
    context.save_for_backward({x});
    return x * x * x;
  }
  static Tensor backward(Context& context, const lathe::Tensors& dy) {
    Tensor x = context.saved_tensors()[0];
    return dy[0] * 3 * x * x;
  }
};
void custom_function() {
  Tensor x = lathe::tensor({2.0}, lathe::TensorOptions{.requires_grad = true});
  Cube::apply(x).backward();
  std::cout << x.grad() << '\n';  // 12
}
// [models]
struct Block : nn::Module {  // a member gets its parent and its name
  nn::Conv2d conv{*this, "conv", 8, 8, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn{*this, "bn", 8};
  using Module::Module;
  Tensor forward(const Tensor& x) override { return x + lathe::relu(bn(conv(x))); }
};
struct Classifier : nn::Module {
  nn::Sequential stem{*this, "stem", {nn::Conv2d(3, 8, {.kernel = 3, .pad = 1}), nn::ReLU()}};
  Block block{*this, "block"};
  nn::Parameter scale = parameter("scale", lathe::ones({1}));  // a parameter of its own
  nn::Linear head{*this, "head", 8, 10};
  Tensor forward(const Tensor& x) override { return head(block(stem(x)).mean({2, 3}) * scale); }
};
void models() {
  Classifier model;
  std::cout << nn::summary(model, {1, 3, 16, 16}) << '\n';
  for (auto& [name, p] : model.named_parameters()) std::cout << name << ' ' << p.shape() << '\n';
  nn::save(model, "classifier.safetensors");
  nn::load(model, "classifier.safetensors");  // all or nothing; names what does not fit
  model.head = nn::Linear(8, 3);              // another head, before an optimiser is made
}
// Inputs and outputs of any kind: the signature is part of the type.
struct Gate : nn::ModuleOf<Tensor(const Tensor& x, const Tensor& mask)> {
  using ModuleOf::ModuleOf, ModuleOf::forward;
  nn::Linear fc{*this, "fc", 8, 8};
  Tensor forward(const Tensor& x, const Tensor& mask) override { return fc(x) * mask; }
};
// [training]
void training() {
  lathe::manual_seed(7);
  lathe::Device device = lathe::cuda_is_available() ? "cuda" : "cpu";
  data::Synthetic images({.size = 256}, data::normalize({0.5, 0.5, 0.5}, {0.3, 0.3, 0.3}));
  data::DataLoader loader(images, {.batch_size = 64, .shuffle = true, .num_workers = 1, .seed = 7});
  Classifier model;
  model.to(device);
  optim::AdamW opt(model.parameters(), {.lr = 3e-3});
  optim::StepLR schedule(opt, {.step_size = 1, .gamma = 0.5});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& [x, y] : data::prefetch(loader, device)) {
      opt.zero_grad();
      Tensor loss = lathe::cross_entropy(model(x), y);
      loss.backward();
      optim::clip_grad_norm_(model.parameters(), 1.0);
      opt.step();
    }
    schedule.step();
    lathe::save_checkpoint(
        "last.safetensors",
        {{"model", model}, {"optimizer", opt}, {"scheduler", schedule}, {"loader", loader}});
  }
}
// [step]
void one_step() {
  lathe::Device device = lathe::cuda_is_available() ? "cuda" : "cpu";
  data::Synthetic images({.size = 256}, data::normalize({0.5, 0.5, 0.5}, {0.3, 0.3, 0.3}));
  data::DataLoader loader(images, {.batch_size = 64, .shuffle = true, .seed = 7});
  Classifier model;
  model.to(device);
  optim::AdamW opt(model.parameters(), {.lr = 3e-3});
  train::Step step(model, opt, train::classification(model), {.amp = "bf16", .clip_grad_norm = 1});
  train::Metric accuracy = train::accuracy();
  for (auto& [x, y] : data::prefetch(loader, device)) accuracy.add(step({x, y}));
  std::cout << "accuracy " << accuracy.value() << '\n';
}
// [graphs]
void captured_step() {
  if (!lathe::cuda_is_available()) return;
  Classifier model;
  model.to("cuda");
  optim::SGD opt(model.parameters(), {.lr = 0.1});
  opt.set_capturable();  // its learning rate and count of steps are read in the GPU's memory
  auto step = lathe::cuda::capture(
      [&](const lathe::Tensors& in) {
        Tensor loss = lathe::cross_entropy(model(in[0]), in[1]);
        loss.backward();
        opt.step();
        opt.zero_grad();
        return lathe::Tensors{loss};
      },
      {.state = model.parameters()});
  Tensor labels = lathe::zeros({8}, {.dtype = lathe::kI64, .device = "cuda"});
  for (int i = 0; i < 5; ++i) {  // two calls run the step, the third records it
    Tensor images = lathe::randn({8, 3, 16, 16}, {.device = "cuda"});
    std::cout << step({images, labels})[0] << '\n';
  }
}
// [errors]
void errors() {
  try {
    lathe::matmul(lathe::zeros({2, 3}), lathe::zeros({2, 3}));
  } catch (const lathe::ShapeError& e) {
    std::cout << e.what() << '\n';  // names the op, both shapes and the place in the source
  }
}
// [end]

int main() {
  tensors();
  indexing();
  gradients();
  custom_function();
  models();
  training();
  one_step();
  captured_step();
  errors();
  for (const char* file : {"classifier.safetensors", "last.safetensors"})
    std::filesystem::remove(file);
  std::cout << "done\n";
}
