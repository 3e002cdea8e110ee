// ResNet-18 with less memory: each block is a checkpoint, which keeps only its input and computes
// the rest again in the backward pass. Prints what that saves and what it costs, and checks that
// the gradients are the same to the last bit.
//
//   checkpointed_resnet [BATCH]
// ref: Chen et al. 2016 (arXiv:1604.06174).
#include <lathe/lathe.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

namespace nn = lathe::nn;
using lathe::Tensor, lathe::Tensors;

/// ResNet's forward pass, written out so that each block can be called as we like.
Tensor forward(nn::ResNet& net, const Tensor& x, bool checkpointed) {
  Tensor h = net.bn1.relu(net.conv1(x));
  for (const nn::Sequential* stage : {&net.layer1, &net.layer2, &net.layer3, &net.layer4}) {
    for (const auto& block : stage->modules()) {
      // The function runs a second time in the backward pass, so what it refers to must live until
      // then. (It also moves the batch norms' running statistics a second time.)
      const auto run = [&block = *block](const Tensors& in) { return block(in[0]); };
      h = checkpointed ? lathe::checkpoint(run, {h}) : run({h});
    }
  }
  return net.fc(h.mean({2, 3}));
}

/// The memory that tensors take, now and at most since the last reset.
struct Memory {
  lathe::Device device;

  size_t now() const {
    return device.is_cuda() ? lathe::cuda::memory_allocated(device)
                            : lathe::host_allocator().stats().allocated_bytes;
  }
  size_t peak() const {
    return device.is_cuda() ? lathe::cuda::max_memory_allocated(device)
                            : lathe::host_allocator().stats().peak_allocated_bytes;
  }
  void reset_peak() const {
    if (device.is_cuda()) return lathe::cuda::reset_peak_memory(device);
    lathe::host_allocator().reset_peak();
  }
};

struct Step {
  double loss, seconds;
  double kept, peak;  // MiB: between forward and backward pass; at most, with gradients and scratch
};

/// The gradients of one batch, left in the network's parameters.
Step gradients(nn::ResNet& net, const Tensor& x, const Tensor& y, bool checkpointed) {
  const Memory memory{x.device()};
  Step step{};
  for (int run = 0; run < 3; ++run) {  // the fastest counts
    net.zero_grad();
    const size_t before = memory.now();
    memory.reset_peak();
    const auto began = std::chrono::steady_clock::now();
    const Tensor loss = lathe::cross_entropy(forward(net, x, checkpointed), y);
    step.kept = double(memory.now() - before) / (1 << 20);
    loss.backward();
    step.loss = loss.item<double>();  // waits for the device
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    step.seconds = run == 0 ? took.count() : std::min(step.seconds, took.count());
    step.peak = double(memory.peak() - before) / (1 << 20);
  }
  return step;
}

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 128;
  const lathe::Device device = lathe::cuda_is_available() ? "cuda" : "cpu";
  lathe::set_deterministic(true);  // on a GPU: the same kernels both times
  lathe::manual_seed(1);
  auto net = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  net.to(device);
  const Tensor x = lathe::randn({batch, 3, 32, 32}).to(device);
  const Tensor y = lathe::randint(0, 10, {batch}).to(device);

  const Step plain = gradients(net, x, y, false);
  Tensors wanted;
  for (const Tensor& p : net.parameters()) wanted.push_back(p.grad().clone());
  const Step saving = gradients(net, x, y, true);

  bool same = plain.loss == saving.loss;
  const Tensors params = net.parameters();
  for (size_t i = 0; i < params.size(); ++i)
    same = same && lathe::equal(params[i].grad(), wanted[i]);

  for (const auto& [name, step] :
       {std::pair{"everything saved", plain}, {"checkpointed", saving}}) {
    std::cout << name << ": " << step.seconds << " s, " << step.kept << " MiB kept, peak "
              << step.peak << " MiB, loss " << step.loss << '\n';
  }
  std::cout << "kept x " << saving.kept / plain.kept << ", peak x " << saving.peak / plain.peak
            << ", time x " << saving.seconds / plain.seconds << ", gradients "
            << (same ? "equal bit by bit" : "DIFFERENT") << '\n';
  const bool less = saving.kept < 0.4 * plain.kept && saving.peak < plain.peak;
  std::cout << (same && less ? "all right" : "WRONG") << '\n';
  return same && less ? 0 : 1;
}
