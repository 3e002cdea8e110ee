// augment() on the CPU, for any memory format and dtype of the result. The loader's workers use
// render() in pixel_plan.cpp, which is faster: one image at a time into row-major f32.
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/data/transforms/augment.h"
#include "lathe/data/transforms/augment_rows.h"
#include "lathe/data/transforms/pixel_math.h"
#include "lathe/data/transforms/pixel_plan.h"

namespace lathe::data::cpu {

namespace {

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, uint8_t>)
    return static_cast<uint8_t>(value);
  else
    return T(static_cast<float>(value));
}

template <class T>
void run_sample(T* out, const Strides& to, const uint8_t* image, const Strides& from,
                const PixelPlan& plan, const SampleWindow& window) {
  const auto height = static_cast<int32_t>(plan.height), width = static_cast<int32_t>(plan.width);
  for (int64_t c = 0; c < plan.channels; ++c) {
    const auto scale = static_cast<float>(plan.scale[c]), bias = static_cast<float>(plan.bias[c]);
    for (int32_t r = 0; r < height; ++r) {
      for (int32_t k = 0; k < width; ++k) {
        const SampleWindow::Source at = window.source(r, k, height, width);
        const uint8_t byte =
            at.valid ? image[c * from[1] + at.row * from[2] + at.col * from[3]] : uint8_t{0};
        T& value = out[c * to[1] + r * to[2] + k * to[3]];
        if (const int e = window.erased_at(r, k); e >= 0) {
          value = from_double<T>(plan.erased[e].value[c]);
          continue;
        }
        if constexpr (std::is_same_v<T, uint8_t>) {
          value = byte;
        } else {
          value = T(pixel_value(byte, scale, bias));
        }
      }
    }
  }
}

template <class F>
void visit_result(const Tensor& out, const char* op, F&& f) {
  if (out.dtype() == kU8) return f(TypeTag<uint8_t>{});
  visit_float(out.dtype(), op, f);
}

}  // namespace

void augment(const Tensor& out, const Tensor& images, std::span<const PixelPlan> plans) {
  const auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(static_cast<int64_t>(plans.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        run_sample(out.data<T>() + n * out.stride(0), out.strides(),
                   images.data<uint8_t>() + n * images.stride(0), images.strides(),
                   plans[static_cast<size_t>(n)], window_of(plans[static_cast<size_t>(n)]));
      }
    });
  };
  visit_result(out, "augment", run);
}

void augment_rows(const Tensor& out, const RowsOfImages& from) {
  const auto* const rows = from.rows.data<int64_t>();
  const auto* const windows = reinterpret_cast<const SampleWindow*>(from.windows.raw_data());
  const int64_t images = from.images.dim(0);
  for (int64_t n = 0; n < out.dim(0); ++n) {
    LATHE_CHECK(IndexError, rows[n] >= 0 && rows[n] < images, "augment_rows: row ", rows[n],
                " at position ", n, " is not below ", images, " (images: ", from.images, ")");
  }
  const auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(out.dim(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        run_sample(out.data<T>() + n * out.stride(0), out.strides(),
                   from.images.data<uint8_t>() + rows[n] * from.images.stride(0),
                   from.images.strides(), from.same, windows[n]);
      }
    });
  };
  visit_result(out, "augment_rows", run);
}

}  // namespace lathe::data::cpu
