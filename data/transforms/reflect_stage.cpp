// The stage reflect_pad. Contract: transforms.h.
#include <algorithm>

#include "lathe/data/transforms/stage_parts.h"
#include "lathe/ops/pad.h"

namespace lathe::data {
namespace {

/// The index in 0 … size - 1 that `at` shows, which lies at most size - 1 outside.
int64_t reflected(int64_t at, int64_t size) {
  if (at < 0) return -at;
  return at < size ? at : 2 * (size - 1) - at;
}

class ReflectPad final : public ImageStage {
 public:
  explicit ReflectPad(int64_t pad) : pad_(pad) {}

  ImageSpec output(const ImageSpec& in) const override {
    check_bytes("reflect_pad", in);
    LATHE_CHECK(ShapeError, in.height > pad_ && in.width > pad_, "reflect_pad: an image of ",
                in.height, "x", in.width, " is too small for a border of ", pad_);
    return {in.channels, in.height + 2 * pad_, in.width + 2 * pad_, kU8};
  }

  void run(const ImageView& in, Random, bool /*flipped*/, uint8_t* out) const override {
    for (int64_t c = 0; c < in.channels; ++c) {
      for (int64_t r = -pad_; r < in.height + pad_; ++r, out += in.width + 2 * pad_) {
        const uint8_t* const row = in.row(c, reflected(r, in.height));
        std::copy_n(row, in.width, out + pad_);
        for (int64_t k = 1; k <= pad_; ++k) {
          out[pad_ - k] = row[k];
          out[pad_ + in.width - 1 + k] = row[in.width - 1 - k];
        }
      }
    }
  }

  Tensor run_batch(const Tensor& images, const std::vector<Random>&) const override {
    return pad(images, {pad_, pad_, pad_, pad_}, PadMode::kReflect).contiguous();
  }

 private:
  int64_t pad_;
};

}  // namespace

Transform reflect_pad(int64_t pad) {
  LATHE_CHECK(ValueError, pad >= 0, "reflect_pad: pad must not be negative, got ", pad);
  return image_stage<ReflectPad>(pad);
}

}  // namespace lathe::data
