// A save and a load that fail anywhere: the file is the old one, or the objects are as they were;
// nothing is held, and the next attempt works.
#include "lathe/nn/checkpoint.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "failing_calls.h"
#include "lathe/core/files/file.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::names_in;
using data::testing::read_file;
using data::testing::TempDir;
using data::testing::write_file;

constexpr char kName[] = "c.safetensors";

/// A model and its optimiser after some steps.
struct Training {
  explicit Training(int64_t steps) {
    for (int64_t k = 0; k < steps; ++k) {
      optimizer.zero_grad();
      square(net(ones({2, 3}))).mean().backward();
      optimizer.step();
    }
  }
  CheckpointParts parts() { return {{"model", net}, {"optimizer", optimizer}}; }
  std::string bytes() {
    std::string out;
    for (const auto& [name, t] : collect_checkpoint(parts()).tensors)
      out.append(name).append(static_cast<const char*>(t.contiguous().raw_data()),
                              static_cast<size_t>(t.bytes()));
    return out;
  }
  nn::Linear net{3, 2};
  optim::Adam optimizer{net.parameters(), {}};
};

/// Every point at which a save or a load may fail.
struct Point {
  const char* name;
  FaultPoint& fault;
};
const Point kSavePoints[] = {{"tensors", host_allocator().fault()},
                             {"new", test::new_fault()},
                             {"open", file_faults().open},
                             {"write", file_faults().write},
                             {"rename", file_faults().rename}};
const Point kLoadPoints[] = {{"tensors", host_allocator().fault()},
                             {"new", test::new_fault()},
                             {"open", file_faults().open},
                             {"read", file_faults().read}};

TEST_CASE(
    "faults: a save that fails anywhere leaves the old file and no other, and can be repeated") {
  const TempDir dir;
  const std::string path = dir / kName;
  manual_seed(1);
  Training before(1), after(2);
  save_checkpoint(path, after.parts());
  const std::string fresh = read_file(path);
  save_checkpoint(path, before.parts());
  const std::string old = read_file(path);
  REQUIRE(old != fresh);
  for (const Point& point : kSavePoints) {
    CAPTURE(point.name);
    const int64_t failed = test::fail_everywhere(
        point.fault, {.prepare = [&] { write_file(path, old); },
                      .run = [&] { save_checkpoint(path, after.parts()); },
                      .check_failed =
                          [&] {
                            CHECK(read_file(path) == old);
                            CHECK(names_in(dir.path()).size() == 1);
                          },
                      .check_done = [&] { CHECK(read_file(path) == fresh); }});
    CHECK(failed >= 1);
  }
}

TEST_CASE("faults: a load that fails anywhere changes nothing, and can be repeated") {
  const TempDir dir;
  const std::string path = dir / kName;
  manual_seed(1);
  Training saved(3);
  save_checkpoint(path, saved.parts());
  const std::string wanted = saved.bytes();
  std::unique_ptr<Training> training;
  std::string before;
  for (const Point& point : kLoadPoints) {
    CAPTURE(point.name);
    const int64_t failed = test::fail_everywhere(
        point.fault, {.prepare =
                          [&] {
                            manual_seed(1);
                            training = std::make_unique<Training>(1);
                            manual_seed(1);
                            before = training->bytes();
                          },
                      .run = [&] { load_checkpoint(path, training->parts()); },
                      .check_failed = [&] { CHECK(training->bytes() == before); },
                      .check_done = [&] { CHECK(training->bytes() == wanted); }});
    CHECK(failed >= 1);
  }
}

}  // namespace
}  // namespace lathe
