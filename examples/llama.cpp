// A small Llama that learns text character by character, then writes some with a cache of keys and
// values. Without a file, the text is a nursery rhyme whose sentences grow by one line each.
//
//   llama [STEPS [TEXT [WEIGHTS]]]
//     TEXT     a file, or - for the rhyme
//     WEIGHTS  a file with the weights to begin from
// The weights have the names of Llama's files. These put "model." before all but lm_head.
// ref: Touvron et al. 2023 (arXiv:2302.13971); Ainslie et al. 2023 (arXiv:2305.13245) for the
// shared keys and values.
#include <lathe/lathe.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
using lathe::Tensor;

// --- the model -----------------------------------------------------------------------------------

struct Config {
  int64_t characters, width = 64, heads = 4, key_heads = 2, hidden = 176, layers = 2;
};

/// Each token looks at itself and at those before it. Two heads of queries share a head of keys and
/// values. With a cache, x holds the tokens that follow those in the cache: the prompt when the
/// cache is empty, then one token a call.
struct Attention : nn::ModuleOf<Tensor(const Tensor& x, nn::KeyValueCache* cache)> {
  using ModuleOf::forward;
  int64_t heads, key_heads;
  nn::Linear q_proj, k_proj, v_proj, o_proj;

  Attention(Module& parent, const std::string& name, const Config& c)
      : ModuleOf(parent, name),
        heads(c.heads),
        key_heads(c.key_heads),
        q_proj(*this, "q_proj", c.width, c.width, {.bias = false}),
        k_proj(*this, "k_proj", c.width, c.width / c.heads * c.key_heads, {.bias = false}),
        v_proj(*this, "v_proj", c.width, c.width / c.heads * c.key_heads, {.bias = false}),
        o_proj(*this, "o_proj", c.width, c.width, {.bias = false}) {}

  Tensor forward(const Tensor& x, nn::KeyValueCache* cache) override {  // [B,T,C] → [B,T,C]
    const int64_t B = x.size(0), T = x.size(1);
    const auto split = [&](const Tensor& y, int64_t n) {  // → [B,n,T,D]
      return y.view({B, T, n, -1}).transpose(1, 2);
    };
    const int64_t position = cache ? cache->length() : 0;
    const Tensor q = lathe::rotary_embedding(split(q_proj(x), heads), {.offset = position});
    Tensor k = lathe::rotary_embedding(split(k_proj(x), key_heads), {.offset = position});
    Tensor v = split(v_proj(x), key_heads);
    if (cache) std::tie(k, v) = cache->append(k, v);
    const Tensor y =
        lathe::scaled_dot_product_attention(q, k, v, {.causal = T > 1, .grouped = true});
    return o_proj(y.transpose(1, 2).flatten(2));
  }
};

/// SwiGLU: one projection opens and closes the other.
struct Mlp : nn::Module {
  nn::Linear gate_proj, up_proj, down_proj;

  Mlp(Module& parent, const std::string& name, const Config& c)
      : Module(parent, name),
        gate_proj(*this, "gate_proj", c.width, c.hidden, {.bias = false}),
        up_proj(*this, "up_proj", c.width, c.hidden, {.bias = false}),
        down_proj(*this, "down_proj", c.hidden, c.width, {.bias = false}) {}

  Tensor forward(const Tensor& x) override {
    return down_proj(lathe::silu(gate_proj(x)) * up_proj(x));
  }
};

struct Layer : nn::ModuleOf<Tensor(const Tensor& x, nn::KeyValueCache* cache)> {
  using ModuleOf::forward;
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  Attention self_attn;
  Mlp mlp;

  explicit Layer(const Config& c)
      : input_layernorm(*this, "input_layernorm", {c.width}, {.eps = 1e-5}),
        post_attention_layernorm(*this, "post_attention_layernorm", {c.width}, {.eps = 1e-5}),
        self_attn(*this, "self_attn", c),
        mlp(*this, "mlp", c) {}

  Tensor forward(const Tensor& x, nn::KeyValueCache* cache) override {
    const Tensor h = x + self_attn(input_layernorm(x), cache);
    return h + mlp(post_attention_layernorm(h));
  }
};

using Caches = std::vector<nn::KeyValueCache>;  // one for each layer

