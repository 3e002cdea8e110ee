// The writer of checkpoints: order, bounded memory, errors, what is kept.
#include "lathe/train/checkpoint_writer.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tests/cuda_case.h"
#include "lathe/tests/train/saved_number.h"

using namespace lathe;
using namespace lathe::train;
using lathe::test::Number;
using lathe::test::saved_number;
using lathe::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("checkpoint writer: a file holds the state of its save, whatever training does next") {
  const TemporaryFolder folder;
  Number number;
  CheckpointWriter writer(folder.path(), 1);
  for (int i = 1; i <= 20; ++i) {
    number.value.fill_(static_cast<double>(i));
    writer.save(collect_checkpoint({{"model", number}}), i % 2 == 0 ? "best" : "last", i);
    number.value.fill_(-1.0);
  }
  writer.finish();
  CHECK(saved_number(folder.path() / "last.safetensors") == 19);
  CHECK(saved_number(folder.path() / "best.safetensors") == 20);
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"best.safetensors", "last.safetensors"});
}

TEST_CASE("checkpoint writer: what waits is written when it is destroyed") {
  const TemporaryFolder folder;
  Number number;
  CheckpointWriter(folder.path(), 1).save(collect_checkpoint({{"model", number}}), "last", 1);
  CHECK(saved_number(folder.path() / "last.safetensors") == 0);
}

TEST_CASE("checkpoint writer: the newest stay, under the number of their step") {
  const TemporaryFolder folder;
  folder.write("step-x.safetensors", "not ours");
  Number number;
  {
    CheckpointWriter writer(folder.path(), 3);
    for (const int step : {5, 10, 15, 100, 100}) {
      number.value.fill_(static_cast<double>(step));
      writer.save(collect_checkpoint({{"model", number}}), "last", step);
    }
    writer.save(collect_checkpoint({{"model", number}}), "best", 100);
    writer.finish();
  }
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{10, 15, 100});
  CHECK(saved_number(folder.path() / "step-15.safetensors") == 15);
  CHECK(fs::equivalent(folder.path() / "step-100.safetensors", folder.path() / "last.safetensors"));
  CHECK(names_in(folder.path()).size() == 6);
}

TEST_CASE("checkpoint writer: where last is a symbolic link, step files are no links to it") {
  const TemporaryFolder folder;
  const fs::path last = folder.path() / "last.safetensors", elsewhere = folder.path() / "elsewhere";
  Number number;
  CheckpointWriter writer(folder.path(), 3);
  for (const int step : {5, 10, 15}) {
    number.value.fill_(static_cast<double>(step));
    writer.save(collect_checkpoint({{"model", number}}), "last", step);
    writer.finish();
    if (fs::is_symlink(last)) continue;
    fs::rename(last, elsewhere);
    fs::create_symlink("elsewhere", last);
  }
  CHECK(fs::is_symlink(last));
  CHECK(saved_number(last) == 15);
  for (const int step : {5, 10, 15}) CHECK(saved_number(folder.path() / step_file(step)) == step);
}

TEST_CASE("checkpoint writer: a run that goes on and keeps one removes the step files it had") {
  const TemporaryFolder folder;
  Number number;
  for (const int keep : {2, 1}) {
    CheckpointWriter writer(folder.path(), keep);
    for (const int step : {5, 10})
      writer.save(collect_checkpoint({{"model", number}}), "last", step);
    writer.finish();
    CHECK(names_in(folder.path()).size() == (keep == 2 ? 3 : 1));
  }
}

