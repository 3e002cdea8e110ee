#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/formats/dlpack_abi.h"
#include "lathe/lathe_c.h"

namespace {

bool has(const char* text) {
  return std::string(lathe_last_error()).find(text) != std::string::npos;
}

int64_t size_of_dim(const lathe_tensor* tensor, int32_t dim) {
  int64_t out = -1;
  CHECK(lathe_tensor_size(tensor, dim, &out) == LATHE_OK);
  return out;
}

void count(void* counter) { ++*static_cast<int*>(counter); }

}  // namespace

TEST_CASE("C tensors: zeros has sizes, dtype, device and memory") {
  const int64_t sizes[] = {2, 0, 3};
  lathe_tensor* tensor = nullptr;
  REQUIRE(lathe_tensor_zeros(LATHE_I16, 3, sizes, &tensor) == LATHE_OK);
  int32_t ndim = -1, device = 7;
  lathe_dtype dtype = LATHE_BOOL;
  void* data = &ndim;
  CHECK(lathe_tensor_ndim(tensor, &ndim) == LATHE_OK);
  CHECK(lathe_tensor_device(tensor, &device) == LATHE_OK);
  CHECK(lathe_tensor_dtype(tensor, &dtype) == LATHE_OK);
  CHECK(lathe_tensor_data(tensor, &data) == LATHE_OK);
  CHECK(ndim == 3);
  CHECK(device == LATHE_CPU);
  CHECK(dtype == LATHE_I16);
  CHECK(data == nullptr);  // it has no elements
  CHECK(size_of_dim(tensor, -1) == 3);
  int64_t none = 9;
  CHECK(lathe_tensor_size(tensor, 3, &none) == LATHE_BAD_INDEX);
  CHECK(none == 0);
  CHECK(lathe_tensor_free(tensor) == LATHE_OK);
  REQUIRE(lathe_tensor_zeros(LATHE_F32, 0, nullptr, &tensor) == LATHE_OK);
  CHECK(lathe_tensor_data(tensor, &data) == LATHE_OK);
  CHECK(*static_cast<float*>(data) == 0);
  CHECK(lathe_tensor_free(tensor) == LATHE_OK);
}

TEST_CASE("C tensors: a wrong argument gives no tensor and its message has the values") {
  const int64_t sizes[] = {2, -3}, huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  lathe_tensor* const before = reinterpret_cast<lathe_tensor*>(8);
  lathe_tensor* out = before;
  CHECK(lathe_tensor_zeros(LATHE_F32, 2, sizes, &out) == LATHE_BAD_SHAPE);
  CHECK(has("-3"));
  CHECK(out == nullptr);
  CHECK(lathe_tensor_zeros(LATHE_F32, 2, huge, &out) != LATHE_OK);
  CHECK(lathe_tensor_zeros(LATHE_F32, 9, nine, &out) == LATHE_BAD_SHAPE);
  CHECK(has("ndim is 9"));
  CHECK(lathe_tensor_zeros(LATHE_F32, -1, nine, &out) == LATHE_BAD_SHAPE);
  CHECK(lathe_tensor_zeros(LATHE_F32, 1, nullptr, &out) == LATHE_BAD_VALUE);
  CHECK(has("sizes is NULL"));
  CHECK(lathe_tensor_zeros(static_cast<lathe_dtype>(10), 1, nine, &out) == LATHE_BAD_VALUE);
  CHECK(has("dtype is 10"));
  CHECK(lathe_tensor_zeros(LATHE_F32, 1, nine, nullptr) == LATHE_BAD_VALUE);
  CHECK(has("the place of the result is NULL"));
  CHECK(std::string(lathe_status_name(LATHE_BAD_SHAPE)) == "LATHE_BAD_SHAPE");
  CHECK(std::string(lathe_status_name(static_cast<lathe_status>(99))) == "unknown status");
}

TEST_CASE("C tensors: memory in Fortran's order is the transpose of memory in C's") {
  std::vector<double> columns = {1, 2, 3, 4, 5, 6};  // [2,3]: 1 3 5 / 2 4 6
  const int64_t sizes[] = {2, 3}, strides[] = {1, 2};
  int released = 0;
  lathe_tensor *fortran = nullptr, *rows = nullptr;
  REQUIRE(lathe_tensor_wrap(columns.data(), LATHE_F64, 2, sizes, strides, count, &released,
                            &fortran) == LATHE_OK);
  int64_t stride = 0;
  CHECK(lathe_tensor_stride(fortran, 1, &stride) == LATHE_OK);
  CHECK(stride == 2);
  std::vector<float> values(6);
  REQUIRE(lathe_tensor_wrap(values.data(), LATHE_F32, 2, sizes, nullptr, nullptr, nullptr, &rows) ==
          LATHE_OK);
  CHECK(lathe_tensor_copy(fortran, rows) == LATHE_OK);
  CHECK(values == std::vector<float>{1, 3, 5, 2, 4, 6});
  columns[1] = 20;  // both sides see it
  CHECK(lathe_tensor_copy(fortran, rows) == LATHE_OK);
  CHECK(values[3] == 20);
  values[0] = -1;
  CHECK(lathe_tensor_copy(rows, fortran) == LATHE_OK);
  CHECK(columns == std::vector<double>{-1, 20, 3, 4, 5, 6});
  CHECK(released == 0);
  CHECK(lathe_tensor_free(fortran) == LATHE_OK);
  CHECK(released == 1);
  CHECK(lathe_tensor_free(rows) == LATHE_OK);
}

