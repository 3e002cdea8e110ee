// Times of recurrent layers and attention, for compare_layers.py, which has the same table in
// PyTorch. Reads lines "name off|bf16" and answers each with the microseconds of one call, the
// least of a window.
//   layers_lathe THREADS
#include <lathe/lathe.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

namespace {

namespace nn = lathe::nn;
using lathe::Tensor;
using Call = std::function<void()>;

/// Both passes of a layer. The gradients are thrown away.
void both_passes(nn::Module& layer, const Tensor& x, const std::function<Tensor()>& y) {
  layer.zero_grad();
  x.set_grad({});
  y().square().mean().backward();
}

template <class Layer>
Call recurrent() {
  auto layer = std::make_shared<Layer>(128, 256);
  const Tensor x = lathe::randn({64, 32, 128}).requires_grad_();
  return [=] { both_passes(*layer, x, [&] { return (*layer)(x).first; }); };
}

/// Embedding, two layers of LSTM, the scores of the next characters, and a step of Adam.
struct CharLSTM : nn::Module {
  nn::Embedding characters{*this, "characters", 65, 128};
  nn::LSTM lstm{*this, "lstm", 128, 128, {.num_layers = 2}};
  nn::Linear head{*this, "head", 128, 65};
};

Call char_lstm() {
  auto model = std::make_shared<CharLSTM>();
  auto adam = std::make_shared<lathe::optim::Adam>(model->parameters());
  const Tensor text = lathe::randint(0, 65, {65, 32}), x = text.slice(0, 0, 64);
  const Tensor next = text.slice(0, 1, 65).reshape({-1});
  return [=] {
    adam->zero_grad();
    const Tensor y = model->head(model->lstm(model->characters(x)).first);
    cross_entropy(y.view({-1, 65}), next).backward();
    adam->step();
  };
}

struct Heads {
  int64_t count, queries, keys;
  bool causal = false, backward = true;
};

Call attention(const Heads& h, lathe::DType dtype) {
  const auto make = [&](int64_t length) {
    return lathe::randn({1, h.count, length, 64}).to(dtype).requires_grad_(h.backward);
  };
  const Tensor q = make(h.queries), k = make(h.keys), v = make(h.keys);
  return [=] {
    const Tensor y = lathe::scaled_dot_product_attention(q, k, v, {.causal = h.causal});
    if (!h.backward) return;
    for (const Tensor& x : {q, k, v}) x.set_grad({});
    y.sum().backward();
  };
}

std::shared_ptr<nn::TransformerEncoder> encoder() {
  const nn::TransformerLayerOptions layer{.dim_feedforward = 1024,
                                          .dropout = 0,
                                          .activation = nn::TransformerActivation::kGELU,
                                          .batch_first = true,
                                          .norm_first = true};
  return std::make_shared<nn::TransformerEncoder>(256, 4, 4,
                                                  nn::TransformerStackOptions{.layer = layer});
}

Call encoder_passes() {
  auto layers = encoder();
  const Tensor x = lathe::randn({8, 128, 256}).requires_grad_();
  return [=] { both_passes(*layers, x, [&] { return (*layers)(x); }); };
}

/// One token behind `past` tokens.
Call decoding(int64_t past) {
  auto layers = encoder();
  layers->eval();
  auto caches = std::make_shared<std::vector<nn::KeyValueCache>>();
  layers->decode(lathe::randn({1, past, 256}), *caches);
  const Tensor x = lathe::randn({1, 1, 256});
  return [=] {
    layers->decode(x, *caches);
    for (nn::KeyValueCache& cache : *caches) cache.truncate(past);
  };
}

Call call_of(const std::string& name, lathe::DType dtype) {
  const auto heads = [dtype](const Heads& h) { return [=] { return attention(h, dtype); }; };
  const std::map<std::string, std::function<Call()>> calls = {
      {"lstm", recurrent<nn::LSTM>},
      {"gru", recurrent<nn::GRU>},
      {"char_lstm", char_lstm},
      {"attention 128", heads({8, 128, 128})},
      {"attention 512", heads({8, 512, 512})},
      {"attention 2048", heads({8, 2048, 2048})},
      {"attention 2048 causal", heads({8, 2048, 2048, true})},
      {"attention 8192", heads({1, 8192, 8192})},
      {"attention 2048 forward", heads({8, 2048, 2048, false, false})},
      {"one query 512", heads({8, 1, 512, false, false})},
      {"one query 2048", heads({8, 1, 2048, false, false})},
      {"eight queries 2048", heads({8, 8, 2048, false, false})},
      {"encoder", encoder_passes},
      {"decoding 128", [] { return decoding(128); }},
      {"decoding 1024", [] { return decoding(1024); }},
  };
  const auto found = calls.find(name);
  return found == calls.end() ? Call() : found->second();
}

/// The least time of a call in a window of 0.3 s, three calls at least; in microseconds.
double least(const Call& f) {
  using Clock = std::chrono::steady_clock;
  f();
  const auto end = Clock::now() + std::chrono::milliseconds(300);
  double best = 1e30;
  for (int i = 0; i < 3 || Clock::now() < end; ++i) {
    const auto start = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  lathe::set_num_threads(std::atoi(argv[1]));
  for (std::string line; std::getline(std::cin, line);) {
    const size_t space = line.rfind(' ');
    const bool half = line.substr(space + 1) == "bf16";
    std::optional<lathe::Autocast> amp;
    if (half) amp.emplace(lathe::Device("cpu"), lathe::kBF16);
    const Call f = call_of(line.substr(0, space), half ? lathe::kBF16 : lathe::kF32);
    std::cout << (f ? least(f) : -1.0) << std::endl;
  }
}
