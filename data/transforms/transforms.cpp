// Transform: runs stages in order, and joins neighbouring pixel stages in one plan. The stages are
// in the *_stages.cpp and in reflect_stage.cpp.
#include "lathe/data/transforms/transforms.h"

#include <algorithm>
#include <array>

#include "lathe/core/error.h"
#include "lathe/data/transforms/image_stage.h"
#include "lathe/data/transforms/pixel_plan.h"

namespace lathe::data {
namespace {

/// Two images between stages, used in turn: one is read while the other is written.
class Scratch {
 public:
  uint8_t* next(const ImageSpec& spec) {
    turn_ ^= 1;
    std::vector<uint8_t>& image = images_[turn_];
    if (image.size() < static_cast<size_t>(spec.pixels()))
      image.resize(static_cast<size_t>(spec.pixels()));
    return image.data();
  }

 private:
  std::array<std::vector<uint8_t>, 2> images_;
  size_t turn_ = 0;
};

ImageSpec spec_of(const PixelPlan& plan) {
  return {plan.channels, plan.height, plan.width, plan.is_float ? kF32 : kU8};
}

/// The image that the plan shows, without a copy if it is a part of the source.
ImageView view_of(const PixelPlan& plan, Scratch& scratch) {
  if (is_window(plan)) {
    const ImageSpec source{plan.channels, plan.source_height, plan.source_width};
    return ImageView::of(plan.source, source).window(plan.top, plan.left, plan.height, plan.width);
  }
  uint8_t* image = scratch.next(spec_of(plan));
  render(plan, image);
  return ImageView::of(image, spec_of(plan));
}

}  // namespace

Transform::Transform(std::shared_ptr<const PixelStage> stage)
    : stages_{{std::move(stage), nullptr}} {
  LATHE_CHECK(ValueError, stages_.front().pixel != nullptr, "Transform: the stage is null");
}
Transform::Transform(std::shared_ptr<const ImageStage> stage)
    : stages_{{nullptr, std::move(stage)}} {
  LATHE_CHECK(ValueError, stages_.front().image != nullptr, "Transform: the stage is null");
}

ImageSpec Transform::output(const ImageSpec& in) const {
  ImageSpec spec = in;
  for (const Stage& stage : stages_)
    spec = stage.pixel ? stage.pixel->output(spec) : stage.image->output(spec);
  return spec;
}

void Transform::apply(const uint8_t* image, const ImageSpec& in, Key key, void* out) const {
  thread_local Scratch scratch;
  size_t k = 0;
  const auto random_of = [&](size_t stage) {
    return key.random(kTransformStream + static_cast<int>(stage));
  };
  const auto plan_up_to_next_image_stage = [&](PixelPlan& plan) {
    for (; k < stages_.size() && stages_[k].pixel; ++k) stages_[k].pixel->plan(plan, random_of(k));
  };

  PixelPlan plan = identity_plan(image, in);
  plan_up_to_next_image_stage(plan);
  while (k < stages_.size()) {
    const ImageStage& stage = *stages_[k].image;
    const Random random = random_of(k++);
    const ImageView view = view_of(plan, scratch);
    const ImageSpec made = stage.output(view.spec());
    plan = identity_plan(nullptr, made);
    plan_up_to_next_image_stage(plan);
    const bool flipped = plan.flipped && stage.takes_flip() && shows_all(plan);
    if (flipped) plan.flipped = false;
    const bool is_last = k == stages_.size() && is_window(plan) && shows_all(plan);
    uint8_t* result = is_last ? static_cast<uint8_t*>(out) : scratch.next(made);
    stage.run(view, random, flipped, result);
    if (is_last) return;
    plan.source = result;
  }
  render(plan, out);
}

double Transform::detail(const ImageSpec& in, Key key) const {
  if (stages_.empty() || !stages_[0].image) return 1;
  return stages_[0].image->detail(in, key.random(kTransformStream));
}

Transform Transform::then(const Transform& next) const {
  constexpr size_t kMaxStages = kOrderStream - kTransformStream;
  LATHE_CHECK(ValueError, stages_.size() + next.stages_.size() <= kMaxStages,
              "compose: ", stages_.size() + next.stages_.size(), " stages are more than ",
              kMaxStages);
  Transform both = *this;
  both.stages_.insert(both.stages_.end(), next.stages_.begin(), next.stages_.end());
  return both;
}

}  // namespace lathe::data