TEST_CASE("C tensors: what cannot be wrapped stays the caller's") {
  double values[4] = {};
  const int64_t sizes[] = {2, 2}, backwards[] = {2, -1};
  const int64_t far[] = {int64_t{1} << 62, int64_t{1} << 62};
  int released = 0;
  lathe_tensor* out = nullptr;
  CHECK(lathe_tensor_wrap(values, LATHE_F64, 2, sizes, backwards, count, &released, &out) ==
        LATHE_BAD_SHAPE);
  CHECK(has("strides[1] is -1"));
  CHECK(lathe_tensor_wrap(values, LATHE_F64, 2, sizes, far, count, &released, &out) ==
        LATHE_BAD_SHAPE);
  CHECK(lathe_tensor_wrap(nullptr, LATHE_F64, 2, sizes, nullptr, count, &released, &out) ==
        LATHE_BAD_VALUE);
  CHECK(lathe_tensor_wrap(reinterpret_cast<char*>(values) + 1, LATHE_F64, 1, sizes, nullptr, count,
                          &released, &out) == LATHE_BAD_VALUE);
  CHECK(has("8 bytes"));
  CHECK(out == nullptr);
  CHECK(released == 0);
}

TEST_CASE("C tensors: copies need equal sizes; a dtype of one's own") {
  const int64_t two[] = {2}, three[] = {3};
  lathe_tensor *a = nullptr, *b = nullptr, *converted = nullptr;
  REQUIRE(lathe_tensor_zeros(LATHE_F32, 1, two, &a) == LATHE_OK);
  REQUIRE(lathe_tensor_zeros(LATHE_F32, 1, three, &b) == LATHE_OK);
  CHECK(lathe_tensor_copy(a, b) == LATHE_BAD_SHAPE);
  CHECK(has("[2]"));
  CHECK(has("[3]"));
  REQUIRE(lathe_tensor_to(a, LATHE_CPU, LATHE_I64, &converted) == LATHE_OK);
  lathe_dtype dtype = LATHE_BOOL;
  CHECK(lathe_tensor_dtype(converted, &dtype) == LATHE_OK);
  CHECK(dtype == LATHE_I64);
  CHECK(lathe_tensor_require_gradient(converted, 1) == LATHE_BAD_DTYPE);
  CHECK(lathe_tensor_free(converted) == LATHE_OK);
  CHECK(lathe_tensor_to(a, 1000, LATHE_F32, &converted) == LATHE_BAD_DEVICE);
  CHECK(has("device is 1000"));
  CHECK(converted == nullptr);
  for (lathe_tensor* tensor : {a, b}) CHECK(lathe_tensor_free(tensor) == LATHE_OK);
}

TEST_CASE("C tensors: DLPack hands memory over in both directions") {
  float values[3] = {1, 2, 3};
  const int64_t sizes[] = {3};
  int released = 0;
  lathe_tensor *tensor = nullptr, *back = nullptr;
  REQUIRE(lathe_tensor_wrap(values, LATHE_F32, 1, sizes, nullptr, count, &released, &tensor) ==
          LATHE_OK);
  for (const int32_t versioned : {0, 1}) {
    CAPTURE(versioned);
    void* managed = nullptr;
    REQUIRE(lathe_tensor_to_dlpack(tensor, versioned, &managed) == LATHE_OK);
    REQUIRE(lathe_tensor_from_dlpack(managed, versioned, &back) == LATHE_OK);
    void* data = nullptr;
    CHECK(lathe_tensor_data(back, &data) == LATHE_OK);
    CHECK(data == values);
    CHECK(size_of_dim(back, 0) == 3);
    CHECK(lathe_tensor_free(back) == LATHE_OK);
  }
  void* managed = nullptr;
  REQUIRE(lathe_tensor_to_dlpack(tensor, 1, &managed) == LATHE_OK);
  CHECK(lathe_tensor_free(tensor) == LATHE_OK);
  CHECK(released == 0);  // the export keeps it
  auto* const structure = static_cast<DLManagedTensorVersioned*>(managed);
  structure->dl_tensor.dtype.code = kDLComplex;
  CHECK(lathe_tensor_from_dlpack(managed, 1, &back) == LATHE_BAD_VALUE);
  CHECK(back == nullptr);
  structure->deleter(structure);
  CHECK(released == 1);
  CHECK(lathe_tensor_from_dlpack(nullptr, 1, &back) == LATHE_BAD_VALUE);
}
