// The kernel of ops/index_kernels/index_check_cuda.cu: what is out of range is noted with its place, what is in
// range is not.
#include <doctest/doctest.h>

#include "fault.h"
#include "lathe/ops/index.h"
#include "lathe/ops/losses/class_targets.h"

using namespace lathe;
using namespace lathe::test;

namespace {

Tensor index_with(const Shape& shape, int64_t place, int64_t value) {
  const Tensor index = randint(0, 7, shape);
  if (place >= 0) index.data<int64_t>()[place] = value;
  return index;
}

void check_noted(int64_t position, int64_t value, int64_t limit) {
  const FaultReport fault = take_fault();
  REQUIRE(fault.raised == 1);
  CHECK(std::string(fault.op) == "gather");
  CHECK(fault.position == position);
  CHECK(fault.value == value);
  CHECK(fault.limit == limit);
}

}  // namespace

TEST_CASE("range check kernel: an index out of range is noted with its row-major place") {
  take_fault();
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{31}, Shape{1025}, Shape{0, 3}, Shape{7, 9}}) {
    cuda::check_index("gather", on_device(index_with(shape, -1, 0)), 7);
    CHECK(take_fault().raised == 0);
  }
  cuda::check_index("gather", on_device(index_with({1025}, 1024, 7)), 7);
  check_noted(1024, 7, 7);
  cuda::check_index("gather", on_device(index_with({7, 9}, 0, -1)), 7);
  check_noted(0, -1, 7);
  // Element [r,c] = [8,3] of a transposed view: row-major place 8 * 7 + 3.
  cuda::check_index("gather", on_device(index_with({7, 9}, 3 * 9 + 8, 100).t()), 7);
  check_noted(59, 100, 7);
  cuda::check_index("gather", on_device(zeros({2}, {.dtype = kI64})), 0);  // nothing is in range
  CHECK(take_fault().raised == 1);
  cuda::check_index("gather", on_device(zeros({2}, {.dtype = kI64})), -1);
  CHECK(take_fault().raised == 0);
  cuda::check_index("gather", on_device(tensor({0, 0, 1})), -1);
  check_noted(2, 1, -1);
}

TEST_CASE("range check kernel: a class is in range or it is ignore_index") {
  take_fault();
  ClassTargets targets;
  targets.classes = 7;
  targets.ignore_index = -100;
  targets.index = on_device(index_with({40}, 5, -100));
  cuda::check_class_range("gather", targets);
  CHECK(take_fault().raised == 0);
  targets.ignore_index = -1;
  cuda::check_class_range("gather", targets);
  check_noted(5, -100, 7);
}