struct Llama : nn::ModuleOf<Tensor(const Tensor& text, Caches* caches)> {
  using ModuleOf::forward;
  nn::Embedding embed_tokens;
  nn::ListOf<Layer> layers{*this, "layers"};
  nn::RMSNorm norm;
  nn::Linear lm_head;

  explicit Llama(const Config& c)
      : embed_tokens(*this, "embed_tokens", c.characters, c.width),
        norm(*this, "norm", {c.width}, {.eps = 1e-5}),
        lm_head(*this, "lm_head", c.width, c.characters, {.bias = false}) {
    for (int64_t i = 0; i < c.layers; ++i) layers.add(c);
  }

  /// i64 [B,T] → the scores of the next character at each place, [B,T,characters]
  Tensor forward(const Tensor& text, Caches* caches) override {
    Tensor h = embed_tokens(text);
    for (int64_t i = 0; i < layers.size(); ++i) {
      h = layers[i](h, caches ? &(*caches)[static_cast<size_t>(i)] : nullptr);
    }
    return lm_head(norm(h));
  }
};

/// The prompt [1,T] and the `count` characters that the model finds likeliest after it. A layer
/// computes keys and values of each character once.
Tensor write(Llama& model, const Tensor& prompt, int64_t count) {
  const lathe::NoGrad off;
  Caches caches(static_cast<size_t>(model.layers.size()));
  Tensor text = prompt, next = prompt;
  for (int64_t i = 0; i < count; ++i) {
    next = model(next, &caches).select(1, -1).argmax(-1, true);
    text = lathe::cat({text, next}, 1);
  }
  return text;
}

// --- the text ------------------------------------------------------------------------------------

/// "This is the malt that lay in the house that Jack built.", and so on up to the cock.
std::string rhyme() {
  const char* const lines[] = {"malt that lay in", "rat that ate",        "cat that killed",
                               "dog that worried", "cow that tossed",     "maiden that milked",
                               "man that kissed",  "priest that married", "cock that woke"};
  std::string text, end = "the house that Jack built.\n";
  for (const char* line : lines) {
    text += "This is " + end;
    end = std::string("the ") + line + ' ' + end;
  }
  return text + "This is " + end;
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 120;
  const std::string source = argc > 2 ? argv[2] : "-";
  std::string text = rhyme();
  if (source != "-") {
    std::ifstream file(source);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const int64_t batch = 8, T = 128, length = static_cast<int64_t>(text.size());
  if (length <= T) {
    std::cerr << source << ": not a file of more than " << T << " characters\n";
    return 2;
  }
  const std::set<char> set(text.begin(), text.end());
  const std::string characters(set.begin(), set.end());
  const lathe::Device device = lathe::cuda_is_available() ? "cuda" : "cpu";
  const auto numbers_of = [&](const std::string& of) {
    std::vector<int64_t> numbers;
    for (const char c : of) numbers.push_back(static_cast<int64_t>(characters.find(c)));
    return lathe::tensor(numbers).to(device);
  };
  const Tensor all = numbers_of(text);

  lathe::manual_seed(1);
  Llama model({.characters = static_cast<int64_t>(characters.size())});
  if (argc > 3) nn::load(model, argv[3]);
  model.to(device);
  optim::AdamW opt(model.parameters(), {.lr = 3e-3, .betas = {0.9, 0.95}, .weight_decay = 0.1});
  std::mt19937 random(1);
  std::cout.precision(8);
  for (int64_t step = 1; step <= steps; ++step) {
    lathe::Tensors windows;  // they begin anywhere
    for (int64_t i = 0; i < batch; ++i) {
      windows.push_back(all.narrow(0, int64_t(random()) % (length - T), T + 1));
    }
    const Tensor window = lathe::stack(windows);
    const Tensor scores = model(window.narrow(1, 0, T), nullptr);
    const Tensor loss =
        lathe::cross_entropy(scores.flatten(0, 1), window.narrow(1, 1, T).flatten());
    opt.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    opt.step();
    if (step <= 10 || step % 50 == 0) {
      std::cout << "step " << step << "  loss " << loss.item<float>() << std::endl;
    }
  }

  const std::string prompt = source == "-" ? "This is the cat" : text.substr(0, 15);
  const Tensor written = write(model, numbers_of(prompt).unsqueeze(0), 77);
  for (const int64_t i : written.to_vector<int64_t>()) std::cout << characters[size_t(i)];
  std::cout << '\n';
}
