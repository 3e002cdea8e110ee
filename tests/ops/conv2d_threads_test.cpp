// How evenly many threads would be busy in a training step of a ResNet: the tasks of every loop,
// from the functions that divide the work, are given out as the pool does it. That needs no machine
// with so many processors; what it leaves out are the memory that they share, the loops of oneDNN
// and the time between loops. `-s` prints a table.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "lathe/core/strided_loop.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_tiles_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_pointwise_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"
#include "lathe/ops/conv/cpu/pointwise_split.h"
#include "lathe/ops/conv/cpu/winograd_split.h"
#include "lathe/ops/conv/cpu/winograd_tiles.h"
#include "lathe/ops/conv2d.h"

using namespace lathe;

namespace {

// Work is counted in products: multiplications with addition. A byte that is read or written takes
// as long as eight (230 Gflop/s and 15 GB/s per core).
constexpr double kByte = 8;

/// How long a step takes: `all` on one thread, `longest` where the last thread is ready.
struct Time {
  double all = 0, longest = 0;

  double gain() const { return all / longest; }
  void add(const Time& t, double times = 1) {
    all += t.all * times;
    longest += t.longest * times;
  }
};

/// A parallel loop of tasks with this work: each goes to the thread that is free first. `all` is
/// the work of the loop that one thread runs.
Time loop_of(const std::vector<double>& alone, const std::vector<double>& tasks, int threads) {
  std::vector<double> busy(static_cast<size_t>(threads));
  for (const double task : tasks) *std::min_element(busy.begin(), busy.end()) += task;
  Time time{0, *std::max_element(busy.begin(), busy.end())};
  for (const double task : alone) time.all += task;
  return time;
}

/// The same for a function of the number of threads that returns the tasks.
template <class F>
Time loop(F tasks, int threads) {
  return loop_of(tasks(1), tasks(threads), threads);
}

/// A loop over n elements, `bytes` of memory each.
Time plain_loop(int64_t n, int64_t grain, double bytes, int threads) {
  return loop(
      [&](int) {
        std::vector<double> tasks;
        for (int64_t at = 0; at < n; at += grain) {
          tasks.push_back(double(std::min(grain, n - at)) * bytes * kByte);
        }
        return tasks;
      },
      threads);
}

struct Layer {
  int64_t in, out, side, kernel, stride, times;

