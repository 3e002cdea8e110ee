// Raw copies; see copy.h. Copies between devices join here with the CUDA backend.
#include "lathe/core/copy.h"

#include <cstring>
#include <type_traits>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/half.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"

namespace lathe {

namespace {

template <class To, class From>
To convert(From value) {
  using Wide = ComputeType<From>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<Wide>(value) != Wide(0);
  } else if constexpr (std::is_floating_point_v<Wide> && std::is_integral_v<To>) {
    // Through i64, so that a value outside To wraps as integers do instead of being undefined.
    const double wide = static_cast<double>(static_cast<Wide>(value));
    const bool fits = wide >= -9223372036854775808.0 && wide < 9223372036854775808.0;
    return static_cast<To>(fits ? static_cast<int64_t>(wide) : INT64_MIN);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(static_cast<Wide>(value)));
  } else {
    return static_cast<To>(static_cast<Wide>(value));
  }
}

template <class To, class From>
void convert_row(const StridedRow& row) {
  if (row.dense<To>(0) && row.dense<From>(1)) {
    To* out = row.at<To>(0);
    const From* in = row.at<From>(1);
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(out, in, sizeof(To) * static_cast<size_t>(row.size));
    } else {
      for (int64_t i = 0; i < row.size; ++i) out[i] = convert<To>(in[i]);
    }
    return;
  }
  char* out = row.data[0];
  const char* in = row.data[1];
  for (int64_t i = 0; i < row.size; ++i, out += row.step[0], in += row.step[1]) {
    *reinterpret_cast<To*>(out) = convert<To>(*reinterpret_cast<const From*>(in));
  }
}

}  // namespace

void copy_values(const Tensor& dst, const Tensor& src) {
  if (!(src.shape() == dst.shape())) {
    LATHE_CHECK(ShapeError, broadcast_shapes("copy", src.shape(), dst.shape()) == dst.shape(),
                "copy: ", src.shape(), " does not broadcast to ", dst.shape(), " (dst: ", dst,
                ", src: ", src, ")");
  }
  if (dst.device() != src.device()) return cuda::transfer(dst, src, false);
  LATHE_CHECK(NoCudaError, dst.device().is_cpu(),
              "copy: this build has no CUDA backend (dst: ", dst, ", src: ", src, ")");
  visit_all(dst.dtype(), [&](auto to) {
    using To = typename decltype(to)::type;
    visit_all(src.dtype(), [&](auto from) {
      using From = typename decltype(from)::type;
      strided_loop(dst, src, [](const StridedRow& row) { convert_row<To, From>(row); });
    });
  });
}

void fill_values(const Tensor& dst, Scalar value) {
  LATHE_CHECK(NoCudaError, dst.device().is_cpu(),
              "fill: this build has no CUDA backend (dst: ", dst, ")");
  visit_all(dst.dtype(), [&](auto to) {
    using T = typename decltype(to)::type;
    const T number = value.is_floating() ? convert<T>(value.to<double>()) : value.to<T>();
    strided_loop(dst, [number](const StridedRow& row) {
      if (row.dense<T>(0)) {
        std::fill_n(row.at<T>(0), row.size, number);
        return;
      }
      char* out = row.data[0];
      for (int64_t i = 0; i < row.size; ++i, out += row.step[0]) {
        *reinterpret_cast<T*>(out) = number;
      }
    });
  });
}

}  // namespace lathe
