// DLPack: the layout of the structures, round trips, lifetimes, and what must be refused.
#include "lathe/core/formats/dlpack.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/formats/dlpack_abi.h"
#include "lathe/core/half.h"
#include "lathe/core/stream.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/views.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;

// The ABI on 64-bit machines, as dlpack.h's own structures give it.
static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 &&
              offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24 &&
              offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40 &&
              sizeof(DLTensor) == 48);
static_assert(offsetof(DLManagedTensor, manager_ctx) == 48 &&
              offsetof(DLManagedTensor, deleter) == 56 && sizeof(DLManagedTensor) == 64);
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
              offsetof(DLManagedTensorVersioned, deleter) == 16 &&
              offsetof(DLManagedTensorVersioned, flags) == 24 &&
              offsetof(DLManagedTensorVersioned, dl_tensor) == 32 &&
              sizeof(DLManagedTensorVersioned) == 80);
static_assert(sizeof(DLDataType) == 4 && sizeof(DLDevice) == 8);

/// A structure as another library makes it, which counts its deletions.
template <class Managed>
struct Foreign {
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  std::vector<int64_t> shape = {2, 3}, strides = {3, 1};
  int deleted = 0;
  Managed managed{};

  Foreign() {
    managed.dl_tensor = {.data = values.data(),
                         .device = {kDLCPU, 0},
                         .ndim = 2,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = shape.data(),
                         .strides = strides.data(),
                         .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) managed.version = {1, 3};
  }
};

TEST_CASE("dlpack: an export shares memory, and keeps it alive until its deleter runs") {
  Tensor t = transpose(arange(6, {.dtype = kF32}).reshape({2, 3}), 0, 1);
  DLManagedTensorVersioned* out = to_dlpack(t);
  CHECK(out->version.major == 1);
  CHECK(out->flags == 0);
  const DLTensor& d = out->dl_tensor;
  CHECK(d.data == t.raw_data());
  CHECK(d.device.device_type == kDLCPU);
  CHECK(d.ndim == 2);
  CHECK(d.dtype.code == kDLFloat);
  CHECK(d.dtype.bits == 32);
  CHECK(d.dtype.lanes == 1);
  CHECK(d.shape[0] == 3);
  CHECK(d.shape[1] == 2);
  CHECK(d.strides[0] == 1);
  CHECK(d.strides[1] == 3);
  const auto* values = static_cast<const float*>(d.data);
  t = {};
  CHECK(values[5] == 5.f);  // a memory checker would notice
  out->deleter(out);

  DLManagedTensor* old = to_dlpack_unversioned(tensor({1, 0}, {.dtype = kBool}));
  CHECK(old->dl_tensor.dtype.code == kDLBool);
  CHECK(old->dl_tensor.dtype.bits == 8);
  old->deleter(old);
  CHECK_THROWS_AS(to_dlpack(zeros({2}, {.requires_grad = true})), StateError);
}

TEST_CASE("dlpack: every dtype, views, 0-d and empty tensors come back, as the same memory") {
  const Tensor base = arange(24, {.dtype = kF32}).reshape({2, 3, 4});
  std::vector<Tensor> samples = {base,
                                 slice(base, 2, 1, 4, 2),
                                 select(base, 0, 1),
                                 expand(tensor({7.f}), {3, 2}),
                                 tensor(2.5, kF64),
                                 zeros({3, 0})};
  for (int i = 0; i < kNumDTypes; ++i) {
    samples.push_back(tensor({1, 0, 1}, {.dtype = static_cast<DType>(i)}));
  }
  for (const Tensor& t : samples) {
    CAPTURE(concat(t));
    for (const Tensor& back : {from_dlpack(to_dlpack(t)), from_dlpack(to_dlpack_unversioned(t))}) {
      CHECK(back.dtype() == t.dtype());
      CHECK(back.shape() == t.shape());
      CHECK(back.strides() == t.strides());
      CHECK(back.raw_data() == t.raw_data());
      CHECK(back.to_vector<double>() == t.to_vector<double>());
      int64_t last = 0;  // an import ends behind its last element
      for (int d = 0; d < t.ndim(); ++d) last += (t.shape()[d] - 1) * t.strides()[d];
      const int64_t kept = t.numel() == 0 ? 0 : last + 1;
      if (kept > 0) CHECK(as_strided(back, {kept}, {1}, 0).numel() == kept);
      CHECK_THROWS_AS(as_strided(back, {kept + 1}, {1}, 0), IndexError);
    }
  }
}

std::vector<float> values_of(const Tensor& t) { return t.to_vector<float>(); }