  Conv2dGeometry geometry(int64_t batch) const {
    return conv2d_geometry("test", {batch, in, side, side}, {out, in, kernel, kernel},
                           {.stride = stride, .pad = kernel / 2});
  }
};

/// Outputs of Winograd: y from x, or dx from dy.
Time winograd_outputs(const cpu::winograd::Tiles& tiles, int64_t ins, int64_t outs, int threads) {
  using namespace cpu::winograd;
  const auto split = [&](int count) {
    return OutputSplit(tiles.count, tiles.positions(), ins, outs, count);
  };
  const double filter = double(kTransform * tiles.filters());
  const auto products = [&](int count) {
    const OutputSplit s = split(count);
    std::vector<double> tasks;
    for (int64_t i = 0; i < s.tasks(); ++i) {
      const OutputSplit::Task task = s[i];
      const int64_t channels = std::max(int64_t{0}, task.last_out - task.out);
      double work =
          double(ins * channels + kTransform * (channels > 0 ? ins : 0) + kTransform * channels);
      work *= double(task.tiles * tiles.positions());
      if (s.transforms_filters() && task.tiles > 0) work += filter * double(ins * channels);
      tasks.push_back(work);
    }
    return tasks;
  };
  Time time = loop(products, threads);
  if (split(1).transforms_filters()) return time;
  const int64_t blocks = ceil_div(ins, kBlock) * ceil_div(outs, kBlock);
  const std::vector<double> filters(size_t(blocks), filter * double(ins * outs / blocks));
  time.add(loop_of(filters, filters, threads));
  return time;
}

Time winograd_filters(const cpu::winograd::Tiles& tiles, int64_t ins, int64_t outs, int threads) {
  using namespace cpu::winograd;
  return loop(
      [&](int count) {
        const FilterGradSplit s(tiles.count, tiles.positions(), ins, outs, count);
        std::vector<double> tasks;
        for (int64_t i = 0; i < s.tasks(); ++i) {
          const FilterGradSplit::Task task = s[i];
          const int64_t channels = std::max(int64_t{0}, task.last_out - task.out);
          const int64_t width = std::min(kBlock, ins - task.in * kBlock);
          const double per_tile = double(width * channels + kTransform * (width + channels));
          const double of_sums = double(kTransform * tiles.filters() * width * channels);
          tasks.push_back(channels == 0
                              ? 0
                              : double((task.last - task.first) * tiles.positions()) * per_tile +
                                    of_sums);
        }
        return tasks;
      },
      threads);
}

Time pointwise_product(int64_t pixels, int64_t ins, int64_t outs, int threads) {
  using namespace cpu::pointwise;
  return loop(
      [&](int count) {
        const ProductSplit s(pixels, ceil_div(outs, kPanel), count);
        std::vector<double> tasks;
        for (int64_t i = 0; i < s.tasks(); ++i) {
          const ProductSplit::Task task = s[i];
          const int64_t columns =
              std::min(task.last_panel * kPanel, outs) - std::min(task.panel * kPanel, outs);
          tasks.push_back(double(task.rows * ins * columns));
        }
        return tasks;
      },
      threads);
}

Time pointwise_filters(int64_t pixels, int64_t ins, int64_t outs, int threads) {
  using namespace cpu::pointwise;
  return loop(
      [&](int count) {
        const FilterGradSplit s(pixels, ins, outs, count);
        std::vector<double> tasks;
        for (int64_t i = 0; i < s.tasks(); ++i) {
          const FilterGradSplit::Task task = s[i];
          tasks.push_back(double((task.last_pixel - task.pixel) * (task.last_in - task.in) *
                                 std::max(int64_t{0}, task.last_out - task.out)));
        }
        return tasks;
      },
      threads);
}

/// Forward pass, input gradient and filter gradient; none where oneDNN computes.
std::vector<Time> passes_of(const Conv2dGeometry& g, int threads) {
  const cpu::CpuConvKey key{.g = g, .format = kChannelsLast};
  if (const auto tile = cpu::winograd_tile(cpu::conv2d_choice(key, {}).engine)) {
    const auto tiles = cpu::winograd::tiles_of(g, *tile);
    const auto transposed = cpu::winograd::transposed_tiles_of(g, *tile);
    return {winograd_outputs(tiles, g.C, g.K, threads),
            winograd_outputs(transposed, g.K, g.C, threads),
            winograd_filters(tiles, g.C, g.K, threads)};
  }
  if (!cpu::pointwise_takes(g)) return {};
  const int64_t pixels = g.N * g.P * g.Q;
  return {pointwise_product(pixels, g.C, g.K, threads),
          pointwise_product(pixels, g.K, g.C, threads),
          pointwise_filters(pixels, g.C, g.K, threads)};
}

/// A batch norm with relu, both directions, where the convolution has left the moments.
Time batch_norm(const Conv2dGeometry& g, int threads) {
  const cpu::Tiles tiles(empty_in(kChannelsLast, g.y_shape(), kF32, kCPU));
  const auto in_tiles = [&](int count) {
    const DealtWork work = cpu::deal_tiles(tiles, count);
    std::vector<double> tasks;
    for (int64_t i = 0; i < work.tasks(); ++i) {
      tasks.push_back(double(cpu::part_of(tiles[work[i].piece], work[i]).size) * kByte);
    }
    return tasks;
  };
  Time time;
  time.add(loop([&](int) { return in_tiles(1); }, threads), 8);  // the gradient's sums
  time.add(loop(in_tiles, threads), 8 + 12);                     // y from x, dx from x and dy
  return time;
}

struct Model {
  const char* name;
  int64_t batch;
  std::vector<Layer> layers;
};

/// Without the first convolution, which has 3 inputs and runs in oneDNN.
std::vector<Layer> resnet18(int64_t side) {
  std::vector<Layer> layers{{64, 64, side, 3, 1, 4}};
  for (int64_t c = 64; c < 512; c *= 2, side /= 2) {
    layers.push_back({c, 2 * c, side, 3, 2, 1});
    layers.push_back({c, 2 * c, side, 1, 2, 1});
    layers.push_back({2 * c, 2 * c, side / 2, 3, 1, 3});
  }
  return layers;
}

std::vector<Layer> resnet20() {
  return {{16, 16, 32, 3, 1, 6},
          {16, 32, 32, 3, 2, 1},
          {32, 32, 16, 3, 1, 5},
          {32, 64, 16, 3, 2, 1},
          {64, 64, 8, 3, 1, 5}};
}

std::vector<Layer> resnet50() {
  const std::array<int64_t, 4> blocks{3, 4, 6, 3};
  std::vector<Layer> layers;
  int64_t in = 64, side = 56;
  for (size_t stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage, out = 4 * width, stride = stage == 0 ? 1 : 2;
    const int64_t more = blocks[stage] - 1, small = side / stride;
    layers.push_back({in, width, side, 1, 1, 1});
    layers.push_back({width, width, side, 3, stride, 1});
    layers.push_back({in, out, side, 1, stride, 1});
    layers.push_back({out, width, small, 1, 1, more});
    layers.push_back({width, width, small, 3, 1, more});
    layers.push_back({width, out, small, 1, 1, more + 1});
    in = out;
    side = small;
  }
  return layers;
}

/// Text for the table, and the time of the whole step.
Time step_of(const Model& model, int threads, std::string& table) {
  Time step;
  int64_t parameters = 0;
  for (const Layer& layer : model.layers) {
    const Conv2dGeometry g = layer.geometry(model.batch);
    char line[160];
    std::snprintf(line, sizeof line, "  %4d -> %4d @%-3d %dx%d/%d:", int(layer.in), int(layer.out),
                  int(layer.side), int(layer.kernel), int(layer.kernel), int(layer.stride));
    table += line;
    for (const Time& time : passes_of(g, threads)) {
      step.add(time, double(layer.times));
      std::snprintf(line, sizeof line, " %5.1f", time.gain());
      table += line;
    }
    const Time norm = batch_norm(g, threads);
    step.add(norm, double(layer.times));
    std::snprintf(line, sizeof line, " norm %5.1f\n", norm.gain());
    table += line;
    parameters += layer.times * numel_of(g.w_shape());
  }
  step.add(plain_loop(parameters, kParallelGrain, 20, threads));  // SGD with momentum
  char line[160];
  std::snprintf(line, sizeof line, "%s, batch %d, %d threads: %.2f\n", model.name, int(model.batch),
                threads, step.gain());
  table = line + table;
  return step;
}

}  // namespace

