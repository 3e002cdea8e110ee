// An epoch of a loader that fails anywhere: a typed error out of the iterator, nothing held, and
// the epoch done again gives the batches of one that never failed.
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "failing_calls.h"
#include "lathe/core/files/file.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::TempDir;
using data::testing::write_file;

/// Samples in files of their own, read when they are asked for.
class Files final : public data::Dataset {
 public:
  explicit Files(const TempDir& dir) : folder_(dir.path()) {
    for (int64_t i = 0; i < kCount; ++i)
      write_file(path(i), std::string(kBytes, static_cast<char>('a' + i)));
  }
  int64_t size() const override { return kCount; }
  data::SampleSpec spec() const override { return {{{"x", {kBytes}, kU8}, {"y", {}, kI64}}}; }
  void read(int64_t i, data::Key, data::Slot out) const override {
    const InputFile file(path(i));
    file.read(out.data<uint8_t>(0).data(), kBytes, 0);
    out.set<int64_t>(1, i);
  }

 private:
  static constexpr int64_t kCount = 7, kBytes = 5;
  std::string path(int64_t i) const { return (folder_ / std::to_string(i)).string(); }
  std::filesystem::path folder_;
};

struct Epoch {
  std::vector<uint8_t> x;
  std::vector<int64_t> y;
  bool operator==(const Epoch&) const = default;
};

struct Point {
  const char* name;
  FaultPoint& fault;
};

TEST_CASE("faults: an epoch that fails anywhere is an error of the iterator, and can be repeated") {
  const TempDir dir;
  const auto files = std::make_shared<Files>(dir);
  const Point points[] = {{"tensors", host_allocator().fault()},
                          {"new", test::new_fault()},
                          {"open", file_faults().open},
                          {"read", file_faults().read},
                          {"clock", test::clock_fault()}};
  std::optional<Epoch> reference;
  for (const int64_t workers : {0, 2})
    for (const bool persistent : {false, true}) {
      if (persistent && workers == 0) continue;
      for (const Point& point : points) {
        CAPTURE(workers);
        CAPTURE(persistent);
        CAPTURE(point.name);
        std::unique_ptr<data::DataLoader> loader;
        Epoch epoch;
        const int64_t failed = test::fail_everywhere(
            point.fault, {.prepare =
                              [&] {
                                loader = std::make_unique<data::DataLoader>(
                                    files,
                                    data::DataLoaderOptions{.batch_size = 3,
                                                            .shuffle = true,
                                                            .num_workers = workers,
                                                            .seed = 5,
                                                            .persistent_workers = persistent});
                                if (persistent) {  // the threads are there and stay
                                  for ([[maybe_unused]] auto& batch : *loader) {
                                  }
                                  loader->set_epoch(0);
                                }
                                epoch = {};
                                epoch.x.reserve(100);
                                epoch.y.reserve(100);
                              },
                          .run =
                              [&] {
                                epoch.x.clear();
                                epoch.y.clear();
                                for (auto& [x, y] : *loader) {
                                  const auto* pixels = x.data<uint8_t>();
                                  const auto* labels = y.data<int64_t>();
                                  epoch.x.insert(epoch.x.end(), pixels, pixels + x.numel());
                                  epoch.y.insert(epoch.y.end(), labels, labels + y.numel());
                                }
                              },
                          .check_failed = [&] { loader->set_epoch(0); },
                          .check_done =
                              [&] {
                                if (!reference) reference = epoch;
                                CHECK(epoch == *reference);
                              }});
        CHECK((failed > 0) == (&point.fault != &test::clock_fault()));
      }
    }
}

}  // namespace
}  // namespace lathe
