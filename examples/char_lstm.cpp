// An LSTM that learns text character by character, then writes some. It reads the text in pieces
// and keeps its state from one piece to the next, without the gradients of the pieces before.
//
//   char_lstm [STEPS [TEXT [WEIGHTS]]]
//     TEXT     a file, or - for a text of its own
//     WEIGHTS  a file with the weights to begin from
// ref: Karpathy 2015, "The Unreasonable Effectiveness of Recurrent Neural Networks".
#include <lathe/lathe.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
using lathe::Tensor;

struct CharLSTM : nn::Module {
  nn::Embedding characters;
  nn::LSTM lstm;
  nn::Linear head;

  CharLSTM(int64_t kinds, int64_t width)
      : characters(*this, "characters", kinds, width),
        lstm(*this, "lstm", width, width, {.num_layers = 2}),
        head(*this, "head", width, kinds) {}

  /// i64 [T,N] → the scores of the next characters, [T,N,kinds]. `state` goes on.
  Tensor next(const Tensor& text, nn::LSTMState& state) {
    auto [y, end] = lstm(characters(text), state);
    state = end;
    return head(y);
  }
};

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  std::string text;
  const std::string source = argc > 2 ? argv[2] : "-";
  if (source != "-") {
    std::ifstream file(source);
    text.assign(std::istreambuf_iterator<char>(file), {});
  } else {
    const char* const lines[] = {"one man went to mow, ", "went to mow a meadow, ",
                                 "two men and their dog ", "went to mow a meadow; "};
    for (int i = 0; i < 400; ++i) text += lines[i % 4];
  }
  const std::set<char> set(text.begin(), text.end());
  const std::string kinds(set.begin(), set.end());
  const int64_t T = 32, N = 8, rows = static_cast<int64_t>(text.size()) / N;
  if (rows <= T) {
    std::cerr << "the text is too short\n";
    return 1;
  }
  std::vector<int64_t> numbers;
  for (const char c : text.substr(0, static_cast<size_t>(rows * N)))
    numbers.push_back(static_cast<int64_t>(kinds.find(c)));
  const Tensor all = lathe::tensor(numbers).view({N, rows}).t();  // [rows,N]: N places in the text

  lathe::manual_seed(1);
  CharLSTM model(static_cast<int64_t>(kinds.size()), 64);
  if (argc > 3) nn::load(model, argv[3]);
  optim::Adam opt(model.parameters(), {.lr = 5e-3});
  nn::LSTMState state;
  std::cout.precision(8);
  for (int step = 0, at = 0; step < steps; ++step, at += T) {
    if (at + T >= rows) {  // from the beginning
      at = 0;
      state = {};
    }
    if (state.h.defined()) state = {state.h.detach(), state.c.detach()};
    const Tensor scores = model.next(all.narrow(0, at, T), state);
    const Tensor loss =
        lathe::cross_entropy(scores.flatten(0, 1), all.narrow(0, at + 1, T).flatten());
    opt.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    opt.step();
    if (step < 10 || (step + 1) % 50 == 0 || step + 1 == steps)
      std::cout << "step " << step + 1 << "  loss " << loss.item<float>() << '\n';
  }

  const lathe::NoGrad off;
  model.eval();
  state = {};
  std::string written = text.substr(0, 8);
  Tensor in = all.narrow(0, 0, 8).narrow(1, 0, 1);
  for (int i = 0; i < 80; ++i) {
    in = model.next(in, state)[-1].argmax(1).view({1, 1});
    written += kinds[in.item<size_t>()];
  }
  std::cout << written << '\n';
}
