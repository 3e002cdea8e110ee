// Chapter 9: the loader. Batches are a function of (seed, epoch, number), whoever makes them.
#include <lathe/lathe.h>

#include <chrono>
#include <iostream>
#include <thread>

namespace data = lathe::data;
using lathe::Tensor;

/// Sample i: the number i, and a random number that depends on (seed, epoch, i) alone.
static data::Example sample(int64_t i, data::Key key) {
  std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));  // some take longer
  data::Random random = key.random(0);
  return {lathe::tensor(static_cast<float>(i)), static_cast<int64_t>(random.below(100))};
}

static void print(const char* name, const data::Batch& batch) {
  std::cout << name << ": samples";
  for (const float i : batch.x.to_vector<float>()) std::cout << ' ' << i;
  std::cout << "  draws";
  for (const int64_t draw : batch.y.to_vector<int64_t>()) std::cout << ' ' << draw;
  std::cout << '\n';
}

/// All numbers of an epoch, in order.
static std::vector<double> epoch_of(data::DataLoader& loader) {
  std::vector<double> all;
  for (auto& batch : loader) {
    for (const double i : batch.x.to_vector<double>()) all.push_back(i);
    for (const double draw : batch.y.to_vector<double>()) all.push_back(draw);
  }
  return all;
}

int main() {
  const auto dataset = data::from_function(20, sample);
  const auto options = [](int64_t workers) {
    return data::DataLoaderOptions{
        .batch_size = 5, .shuffle = true, .num_workers = workers, .seed = 7};
  };
  data::DataLoader alone(dataset, options(0));
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::cout << "epoch " << epoch << '\n';
    for (auto& batch : alone) print("  batch", batch);
  }

  std::cout << "\nthe same numbers with";
  alone.set_epoch(0);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<double> expected = epoch_of(alone);
  const std::chrono::duration<double, std::milli> time_alone =
      std::chrono::steady_clock::now() - start;
  double time_of_four = 0;
  for (const int64_t workers : {1, 2, 4}) {
    data::DataLoader loader(dataset, options(workers));
    const auto begin = std::chrono::steady_clock::now();
    std::cout << (workers > 1 ? ", " : " ") << workers
              << (epoch_of(loader) == expected ? " workers: yes" : " workers: NO");
    time_of_four =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  std::cout << "\n~ an epoch takes " << time_alone.count() << " ms without workers, "
            << time_of_four << " ms with 4\n\n";

  // Two batches, a checkpoint, and the rest in another loader.
  data::DataLoader first(dataset, options(2)), second(dataset, options(4));
  auto at = first.begin();
  ++at;  // the second batch is in use
  second.load_state_dict(first.state_dict());
  for (auto& batch : second) print("resumed", batch);
}