TEST_CASE("checkpoint writer: after an error nothing more is written, and every call says why") {
  const TemporaryFolder folder;
  Number number;
  CheckpointWriter writer(folder.path(), 1);
  const ArmedFault fault(file_faults().write, 1);  // the first alone
  writer.save(collect_checkpoint({{"model", number}}), "best", 1);
  CHECK_THROWS_WITH_AS(writer.finish(),
                       doctest::Contains("best.safetensors: cannot write: No space left"),
                       FileError);
  CHECK_THROWS_AS(writer.save(collect_checkpoint({{"model", number}}), "last", 2), FileError);
  CHECK_THROWS_AS(writer.finish(), FileError);
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("snapshot: copies are row-major and use their memory again") {
  Number number;
  number.value = zeros({2, 3}).transpose(0, 1);
  Snapshot snapshot;
  snapshot.take(collect_checkpoint({{"model", number}}));
  const Tensor first = snapshot.checkpoint().tensors.at("value");
  CHECK(first.is_contiguous());
  CHECK_FALSE(first.shares_storage(number.value));
  number.value.fill_(7.0);
  CHECK(first.to_vector<float>()[0] == 0);
  snapshot.take(collect_checkpoint({{"model", number}}));
  CHECK(first.is_same(snapshot.checkpoint().tensors.at("value")));
  CHECK(first.to_vector<float>()[0] == 7);
  number.value = zeros({4});
  snapshot.take(collect_checkpoint({{"model", number}}));
  CHECK(snapshot.checkpoint().tensors.at("value").shape() == Shape{4});
}

TEST_CASE("snapshot: of a GPU it lies on the host, after one wait, and takes no memory there" *
          lathe::test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  Number number;
  number.value = full({2, 3, 4, 5}, 3, {.device = gpu}).contiguous(kChannelsLast);
  const size_t bytes = cuda::memory_allocated(gpu), peak = cuda::max_memory_allocated(gpu);
  const uint64_t waits = cuda::counters().synchronizations;
  Snapshot snapshot;
  snapshot.take(collect_checkpoint({{"model", number}, {"again", number}}));
  CHECK(cuda::counters().synchronizations == waits + 1);
  CHECK(cuda::memory_allocated(gpu) == bytes);
  CHECK(cuda::max_memory_allocated(gpu) == peak);
  number.value.fill_(7.0);
  const Tensor kept = snapshot.checkpoint().tensors.at("value");
  CHECK(kept.is_pinned());
  CHECK(kept.is_contiguous(kChannelsLast));
  CHECK(kept.to_vector<float>() == std::vector<float>(120, 3));
  snapshot.take(collect_checkpoint({{"model", number}, {"again", number}}));
  CHECK(kept.is_same(snapshot.checkpoint().tensors.at("value")));
  CHECK(kept.to_vector<float>() == std::vector<float>(120, 7));
}

TEST_CASE("snapshot: when there is no memory for a part, nobody writes the copy any more" *
          lathe::test::cuda_case()) {
  Number number, more;
  number.value = full({2, 3}, 3, {.device = Device(DeviceType::kCUDA)});
  more.value = zeros({4}, {.device = Device(DeviceType::kCUDA)});
  Snapshot snapshot;
  snapshot.take(collect_checkpoint({{"model", number}}));
  const Checkpoint larger = collect_checkpoint({{"model", number}, {"more", more}});
  {
    const ArmedFault not_pinned(cuda::pinned_allocation_fault(), 1, FaultPoint::kForever);
    const ArmedFault none_at_all(host_allocator().fault(), 1, FaultPoint::kForever);
    CHECK_THROWS_AS(snapshot.take(larger), OutOfMemoryError);
  }
  const Tensor kept = snapshot.checkpoint().tensors.at("value");
  kept.fill_(5.0);
  cuda::synchronize();
  CHECK(kept.to_vector<float>() == std::vector<float>(6, 5));
}

TEST_CASE("snapshot: without page-locked memory a GPU's state goes to other memory of the host" *
          lathe::test::cuda_case()) {
  Number number;
  number.value = full({2, 3}, 7, {.device = Device(DeviceType::kCUDA)});
  Snapshot snapshot;
  const ArmedFault none_left(cuda::pinned_allocation_fault(), 1);
  snapshot.take(collect_checkpoint({{"model", number}}));
  const Tensor kept = snapshot.checkpoint().tensors.at("value");
  CHECK_FALSE(kept.is_pinned());
  CHECK(kept.to_vector<float>() == std::vector<float>(6, 7));
}