template <class Managed>
void check_import() {
  Foreign<Managed> foreign;
  foreign.managed.dl_tensor.byte_offset = 4;
  foreign.shape = {2, 2};
  {
    Tensor t = from_dlpack(&foreign.managed);
    CHECK(values_of(t) == std::vector<float>{1, 2, 4, 5});
    const Tensor view = t[1];
    t.add_(10.0);
    CHECK(foreign.values == std::vector<float>{0, 11, 12, 3, 14, 15});
    t = {};
    CHECK(foreign.deleted == 0);  // the view still looks at it
    CHECK(values_of(view) == std::vector<float>{14, 15});
  }
  CHECK(foreign.deleted == 1);
  foreign.managed.dl_tensor.strides = nullptr;  // row-major
  foreign.managed.dl_tensor.byte_offset = 0;
  CHECK(values_of(from_dlpack(&foreign.managed)) == std::vector<float>{0, 11, 12, 3});
  CHECK(foreign.deleted == 2);
  foreign.managed.deleter = nullptr;
  CHECK(from_dlpack(&foreign.managed).numel() == 4);
}

TEST_CASE("dlpack: an import is released once, with the last tensor over it") {
  check_import<DLManagedTensor>();
  check_import<DLManagedTensorVersioned>();
}

TEST_CASE("dlpack: read-only memory is copied, and released at once") {
  Foreign<DLManagedTensorVersioned> foreign;
  foreign.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  const Tensor t = from_dlpack(&foreign.managed);
  CHECK(foreign.deleted == 1);
  t.add_(1.0);
  CHECK(t.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(foreign.values[0] == 0.f);
}

TEST_CASE("dlpack: a GPU tensor comes back as the same memory of its device" * test::cuda_case()) {
  const Tensor t = arange(6, {.dtype = kF32}).to(Device("cuda:0"));
  DLManagedTensorVersioned* out = to_dlpack(t);
  CHECK(out->dl_tensor.device.device_type == kDLCUDA);
  CHECK(out->dl_tensor.device.device_id == 0);
  const Tensor back = from_dlpack(out);
  CHECK(back.device() == t.device());
  CHECK(back.raw_data() == t.raw_data());
  CHECK(back.to_vector<float>() == t.to_vector<float>());
}

TEST_CASE("dlpack: a read-only GPU tensor is copied before its owner may reuse the memory" *
          test::cuda_case()) {
  const Tensor theirs = arange(6, {.dtype = kF32}).to(Device("cuda:0"));
  synchronize(current_stream(theirs.device()));
  Foreign<DLManagedTensorVersioned> foreign;
  foreign.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  foreign.managed.dl_tensor.device = {kDLCUDA, 0};
  foreign.managed.dl_tensor.data = theirs.raw_data();
  foreign.managed.manager_ctx = const_cast<Tensor*>(&theirs);
  foreign.managed.deleter = [](DLManagedTensorVersioned* self) {  // reuses it on another stream
    const Tensor& memory = *static_cast<const Tensor*>(self->manager_ctx);
    const OwnedStream stream(memory.device());
    const StreamScope on(stream);
    memory.fill_(9);
    synchronize(stream);
  };
  CHECK(from_dlpack(&foreign.managed).to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(theirs.to_vector<float>() == std::vector<float>(6, 9.f));
}

TEST_CASE("dlpack: what is not understood is refused and stays the caller's") {
  using Managed = DLManagedTensorVersioned;
  const auto error_of = [](auto&& change) {
    Foreign<Managed> foreign;
    change(foreign.managed);
    const std::string text = message_of<Error>([&] { from_dlpack(&foreign.managed); });
    CHECK(foreign.deleted == 0);
    return text;
  };
  const auto has = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  static int64_t negative[] = {3, -1}, zero[] = {2, 0}, bad[] = {-2, 3};
  static int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  has(error_of([](Managed& m) { m.version.major = 2; }), "version 2.3 of DLPack");
  has(error_of([](Managed& m) { m.dl_tensor.dtype = {kDLComplex, 64, 1}; }), "code 5, 64 bits");
  has(error_of([](Managed& m) { m.dl_tensor.dtype.lanes = 4; }), "4 lanes");
  has(error_of([](Managed& m) { m.dl_tensor.dtype = {kDLUInt, 16, 1}; }), "code 1, 16 bits");
  has(error_of([](Managed& m) { m.dl_tensor.device.device_type = DLDeviceType(8); }),
      "device type 8 is neither");
  has(error_of([](Managed& m) { m.dl_tensor.device = {kDLCUDA, -1}; }), "there is no cuda:-1");
  has(error_of([](Managed& m) { m.dl_tensor.ndim = 9; }), "9 dimensions");
  has(error_of([](Managed& m) { m.dl_tensor.strides = negative; }), "negative strides");
  has(error_of([](Managed& m) { m.dl_tensor.shape = bad; }), "[-2,3]");
  has(error_of([](Managed& m) { m.dl_tensor.shape = huge; }), "[1099511627776,1099511627776]");
  has(error_of([](Managed& m) { m.dl_tensor.byte_offset = 2; }), "not aligned");
  has(error_of([](Managed& m) { m.dl_tensor.data = nullptr; }), "no memory for f32[2,3]");
  Foreign<Managed> empty;
  empty.managed.dl_tensor.data = nullptr;
  empty.managed.dl_tensor.shape = zero;
  CHECK(from_dlpack(&empty.managed).shape() == Shape{2, 0});
  CHECK(empty.deleted == 1);
}

}  // namespace
}  // namespace lathe
