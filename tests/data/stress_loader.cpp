// Loaders under random use from several threads, and the memory that twenty epochs leave behind.
// Without arguments, a test of a second; by hand, for as long as one likes:
//
//   stress_loader use [SECONDS [SEED]]       build/tsan/tests/data/stress_loader use 300
//   stress_loader memory [IMAGES [EPOCHS]]   build/release/tests/data/stress_loader memory 50000 20
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/data/data_loader.h"
#include "lathe/data/device/device_batches.h"
#include "lathe/data/images/image_datasets.h"
#include "random_use.h"

namespace lathe::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kThreads = 3;  // that use loaders, besides their workers

bool use_at_random(double seconds, uint64_t seed) {
  testing::UseCounts counts;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::mutex mutex;
  std::string problem;  // the first
  const auto failed = [&] {
    const std::lock_guard lock(mutex);
    return !problem.empty();
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int64_t round = 0; Clock::now() < end && !failed(); ++round) try {
          Random random(seed, thread, round, 0);
          testing::use_a_loader(random, counts);
        } catch (const std::exception& error) {
          const std::lock_guard lock(mutex);
          problem =
              concat("seed ", seed, ", thread ", thread, ", round ", round, ": ", error.what());
        }
    });
  for (std::thread& thread : threads) thread.join();
  std::cout << concat("random use, ", seconds, " s: ", counts.loaders.load(), " loaders, ",
                      counts.passes.load(), " passes (", counts.abandoned.load(), " abandoned), ",
                      counts.batches.load(), " batches, ", counts.errors.load(), " errors\n");
  if (failed()) std::cout << problem << '\n';
  return !failed();
}

#if defined(LATHE_ASAN) || defined(LATHE_TSAN) || defined(LATHE_CUDA_EMULATED)
// Shadow memory and quarantines grow; an emulated GPU's memory belongs to the process, and is
// touched for the first time in any of the first ten or so epochs.
constexpr bool kJudgesResident = false;
#else
constexpr bool kJudgesResident = true;
#endif

struct Memory {
  int64_t resident;   // of the process
  size_t live, held;  // bytes of tensors; of the host allocator
  uint64_t driver;    // blocks that were taken from the GPU's driver, pinned ones too
};

Memory memory_now() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  const MemoryStats host = host_allocator().stats();
  return {pages * ::sysconf(_SC_PAGESIZE), host.allocated_bytes, host.reserved_bytes,
          cuda::counters().driver_allocations};
}

/// Epochs of augmented images through two workers, on to the GPU where there is one. After the
/// second epoch nothing may grow by more than the batches that may exist at once, which timing
/// decides.
bool stays_flat(int64_t images, int64_t epochs) {
  constexpr int64_t kBatch = 128, kWorkers = 2, kPrefetch = 2;
  constexpr int64_t kMostBatches = kWorkers * kPrefetch + 2;  // and the one in use, and one ahead
  constexpr int64_t kSlack = kMostBatches * kBatch * 3 * 32 * 32 * 5 / 4 * sizeof(float);
  ImageSet set{3, 32, 32, {}, {}};
  set.pixels.resize(static_cast<size_t>(images * set.image_bytes()), 7);
  set.labels.resize(static_cast<size_t>(images), 1);
  const std::vector<double> half(3, 0.5);
  const StoredImages stored(std::move(set), std::vector<std::string>(10, "class"), half, half,
                            compose(pad_crop(32, 4), hflip(), normalize(half, half)));
  DataLoader loader(stored, {.batch_size = kBatch,
                             .shuffle = true,
                             .num_workers = kWorkers,
                             .pin_memory = cuda_is_available(),
                             .prefetch_factor = kPrefetch});
  const Device device = cuda_is_available() ? Device(DeviceType::kCUDA) : Device(kCPU);
  bool flat = true;
  Memory second{};
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    int64_t seen = 0;
    for (auto& batch : prefetch(loader, device)) {
      seen += batch.size();
      if (device.is_cuda()) cuda::synchronize(device);  // as a loop that reads each loss
    }
    const Memory now = memory_now();
    if (epoch == 2) second = now;
    flat = flat && seen == images;
    if (epoch != 1 && epoch != 2 && epoch != epochs) continue;
    std::cout << concat("epoch ", epoch, " of ", images, " images: resident ", now.resident >> 10,
                        " KiB, tensors ", now.live, " bytes, allocator ", now.held >> 10,
                        " KiB, blocks of the driver ", now.driver, "\n");
    if (epoch <= 2) continue;
    flat = flat && now.live <= second.live &&
           now.held <= second.held + static_cast<size_t>(kSlack) &&
           now.driver <= second.driver + 2 * kMostBatches &&
           (!kJudgesResident || now.resident <= second.resident + kSlack);
  }
  return flat;
}

int64_t number(int argc, char** argv, int at, int64_t otherwise) {
  return argc > at ? std::atoll(argv[at]) : otherwise;
}

}  // namespace
}  // namespace lathe::data

int main(int argc, char** argv) {
  using namespace lathe::data;
  const std::string what = argc > 1 ? argv[1] : "both";
  int passed = 0, failed = 0;
  const auto count = [&](bool good) { ++(good ? passed : failed); };
  if (what != "memory") {
    const int64_t seconds = number(argc, argv, 2, 1);
    count(use_at_random(static_cast<double>(seconds),
                        static_cast<uint64_t>(number(argc, argv, 3, 0))));
  }
  if (what != "use") count(stays_flat(number(argc, argv, 2, 256), number(argc, argv, 3, 20)));
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
