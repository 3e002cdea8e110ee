// Proximal policy optimisation: a network learns to balance a pole on a cart, from nothing but how
// long the pole stood. Eight carts run 128 steps with the policy of the moment. The rewards and a
// second network, the critic, say how much better than expected each action was. Then the policy
// moves towards the better ones, but no further than a ratio of 1 ± 0.2.
//
//   ppo_cartpole [ROUNDS]
// ref: Schulman et al. 2017 (arXiv:1707.06347); the cart: Barto, Sutton, Anderson 1983.
#include <lathe/lathe.h>
#include <lathe/nn/distributions/distributions.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

namespace nn = lathe::nn;
using lathe::Tensor;
using lathe::distributions::Categorical;

constexpr int kCarts = 8, kSteps = 128;
struct Cart {
  float x = 0, v = 0, angle = 0, turn = 0;
  int age = 0;
  void reset(std::mt19937& random) {
    std::uniform_real_distribution<float> small(-0.05f, 0.05f);
    *this = {small(random), small(random), small(random), small(random)};
  }
  /// Pushes to the left (0) or to the right (1).   → false when the pole fell or time is over
  bool push(int64_t action) {
    const float sine = std::sin(angle), cosine = std::cos(angle);
    const float pull = ((action == 1 ? 10.f : -10.f) + 0.05f * turn * turn * sine) / 1.1f;
    const float spin =
        (9.8f * sine - cosine * pull) / (0.5f * (4.f / 3 - 0.1f * cosine * cosine / 1.1f));
    const float speed = pull - 0.05f * spin * cosine / 1.1f;
    x += 0.02f * v, v += 0.02f * speed, angle += 0.02f * turn, turn += 0.02f * spin;
    return std::fabs(x) < 2.4f && std::fabs(angle) < 0.2095f && ++age < 500;
  }
};

/// What the policy sees, [8,4].
Tensor look(const std::vector<Cart>& carts) {
  std::vector<float> out;
  for (const Cart& c : carts) out.insert(out.end(), {c.x, c.v, c.angle, c.turn});
  return lathe::tensor(out).view({kCarts, 4});
}

struct Agent : nn::Module {
  nn::Sequential actor{*this, "actor", {nn::Linear(4, 128), nn::Tanh(), nn::Linear(128, 2)}};
  nn::Sequential critic{*this, "critic", {nn::Linear(4, 128), nn::Tanh(), nn::Linear(128, 1)}};
  Categorical policy(const Tensor& s) { return Categorical({.logits = actor(s)}); }
  Tensor value(const Tensor& s) { return critic(s).squeeze(-1); }
};

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 120;
  lathe::manual_seed(1);
  std::mt19937 random(1);
  Agent agent;
  lathe::optim::Adam opt(agent.parameters(), {.lr = 1e-3});
  std::vector<Cart> carts(kCarts);
  for (Cart& cart : carts) cart.reset(random);
  double length = 20;  // of an episode, as a running mean
  for (int round = 1; round <= rounds; ++round) {
    std::vector<float> alive;
    lathe::Tensors states{look(carts)}, actions;
    for (int t = 0; t < kSteps; ++t, states.push_back(look(carts))) {
      actions.push_back(agent.policy(states.back()).sample());
      for (size_t i = 0; i < kCarts; ++i) {
        alive.push_back(carts[i].push(actions.back()[i].item<int64_t>()) ? 1.f : 0.f);
        if (alive.back() > 0) continue;
        length += 0.05 * (carts[i].age - length);
        carts[i].reset(random);
      }
    }
    const Tensor all = lathe::cat(states, 0), s = all.narrow(0, 0, kSteps * kCarts);
    const Tensor a = lathe::cat(actions, 0), old = agent.policy(s).log_prob(a).detach();
    const std::vector<float> v = agent.value(all).detach().to_vector<float>();
    std::vector<float> better(alive.size());  // than expected; from the last step back
    for (size_t i = better.size(); i-- > 0;) {
      const float next = i + kCarts < better.size() ? better[i + kCarts] : 0;
      better[i] = 1 - v[i] + alive[i] * 0.99f * (v[i + kCarts] + 0.95f * next);
    }
    const Tensor gain = lathe::tensor(better), goal = gain + agent.value(s).detach();
    for (int update = 0; update < 16; ++update) {
      const Tensor rows = lathe::randperm(kSteps * kCarts).narrow(0, 0, 256);
      const auto of = [&](const Tensor& t) { return t.index_select(0, rows); };
      const Categorical policy = agent.policy(of(s));
      const Tensor ratio = (policy.log_prob(of(a)) - of(old)).exp();
      const Tensor g = (of(gain) - gain.mean()) / (gain.std() + 1e-8);
      const Tensor goodness = lathe::minimum(ratio * g, ratio.clamp(0.8, 1.2) * g).mean();
      const Tensor loss = 0.5 * (agent.value(of(s)) - of(goal)).square().mean() - goodness;
      opt.zero_grad();
      (loss - 0.01 * policy.entropy().mean()).backward();
      opt.step();
    }
    if (round % 20 == 0)
      std::cout << "round " << round << "  the pole stands " << std::lround(length) << " steps\n";
  }
}
