// The image classifiers of this library by name: "resnet50", "vgg16_bn", "vit_b_16", ….
//   auto model = nn::make_model("resnet50", {.classes = 10});
// Names are torchvision's; resnet8 … resnet56 are those of resnet.h, vit_s_16 that of vit.h. This
// header brings all models; lathe.h has resnet.h alone, because the others would cost every program
// a fiftieth of its time to compile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lathe/nn/convnext.h"
#include "lathe/nn/efficientnet.h"
#include "lathe/nn/mobilenet.h"
#include "lathe/nn/resnet.h"
#include "lathe/nn/vgg.h"
#include "lathe/nn/vit.h"

namespace lathe::nn {

struct ModelOptions {
  int64_t classes = 1000;
  int64_t in_channels = 3;
  int64_t image_size = 224;     // read by Vision Transformers, which are made for one size
  Stem stem = Stem::kImagenet;  // read by resnet18 … resnet152 and the wide ones
};

struct ModelKind {
  std::string_view name;
  int64_t image_size;      // rows and columns of the images that it was designed for
  int64_t smallest_image;  // smaller ones are refused
  int64_t patch;           // images must be a multiple of this; 1 for most
  bool has_stem;           // reads ModelOptions::stem
  std::unique_ptr<Module> (*make)(const ModelOptions& options);
};

/// All of them.
LATHE_API std::span<const ModelKind> model_kinds();
/// → null if there is none of this name
LATHE_API const ModelKind* find_model_kind(std::string_view name);

/// throws: ValueError listing the names, for another one; as the model's constructor.
LATHE_API std::unique_ptr<Module> make_model(std::string_view name,
                                             const ModelOptions& options = {});

}  // namespace lathe::nn
