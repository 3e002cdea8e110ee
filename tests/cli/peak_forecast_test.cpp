// The forecast of a training's peak: its parts against numbers that can be counted, and its texts.
// train_test.py compares it with runs.
#include "lathe/tools/cli/training/peak_forecast.h"

#include <doctest/doctest.h>

#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/tests/threads_scope.h"

namespace lathe::cli {
namespace {

constexpr int64_t kParameters = 75'290;  // of resnet8 for ten classes

Settings definite() {
  Settings settings;
  settings.model = "resnet8";
  settings.image_size = 16;
  settings.batch_size = 32;
  settings.lr = 0.1;
  settings.workers = 1;
  return settings;
}

double fixed_of(const Settings& settings, int64_t steps = 10) {
  return forecast_peak(settings, {}, kCPU, steps).value().fixed_bytes;
}

TEST_CASE("forecast_peak: what is kept for each parameter is in it as often as it is kept") {
  const test::ThreadsScope one(1);  // each that takes part in a convolution has memory of its own
  // Weights, gradients and momentum of a step, and three copies of a state of weights and momentum.
  CHECK(forecast_peak(definite(), {}, kCPU, 10).value().peak(32) > 4 * kParameters * (3 + 3 * 2));
  const double plain = fixed_of(definite());
  Settings settings = definite();
  settings.momentum = 0;
  const double of_momentum = 4.0 * kParameters * (1 + 3);
  CHECK(plain - fixed_of(settings) == doctest::Approx(of_momentum).epsilon(0.05));
  settings = definite();
  settings.ema = 0.9;
  CHECK(fixed_of(settings) - plain == doctest::Approx(of_momentum).epsilon(0.05));
  // A run of many steps has one copy more.
  CHECK(fixed_of(definite(), 1000) - plain == doctest::Approx(4.0 * 2 * kParameters).epsilon(0.05));
}

TEST_CASE("forecast_peak: batches that are read ahead count, and what is there already does not") {
  const test::ThreadsScope one(1);  // each that takes part in a convolution has memory of its own
  const auto of_workers = [](int64_t workers) {
    Settings settings = definite();
    settings.workers = workers;
    return forecast_peak(settings, {}, kCPU, 10).value().bytes_per_sample;
  };
  const double one_image = 4 * 3 * 16 * 16, prefetch_factor = 2;
  CHECK(of_workers(3) - of_workers(0) == doctest::Approx(3 * prefetch_factor * one_image));
  const double plain = fixed_of(definite());
  const Tensor present = empty({1 << 22});
  CHECK(fixed_of(definite()) == doctest::Approx(plain).epsilon(0.01));
  CHECK(profile::memory_use().in_use >= present.bytes());
}

TEST_CASE("forecast_peak: without memory there is none, and the state of the library stays") {
  const bool before = cudnn::benchmark();
  cudnn::set_benchmark(true);
  host_allocator().fault().fail_at(1, FaultPoint::kForever);
  const auto forecast = forecast_peak(definite(), {}, kCPU, 10);
  host_allocator().fault().disarm();
  CHECK(cudnn::benchmark());  // the steps of the forecast search for no convolution
  cudnn::set_benchmark(before);
  CHECK_FALSE(forecast);
  CHECK(forecast_text(forecast, 32).empty());
}

TEST_CASE("forecast: texts") {
  const auto of = [](double fixed) { return profile::MemoryForecast{fixed, 1024}; };
  CHECK(forecast_text(of(0), 4) == "about 4.0 KiB of memory at the peak");
  CHECK(forecast_text(of(350 << 20), 4) == "about 350 MiB of memory at the peak");
  CHECK(forecast_text(of(1.44 * (1 << 30)), 4) == "about 1.4 GiB of memory at the peak");
  CHECK(forecast_text(of(999.8 * (1 << 20)), 1) == "about 1000 MiB of memory at the peak");
  const profile::MemoryForecast forecast{100 << 20, 1 << 20};
  CHECK(forecast_warning(forecast, 128, int64_t{228} << 20).empty());
  CHECK(forecast_warning(forecast, 128, int64_t{200} << 20) ==
        "228 MiB are forecast at the peak of a step, and 200 MiB are free; --batch-size 100 should "
        "fit");
  CHECK(forecast_warning(forecast, 128, int64_t{50} << 20) ==
        "228 MiB are forecast at the peak of a step, and 50 MiB are free");
}

}  // namespace
}  // namespace lathe::cli
