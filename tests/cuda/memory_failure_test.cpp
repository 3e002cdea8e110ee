// A training step on the GPU that runs out of memory, at every allocation it makes: a clean error,
// nothing held, and the step done again gives the bits of one that never failed. Where only a
// workspace is missing, a convolution or product that needs less takes over, and the step works.
#include <cstring>
#include <filesystem>
#include <memory>

#include "../cuda_case.h"
#include "../small_conv_net.h"
#include "lathe/core/cuda.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"
#include "lathe/ops/conv/search/conv_search.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

/// Everything that one step reads and writes.
struct Training {
  Training() {
    manual_seed(7);
    x = randn({2, 3, 6, 6});
    net = std::make_unique<test::SmallConvNet>();
    net->to(kGpu);
    optimizer = std::make_unique<optim::SGD>(net->parameters(),
                                             optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    start = net->state_dict().clone();
  }

  /// → the loss.
  Tensor step() {
    optimizer->zero_grad();
    const Tensor images = x.pin_memory().to(kGpu).contiguous(kChannelsLast);
    const Tensor loss = cross_entropy((*net)(images), tensor({1, 3}).to(kI64).to(kGpu));
    loss.backward();
    optim::clip_grad_norm_(net->parameters(), 1.0);
    optimizer->step();
    return loss;
  }

  std::vector<std::vector<float>> everything() const {
    std::vector<std::vector<float>> out;
    for (const auto& [name, t] : net->state_dict())
      out.push_back(t.to(kF32).cpu().to_vector<float>());
    for (const auto& [name, t] : optimizer->state_dict())
      out.push_back(t.to(kF32).cpu().to_vector<float>());
    return out;
  }

  Tensor x;
  std::unique_ptr<test::SmallConvNet> net;
  std::unique_ptr<optim::SGD> optimizer;
  StateDict start;
};

/// The convolution and the linear layer: three passes each, one of them tried with and without the
/// bias in the same kernel.
constexpr int64_t kWorkspaces = 7;

/// Fails the step at the n-th allocation that `fault` sees, for every n.
void fail_everywhere(FaultPoint& fault) {
  conv_search().clear();
  Training reference;
  fault.count();
  const Tensor loss = reference.step();
  const int64_t allocations = fault.calls();
  fault.disarm();
  const auto expected = reference.everything();
  REQUIRE(allocations > 0);

  int64_t failed = 0;
  for (int64_t n = 1; n <= allocations; ++n) {
    CAPTURE(n);
    conv_search().clear();  // so that the engines are those of the reference
    Training t;
    cuda::synchronize();
    const size_t live = cuda::memory_allocated(), host = host_allocator().stats().allocated_bytes;
    {
      const ArmedFault armed(fault, n);
      try {
        t.step();
        continue;
      } catch (const OutOfMemoryError&) {
        ++failed;
      }
    }
    conv_search().clear();
    t.optimizer->zero_grad();
    cuda::synchronize();
    CHECK(cuda::memory_allocated() == live);
    CHECK(host_allocator().stats().allocated_bytes == host);

    t.net->load_state_dict(t.start);  // batch norm's statistics moved with the forward that worked
    CHECK(t.step().item<float>() == loss.item<float>());
    CHECK(t.everything() == expected);
  }
  CHECK(failed >= allocations - kWorkspaces);
}

}  // namespace

TEST_CASE("out of memory: a step that fails at any allocation on the GPU can be done again" *
          test::cuda_case()) {
  fail_everywhere(cuda::allocation_fault());
}

TEST_CASE("out of memory: the same for pinned memory" * test::cuda_case()) {
  fail_everywhere(cuda::pinned_allocation_fault());
}

TEST_CASE("out of memory: the same for host memory" * test::cuda_case()) {
  fail_everywhere(host_allocator().fault());
}

TEST_CASE("out of memory: a load that fails at any allocation changes nothing on the GPU" *
          test::cuda_case()) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "lathe-memory-failure.safetensors").string();
  Training saved;
  saved.step();
  saved.step();
  const auto parts_of = [](Training& t) {
    return CheckpointParts{{"model", *t.net}, {"optimizer", *t.optimizer}};
  };
  save_checkpoint(path, parts_of(saved));
  const auto wanted = saved.everything();
  for (FaultPoint* fault :
       {&cuda::allocation_fault(), &cuda::pinned_allocation_fault(), &host_allocator().fault()}) {
    Training t;
    t.step();
    const auto before = t.everything();
    bool done = false;
    for (int64_t n = 1; !done; ++n) {
      CAPTURE(n);
      cuda::synchronize();
      const size_t live = cuda::memory_allocated();
      try {
        const ArmedFault armed(*fault, n);
        load_checkpoint(path, parts_of(t));
        done = true;
      } catch (const OutOfMemoryError&) {
        cuda::synchronize();
        CHECK(cuda::memory_allocated() == live);
        REQUIRE(t.everything() == before);
      }
    }
    CHECK(t.everything() == wanted);
  }
  std::filesystem::remove(path);
}

TEST_CASE("out of memory: an epoch on the GPU that fails at any allocation can be done again" *
          test::cuda_case()) {
  const data::Synthetic images({.size = 20, .height = 8, .width = 8});
  const auto read_epoch = [&](data::DataLoader& loader) {
    std::vector<float> out;
    for (auto& [x, y] : data::prefetch(loader, kGpu)) {
      const auto values = x.cpu().to(kF32).to_vector<float>();
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  };
  for (const int64_t workers : {0, 2}) {
    const data::DataLoaderOptions options{
        .batch_size = 6, .shuffle = true, .num_workers = workers, .pin_memory = true, .seed = 3};
    data::DataLoader whole(images, options);
    const std::vector<float> expected = read_epoch(whole);
    for (FaultPoint* fault :
         {&cuda::allocation_fault(), &cuda::pinned_allocation_fault(), &host_allocator().fault()}) {
      int64_t failed = 0;
      for (int64_t n = 1; n == failed + 1; ++n) {  // until it works
        CAPTURE(workers);
        CAPTURE(n);
        data::DataLoader loader(images, options);
        cuda::synchronize();
        const size_t live = cuda::memory_allocated();
        try {
          const ArmedFault armed(*fault, n);
          CHECK(read_epoch(loader) == expected);
          break;
        } catch (const OutOfMemoryError&) {
          ++failed;
        }
        cuda::synchronize();
        CHECK(cuda::memory_allocated() == live);
        loader.set_epoch(0);
        CHECK(read_epoch(loader) == expected);
      }
      CHECK(failed > 0);
    }
  }
}

TEST_CASE("out of memory: the error names the device, the numbers and who holds the memory" *
          test::cuda_case()) {
  const Tensor x = randn({4, 8, 32, 32}, {.device = kGpu}),
               w = randn({8, 8, 3, 3}, {.device = kGpu});
  const Tensor y = conv2d(x, w, {.pad = 1});  // 128 KiB
  const ArmedFault armed(cuda::allocation_fault(), 1);
  try {
    conv2d(x, w);
    FAIL("no error");
  } catch (const OutOfMemoryError& error) {
    const std::string text = error.what();
    CAPTURE(text);
    for (const char* part : {"cuda:0: out of memory: requested ", " for conv2d_forward(", "live ",
                             "largest free ", "biggest calls: ", ") 128 KiB in 1 block"}) {
      CHECK(text.find(part) != std::string::npos);
    }
  }
}
