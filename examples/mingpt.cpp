// A small GPT that learns text character by character, then writes some. Without a file, the text
// is sums such as "07+85=092;". A tenth of all sums never appears in it; in the end the model is
// asked those, so it must have learnt a rule and not a list.
//
//   mingpt [STEPS [DIGITS [WEIGHTS]]]      sums of numbers of that many digits, 1 to 4
//   mingpt STEPS FILE [WEIGHTS]            any text
// WEIGHTS is a file with the weights to begin from.
// ref: Radford et al. 2019 (GPT-2); Press and Wolf 2017 (arXiv:1608.05859) for the tied weights.
#include <lathe/lathe.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <random>
#include <string>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
using lathe::Tensor;

// --- the model -----------------------------------------------------------------------------------

struct Config {
  int64_t characters, context, width = 64, heads = 4, blocks = 2;
};

/// Each place looks at itself and at those before it.
struct Attention : nn::Module {
  int64_t heads;
  nn::Linear qkv, out;

  Attention(Module& parent, const std::string& name, const Config& c)
      : Module(parent, name),
        heads(c.heads),
        qkv(*this, "qkv", c.width, 3 * c.width),
        out(*this, "out", c.width, c.width) {}

  Tensor forward(const Tensor& x) override {  // [B,T,C] → [B,T,C]
    const int64_t B = x.size(0), T = x.size(1), C = x.size(2), D = C / heads;
    const Tensor parts = qkv(x).view({B, T, 3, heads, D}).permute({2, 0, 3, 1, 4});
    const Tensor q = parts[0], k = parts[1], v = parts[2];  // [B,heads,T,D] each
    const Tensor future =
        lathe::ones({T, T}, {.dtype = lathe::kBool, .device = x.device()}).triu(1);
    const Tensor scores = lathe::matmul(q, k.transpose(-2, -1)) / std::sqrt(double(D));
    const double never = -std::numeric_limits<double>::infinity();
    const Tensor weights = scores.masked_fill(future, never).softmax(-1);
    return out(lathe::matmul(weights, v).transpose(1, 2).reshape({B, T, C}));
  }
};

struct Block : nn::Module {
  nn::LayerNorm norm1, norm2;
  Attention attention;
  nn::Linear up, down;

  explicit Block(const Config& c)
      : norm1(*this, "norm1", c.width),
        norm2(*this, "norm2", c.width),
        attention(*this, "attention", c),
        up(*this, "up", c.width, 4 * c.width),
        down(*this, "down", 4 * c.width, c.width) {}

  Tensor forward(const Tensor& x) override {
    const Tensor h = x + attention(norm1(x));
    return h + down(lathe::gelu(up(norm2(h))));
  }
};

struct GPT : nn::Module {
  Config config;
  nn::Embedding characters, places;
  nn::ListOf<Block> blocks{*this, "blocks"};
  nn::LayerNorm norm;
  nn::Linear head;

  explicit GPT(const Config& c)
      : config(c),
        characters(*this, "characters", c.characters, c.width),
        places(*this, "places", c.context, c.width),
        norm(*this, "norm", c.width),
        head(*this, "head", c.width, c.characters, {.bias = false}) {
    for (int64_t i = 0; i < c.blocks; ++i) blocks.add(c);
    head.weight = characters.weight;  // one table: what a character is, and how it is recognised
    for (auto& [name, p] : named_parameters()) {
      if (p.dim() == 2) nn::init::normal_(p, 0, 0.05);
    }
  }

  /// i64 [B,T], T <= context → the scores of the next character at each place, [B,T,characters]
  Tensor forward(const Tensor& text) override {
    const Tensor at = lathe::arange(text.size(1)).to(text.device());
    Tensor h = characters(text) + places(at);
    for (Block& block : blocks) h = block(h);
    return head(norm(h));
  }

  /// Appends `count` characters to each row: drawn by their probabilities, or the likeliest.
  Tensor write(Tensor text, int64_t count, bool draw) {
    const lathe::NoGrad off;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = std::max<int64_t>(0, text.size(1) - config.context);
      const Tensor scores = (*this)(text.slice(1, from, text.size(1))).select(1, -1);
      const Tensor next =
          draw ? lathe::multinomial(scores.softmax(-1), 1) : scores.argmax(-1, true);
      text = lathe::cat({text, next}, 1);
    }
    return text;
  }
};

// --- the text ------------------------------------------------------------------------------------

struct Alphabet {
  std::string letters;

  explicit Alphabet(const std::string& text) : letters(text) {
    std::sort(letters.begin(), letters.end());
    letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  }
  Tensor numbers(const std::string& text) const {
    std::vector<int64_t> out;
    for (const char c : text) out.push_back(static_cast<int64_t>(letters.find(c)));
    return lathe::tensor(out);
  }
  std::string text(const Tensor& numbers) const {
    std::string out;
    for (const int64_t i : numbers.to_vector<int64_t>()) out += letters[static_cast<size_t>(i)];
    return out;
  }
};

