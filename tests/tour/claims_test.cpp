// What the chapters of docs/tour say beyond the lines that they quote and print: which function
// runs, how many runs are timed, who copies. One case per claim, named after its chapter.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>

#include "../cuda_case.h"
#include "lathe/autograd/companion.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/record.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"
#include "tour_devices.h"

namespace lathe::test {
namespace {

// --- 1: tensor -----------------------------------------------------------------------------------

/// How many blocks f() takes from the allocator.
template <class F>
uint64_t allocations_of(F f) {
  const NoGrad off;
  f();  // what is made once is there
  const uint64_t before = host_allocator().stats().allocations;
  f();
  return host_allocator().stats().allocations - before;
}

TEST_CASE("tour 1: elementwise ops, sums and products read a transpose, softmax copies it first") {
  const Tensor x = randn({64, 64}), t = x.t(), w = randn({64, 64});
  CHECK(allocations_of([&] { exp(t); }) == allocations_of([&] { exp(x); }));
  CHECK(allocations_of([&] { t.sum({0}); }) == allocations_of([&] { x.sum({0}); }));
  CHECK(allocations_of([&] { matmul(t, w); }) == allocations_of([&] { matmul(x, w); }));
  CHECK(allocations_of([&] { softmax(t, 1); }) > allocations_of([&] { softmax(x, 1); }));
  const Tensor gaps = randn({64, 128}).slice(1, 0, 128, 2);  // neither rows nor columns are dense
  CHECK(allocations_of([&] { matmul(gaps, w); }) > allocations_of([&] { matmul(x, w); }));
}

TEST_CASE("tour 1: convolution and batch norm read row-major and NHWC, and copy other orders") {
  const Tensor x = randn({2, 8, 8, 8}), w = randn({8, 8, 3, 3});
  const Tensor nhwc = x.contiguous(kChannelsLast), other = x.transpose(2, 3);
  const auto conv = [&](const Tensor& t) { return allocations_of([&] { conv2d(t, w); }); };
  const auto norm = [](const Tensor& t) {
    return allocations_of([&] { batch_norm(t, {}, {}, {}, {}, {.training = true}); });
  };
  CHECK(conv(other) > conv(x));
  CHECK(norm(other) > norm(x));
  CHECK(norm(nhwc) == norm(x));
  CHECK(conv2d(nhwc, w).is_contiguous(kChannelsLast));  // and stays in its order
}

TEST_CASE("tour 1: a write reaches x through a view of it, and not through a copy") {
  const Tensor x = zeros({3, 4});
  x.reshape({12}).fill_(1);
  CHECK(x.sum().item<float>() == 12);
  x.t().reshape({12}).fill_(5);
  CHECK(x.sum().item<float>() == 12);
  CHECK_THROWS_AS(x.t().view({12}), ShapeError);
  CHECK_THROWS_AS(x[0].expand({3, 4}).fill_(1), ValueError);  // one element stands for three
}

TEST_CASE("tour 1: in NHWC the channels of a pixel are neighbours, in NCHW they are not") {
  const Tensor x = zeros({2, 3, 4, 5});
  CHECK(x.stride(1) == 4 * 5);
  CHECK(x.contiguous(kChannelsLast).shape() == x.shape());
  CHECK(x.contiguous(kChannelsLast).stride(1) == 1);
}

// --- 2: the tape ---------------------------------------------------------------------------------

TEST_CASE("tour 2: a second backward pass through a graph is an error") {
  const Tensor w = tensor(3.f);
  w.requires_grad_();
  const Tensor loss = w * w;
  loss.backward({.retain_graph = true});
  loss.backward();
  CHECK(w.grad().item<float>() == 2 * 6);  // backward() adds
  CHECK_THROWS_AS(loss.backward(), StateError);
}

TEST_CASE("tour 2: a write through another view counts, even of other elements") {
  const Tensor w = ones({2});
  w.requires_grad_();
  const Tensor x = zeros({4}), y = w * x.slice(0, 0, 2);
  x.slice(0, 2, 4).fill_(1);
  CHECK_THROWS_AS(y.sum().backward(), StateError);
}

TEST_CASE("tour 2: nobody wants the gradient of x, and need[] says so") {
  const Tensor x = ones({2}), w = ones({2});
  w.requires_grad_();
  const Tensor y = x.detach() * w.detach();
  int asked = 0;
  autograd::record("probe", y, {x, w}, [&](const Tensor& dy, const autograd::Needs& need) {
    ++asked;
    CHECK(!need[0]);
    CHECK(need[1]);
    return Tensors{Tensor(), dy};
  });
  y.sum().backward();
  CHECK(asked == 1);
}

TEST_CASE("tour 2: an op's lambda goes as soon as the op has run backward") {
  const Tensor w = ones({});
  w.requires_grad_();
  const Tensor y = w.detach() * 1;
  auto saved = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = saved;
  autograd::record("probe", y, {w}, [saved = std::move(saved)](const Tensor& dy, const auto&) {
    return Tensors{dy + static_cast<float>(*saved)};
  });
  REQUIRE(!watched.expired());
  y.backward();
  CHECK(watched.expired());  // while y, and so its node, is still there
}

// --- 3: an op ------------------------------------------------------------------------------------

TEST_CASE("tour 3: an op that throws leaves no node behind") {
  const Tensor x = ones({2, 3});
  x.requires_grad_();
  const Tensor before = x * 2;
  CHECK_THROWS_AS(conv2d(x, x), ShapeError);
  const Tensor after = x * 2;
  CHECK(after.impl().meta->grad_fn->number == before.impl().meta->grad_fn->number + 1);
}

// --- 4: convolution ------------------------------------------------------------------------------

struct EngineCase {
  const char* row;
  Shape x, w;
  Conv2dOptions options;
  MemoryFormat format;
  DType dtype;
  cpu::CpuEngine engine;
};

TEST_CASE("tour 4: the table says which engine is chosen") {
  using enum cpu::CpuEngine;
  const EngineCase cases[] = {
      {"3x3, 16 channels",
       {4, 16, 32, 32},
       {16, 16, 3, 3},
       {.pad = 1},
       kChannelsLast,
       kF32,
       kWinograd4},
      {"8 channels", {4, 8, 32, 32}, {16, 8, 3, 3}, {.pad = 1}, kChannelsLast, kF32, kOneDnnNhwc},
      {"20 channels, not in eights",
       {4, 20, 32, 32},
       {16, 20, 3, 3},
       {.pad = 1},
       kChannelsLast,
       kF32,
       kOneDnnNhwc},
      {"15 tiles", {15, 16, 4, 4}, {16, 16, 3, 3}, {.pad = 1}, kChannelsLast, kF32, kOneDnnNhwc},
      {"stride 2, 16 channels",
       {4, 16, 64, 64},
       {16, 16, 3, 3},
       {.stride = 2, .pad = 1},
       kChannelsLast,
       kF32,
       kOneDnnNhwc},
      {"stride 2, 32 channels, 256 tiles",
       {4, 32, 64, 64},
       {32, 32, 3, 3},
       {.stride = 2, .pad = 1},
       kChannelsLast,
       kF32,
       kWinograd4},
      {"stride 2, 32 channels, 64 tiles",
       {1, 32, 64, 64},
       {32, 32, 3, 3},
       {.stride = 2, .pad = 1},
       kChannelsLast,
       kF32,
       kOneDnnNhwc},
      {"1x1", {4, 16, 8, 8}, {32, 16, 1, 1}, {}, kChannelsLast, kF32, kProducts},
      {"1x1, not in sixteens", {4, 24, 8, 8}, {33, 24, 1, 1}, {}, kChannelsLast, kF32, kProducts},
      {"row-major: the chapter's program",
       {4, 16, 32, 32},
       {16, 16, 3, 3},
       {.pad = 1},
       kContiguous,
       kF32,
       kOneDnnBlocks},
      {"f64", {4, 16, 32, 32}, {16, 16, 3, 3}, {.pad = 1}, kChannelsLast, kF64, kIm2col}};
  for (const EngineCase& c : cases) {
    CAPTURE(c.row);
    const cpu::CpuConvKey key{
        .g = conv2d_geometry("conv2d", c.x, c.w, c.options), .format = c.format, .dtype = c.dtype};
    const bool is_own = c.engine < kOneDnnWinograd;
    CHECK(cpu::conv2d_choice(key, {.onednn = true, .fast_short_rows = true}).engine == c.engine);
    CHECK(cpu::conv2d_choice(key, {}).engine == (is_own ? c.engine : kIm2col));
  }
  cpu::CpuConvKey depthwise{
      .g = conv2d_geometry("conv2d", {4, 24, 9, 9}, {24, 1, 3, 4}, {.groups = 24}),
      .format = kChannelsLast};
  CHECK(cpu::conv2d_choice(depthwise, {.onednn = true}).engine == kOneDnnNhwc);
  CHECK(cpu::conv2d_choice(depthwise, {}).engine == kDepthwise);
  depthwise.pass = ConvPass::kBackwardWeight;
  CHECK(cpu::conv2d_choice(depthwise, {.onednn = true}).engine == kDepthwise);
  depthwise.g = conv2d_geometry("conv2d", {4, 24, 9, 9}, {24, 1, 3, 3}, {.groups = 24});
  CHECK(cpu::conv2d_choice(depthwise, {.onednn = true}).engine == kOneDnnNhwc);
  depthwise.g = conv2d_geometry("conv2d", {4, 24, 4, 4}, {24, 1, 3, 3}, {.groups = 24});
  CHECK(cpu::conv2d_choice(depthwise, {.onednn = true}).engine == kDepthwise);
  const cpu::CpuConvKey exact{
      .g = conv2d_geometry("conv2d", cases[0].x, cases[0].w, cases[0].options),
      .format = kChannelsLast,
      .exact = true};
  CHECK(!cpu::winograd_tile(cpu::conv2d_choice(exact).engine));
}

// --- 5: batch norm -------------------------------------------------------------------------------

TEST_CASE("tour 5: y takes the biased variance, the running one gets the unbiased") {
  const Tensor x = tensor({{1.}, {2.}, {3.}, {6.}}, kF64);  // mean 3, squares 4 + 1 + 0 + 9 = 14
  const Tensor mean = zeros({1}, kF64), var = ones({1}, kF64);
  const Tensor y = batch_norm(x, {}, {}, mean, var, {.training = true, .momentum = 0.5, .eps = 0});
  CHECK(y[3][0].item<double>() == doctest::Approx(3 / std::sqrt(14. / 4)));
  CHECK(mean.item<double>() == doctest::Approx(0.5 * 3));
  CHECK(var.item<double>() == doctest::Approx(0.5 * 1 + 0.5 * 14. / 3));
  CHECK_THROWS_AS(batch_norm(x.slice(0, 0, 1), {}, {}, {}, {}, {.training = true}), ShapeError);
}

TEST_CASE("tour 5: without a bias conv2d leaves moments behind, unless no gradient is recorded") {
  const Tensor x = randn({4, 16, 16, 16}).contiguous(kChannelsLast), bias = zeros({16});
  for (const int64_t taps : {1, 3}) {  // our own kernels: products, Winograd
    CAPTURE(taps);
    const Tensor w = randn({16, 16, taps, taps});
    // cpu::conv2d_forward_with_moments ran, and not LATHE_DISPATCH: nothing here wants a gradient,
    // but gradients may be recorded.
    const Pair pad = taps / 2;
    const Tensor y = conv2d(x, w, {.pad = pad}), moments = autograd::companion_of(y);
    REQUIRE(moments.defined());
    CHECK((moments[0] - y.mean({0, 2, 3})).abs().amax().item<float>() < 1e-4);
    CHECK(!autograd::companion_of(conv2d(x, w, {.bias = bias, .pad = pad})).defined());
    const NoGrad off;
    CHECK(!autograd::companion_of(conv2d(x, w, {.pad = pad})).defined());
  }
}

// --- 6: mixed precision --------------------------------------------------------------------------

TEST_CASE("tour 6: a skipped step leaves the weights alone and moves the running statistics") {
  nn::BatchNorm2d norm(1);
  const Tensor w = ones({1});
  w.requires_grad_();
  optim::SGD opt({w}, {.lr = 1, .momentum = 0.9});
  optim::GradScaler scaler({.init_scale = 1024});
  const Tensor y = norm(tensor({1.f, 3.f}).reshape({2, 1, 1, 1}) * w);
  scaler.scale((y.square().sum() + w.sum()) * INFINITY).backward();
  scaler.step(opt);
  scaler.update();
  CHECK(w.item<float>() == 1);
  CHECK(scaler.get_scale() == 512);
  CHECK(norm.running_mean.item<float>() != 0);
}

TEST_CASE("tour 6: a weight that is used twice is cast once") {
  const Tensor x = ones({2, 2}), w = ones({2, 2});
  w.requires_grad_();
  const auto caster_of = [](const Tensor& y) {
    return y.impl().meta->grad_fn->edges[1].node.get();
  };
  const Autocast half(kCPU, kBF16);
  const Tensor first = matmul(x, w), second = matmul(x, w);
  CHECK(std::string(caster_of(first)->name) == "cast");
  CHECK(caster_of(first) == caster_of(second));
  first.sum().backward();
  CHECK(w.grad().dtype() == kF32);
}

// --- 7: the allocator ----------------------------------------------------------------------------

TEST_CASE("tour 7: sizes of blocks and segments") {
  struct Case {
    size_t bytes, block, segment;
  };
  for (const Case& c :
       {Case{1, 512, 2 * kMiB}, Case{513, 1024, 2 * kMiB}, Case{kMiB, kMiB, 2 * kMiB},
        Case{kMiB + 1, kMiB + 512, 20 * kMiB}, Case{10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
        Case{10 * kMiB, 10 * kMiB, 10 * kMiB}, Case{30 * kMiB, 30 * kMiB, 30 * kMiB}}) {
    CAPTURE(c.bytes);
    Addresses device(1 << 30);
    BlockPool pool(device);
    void* const block = pool.allocate(c.bytes, nullptr);
    CHECK(pool.stats().allocated_bytes.current == c.block);
    CHECK(pool.stats().reserved_bytes.current == c.segment);
    pool.deallocate(block);
  }
}

// --- 8: the search -------------------------------------------------------------------------------

/// How many runs a search costs over engines of these times, asked in this order.
int64_t runs_of(std::vector<double> ms) {
  Engines engines;
  engines.ms = std::move(ms);
  ConvSearch search(10, [&] { return engines.now; });
  search.run(benchmark_key(), engines);
  return engines.runs;
}

TEST_CASE("tour 8: what a search costs in runs") {
  CHECK(runs_of({1}) == 10);          // one engine: no second round
  CHECK(runs_of({1, 2}) == 10 + 7);   // the second is clearly slower
  CHECK(runs_of({2, 1}) == 10 + 10);  // the first could not be known to be
  CHECK(runs_of({1, 2, 0.5, 3}) ==
        10 + 7 + 10 + 7);                     // the chapter's engines, those that may be used
  CHECK(runs_of({1, 0.9}) == 2 * (10 + 15));  // both are close: timed again
  CHECK(runs_of({1, 1.4, 9}) == 2 * (10 + 15) + 7);
  CHECK(runs_of(std::vector<double>(7, 1.0)) == 7 * 10 + 5 * 15);  // at most five finalists
}

TEST_CASE("tour 8: without timing no run is spent") {
  for (const ConvMode mode : {ConvMode::kHeuristic, ConvMode::kDeterministic}) {
    Engines engines;
    engines.ms = {2, 1};
    ConvSearch search(10, [&] { return engines.now; });
    ConvKey key = benchmark_key();
    key.mode = mode;
    search.run(key, engines);
    CHECK(engines.runs == 0);
    CHECK(engines.executed == std::vector<int64_t>{0});  // the first guess, not the fastest
  }
}

// --- 9: the loader -------------------------------------------------------------------------------

TEST_CASE("tour 9: workers read num_workers times prefetch_factor batches ahead, and no more") {
  std::atomic<int64_t> read = 0;
  const data::FunctionDataset set = data::from_function(100, [&](int64_t i) {
    ++read;
    return data::Example(tensor(static_cast<float>(i)), i);
  });
  data::DataLoader loader(set, {.batch_size = 1, .num_workers = 2});
  read = 0;                     // making the set asked for a sample
  auto batch = loader.begin();  // holds batch 0; 1 to 4 wait in the ring
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (read < 1 + 2 * 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(read.load() == 1 + 2 * 2);
}

TEST_CASE("tour 9: what a worker throws waits until it is that batch's turn") {
  const data::FunctionDataset set = data::from_function(8, [](int64_t i) {
    LATHE_CHECK(DataError, i != 5, "no such image");
    return data::Example(tensor(static_cast<float>(i)), i);
  });
  data::DataLoader loader(set, {.batch_size = 2, .num_workers = 3});
  std::vector<int64_t> labels;
  const auto read_all = [&] {
    for (auto& batch : loader) labels.push_back(batch.y.to_vector<int64_t>()[0]);
  };
  CHECK_THROWS_WITH_AS(read_all(), doctest::Contains("sample 5"), DataError);
  CHECK(labels == std::vector<int64_t>{0, 2});
}

TEST_CASE("tour 9: a place holds no memory, so a batch that is kept keeps its values") {
  const data::FunctionDataset set = data::from_function(
      12, [](int64_t i) { return data::Example(tensor(static_cast<float>(i)), i); });
  data::DataLoader loader(set, {.batch_size = 2, .num_workers = 1, .prefetch_factor = 1});
  Tensors kept;  // of six batches that all went through the one place
  for (auto& batch : loader) kept.push_back(batch.x);
  REQUIRE(kept.size() == 6);
  for (size_t b = 0; b < kept.size(); ++b) {
    const auto first = static_cast<float>(2 * b);
    CHECK(kept[b].to_vector<float>() == std::vector<float>{first, first + 1});
  }
}

// --- 10: graphs ----------------------------------------------------------------------------------

TEST_CASE("tour 10: a step of the program is nine launches, and one as a graph" * cuda_case()) {
  const Device gpu("cuda");
  const Tensor x = ones({8, 4}).to(gpu), y = zeros({8, 1}).to(gpu);
  nn::Linear net(4, 1);
  net.to(gpu);
  optim::SGD opt(net.parameters(), {.lr = 0.0625, .momentum = 0.9});
  opt.set_capturable();
  const auto step = [&] {
    opt.zero_grad();
    (net(x) - y).square().mean().backward();
    opt.step();
  };
  const auto launches_of = [](const auto& f) {
    const uint64_t before = cuda::counters().launches;
    f();
    return cuda::counters().launches - before;
  };
  step();  // makes the memory that stays
#ifdef LATHE_CUDA_EMULATED
  CHECK(launches_of(step) == 9);
#else
  CHECK(launches_of(step) > 1);
#endif
  cuda::Graph graph(gpu);
  graph.capture(step);
  CHECK(launches_of([&] { graph.launch(); }) == 1);
}

TEST_CASE("tour 10: a capture that waits for the GPU throws" * cuda_case()) {
  const Tensor x = ones({4}).to(Device("cuda"));
  cuda::Graph graph(x.device());
  CHECK_THROWS_AS(graph.capture([&] { (x * 2).sum().item<float>(); }), Error);
}

}  // namespace
}  // namespace lathe::test