TEST_CASE("threads: two are busy in nearly all of a ResNet's step, and sixteen in most of it") {
  struct Case {
    Model model;
    double of_two, of_sixteen;
  };
  const Case cases[] = {
      {{"ResNet-18, 32x32", 64, resnet18(32)}, 1.95, 14},
      {{"ResNet-50, 224x224", 8, resnet50()}, 1.95, 14},
      {{"ResNet-20, 32x32", 128, resnet20()}, 1.95, 14},
      {{"ResNet-18, 224x224", 16, resnet18(56)}, 1.95, 14},
      {{"ResNet-18, 224x224", 8, resnet18(56)}, 1.95, 14},
      {{"ResNet-18, 32x32", 8, resnet18(32)}, 1.95, 13},
      {{"ResNet-18, 32x32", 4, resnet18(32)}, 1.95, 12},
      {{"ResNet-18, 32x32", 2, resnet18(32)}, 1.95, 11},
      {{"ResNet-18, 32x32", 1, resnet18(32)}, 1.95, 11},
  };
  for (const Case& c : cases) {
    std::string of_two, of_sixteen;
    const double two = step_of(c.model, 2, of_two).gain();
    const double sixteen = step_of(c.model, 16, of_sixteen).gain();
    CAPTURE(of_two);
    CAPTURE(of_sixteen);
    CHECK(two >= c.of_two);
    CHECK(sixteen >= c.of_sixteen);
  }
}