std::string padded(int64_t number, int64_t digits) {
  const std::string s = std::to_string(number);
  return std::string(static_cast<size_t>(digits) - s.size(), '0') + s;
}

/// A tenth of all pairs, without a pattern.
bool is_held_out(int64_t a, int64_t b) {
  return static_cast<uint32_t>(a * 1000 + b) * 2'654'435'761u % 1000 < 100;
}

std::string question(int64_t a, int64_t b, int64_t digits) {
  return padded(a, digits) + '+' + padded(b, digits) + '=';
}

std::string sums(int64_t count, int64_t digits) {
  std::mt19937 random(1);
  const auto below = static_cast<uint32_t>(std::pow(10, digits));
  std::string text;
  while (count > 0) {
    const int64_t a = random() % below, b = random() % below;
    if (is_held_out(a, b)) continue;
    text += question(a, b, digits) + padded(a + b, digits + 1) + ';';
    --count;
  }
  return text;
}

/// The part of 500 sums that the model gets right, of sums that it was shown or of the others.
double right_sums(GPT& model, const Alphabet& alphabet, int64_t digits, bool shown) {
  std::mt19937 random(2);
  const auto below = static_cast<uint32_t>(std::pow(10, digits));
  std::string questions, answers;
  int64_t count = 0;
  while (count < 500) {
    const int64_t a = random() % below, b = random() % below;
    if (is_held_out(a, b) == shown) continue;
    questions += question(a, b, digits);
    answers += padded(a + b, digits + 1);
    ++count;
  }
  const Tensor asked = alphabet.numbers(questions).view({count, -1});
  const Tensor answered = model.write(asked, digits + 1, false);
  const Tensor said = answered.slice(1, asked.size(1), answered.size(1));
  const Tensor right = (said == alphabet.numbers(answers).view({count, -1})).all(1);
  return right.to(lathe::kF32).mean().item<double>();
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 2500;
  const std::string source = argc > 2 ? argv[2] : "2";
  const bool has_file = source.size() != 1 || source < "1" || source > "4";
  const int64_t digits = has_file ? 0 : source[0] - '0';
  std::string text;
  if (has_file) {
    std::ifstream in(source);
    text.assign(std::istreambuf_iterator<char>(in), {});
    if (text.size() < 1000) {
      std::cerr << source << ": not a file of 1,000 characters or more\n";
      return 2;
    }
  } else {
    text = sums(20'000, digits);
  }
  const Alphabet alphabet(text);
  const Tensor all = alphabet.numbers(text);

  lathe::manual_seed(1);
  GPT model({.characters = static_cast<int64_t>(alphabet.letters.size()),
             .context = has_file ? 64 : 4 * (3 * digits + 4)});  // four sums
  if (argc > 3) nn::load(model, argv[3]);
  lathe::manual_seed(2);  // the batches are the same for every model
  // Weight decay pulls matrices towards 0; biases and the scales of norms are left alone.
  const auto [decay, no_decay] = optim::split_by_decay(model);
  optim::AdamW opt(
      {{.params = decay, .weight_decay = 0.1}, {.params = no_decay, .weight_decay = 0.0}},
      {.lr = 3e-3, .betas = {0.9, 0.99}});
  optim::OneCycleLR schedule(opt, {.total_steps = steps, .pct_start = 0.1});

  const int64_t batch = 32, T = model.config.context;
  const Tensor offsets = lathe::arange(T + 1);
  const auto next_characters = [&](const lathe::Tensors& windows) {
    const Tensor scores = model(windows[0].slice(1, 0, T)).flatten(0, 1);
    const Tensor next = windows[0].slice(1, 1, T + 1).flatten();
    return lathe::train::Result{
        .loss = lathe::cross_entropy(scores, next), .output = scores, .target = next};
  };
  lathe::train::Step train(model, opt, next_characters, {.clip_grad_norm = 1.0});
  const auto began = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= steps; ++step) {
    // Windows that begin anywhere in the text; each place is asked for the character after it.
    const Tensor starts = lathe::randint(0, all.numel() - T, {batch, 1});
    const Tensor window = all.index({starts + offsets});
    const Tensor loss = train({window}).loss;
    schedule.step();
    if (step <= 10 || step % 100 == 0 || step == steps) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
      std::cout << "step " << step << "  loss " << std::setprecision(8) << loss.item<float>()
                << "  after " << std::setprecision(3) << seconds.count() << " s" << std::endl;
    }
  }

  const std::string prompt = text.substr(0, 8);
  std::cout << alphabet.text(model.write(alphabet.numbers(prompt).view({1, -1}), 200, true))
            << '\n';
  if (!has_file) {
    std::cout << "right sums, of those that may be in the text: "
              << right_sums(model, alphabet, digits, true)
              << ", of others: " << right_sums(model, alphabet, digits, false) << '\n';
  }
}
