// Trains two steps of a small network under the profiler, with a second thread and a hostile name,
// and writes the trace: write_trace FILE.
#include <iostream>
#include <thread>

#include "lathe/lathe.h"

using namespace lathe;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  manual_seed(1);
  nn::Sequential net{nn::Conv2d(3, 4, {.kernel = 3, .pad = 1}), nn::ReLU(), nn::Flatten(),
                     nn::Linear(4 * 8 * 8, 10)};
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  profile::Profiler profiler({.record_shapes = true, .profile_memory = true, .with_stack = true});
  for (int step = 0; step < 2; ++step) {
    {
      const profile::Range range("hostile \" \\ \n \x01 \xe2\x80\xae </script> \xff");
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(net(randn({2, 3, 8, 8})), randint(0, 10, {2}));
      loss.backward();
      optimizer.step();
      std::thread([] { relu(ones({4})); }).join();
    }
    profiler.step();
  }
  profiler.stop();
  profiler.write_trace(argv[1]);
  std::cout << profiler.key_averages({.group_by_stack = true}).table();
  return 0;
}
