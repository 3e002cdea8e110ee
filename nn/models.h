// Makes the image classifiers of this library by name: "resnet50", "vgg16_bn", "vit_b_16", ….
//   auto model = nn::make_model("resnet50", {.classes = 10});
// Names are torchvision's, except for resnet8 … resnet56 (resnet.h), cifarnet and cifarnet_wide
// (cifarnet.h) and vit_s_16 (vit.h). This header includes all models. lathe.h includes only
// resnet.h, to keep compile times short.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lathe/nn/cifarnet.h"
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
  int64_t image_size;      // rows and columns of the images that the model was designed for
  int64_t smallest_image;  // smaller images are refused
  int64_t patch;           // images must be a multiple of this; 1 for most
  bool has_stem;           // reads ModelOptions::stem
  std::unique_ptr<Module> (*make)(const ModelOptions& options);
};

/// All models.
LATHE_API std::span<const ModelKind> model_kinds();
/// → null if no model has this name
LATHE_API const ModelKind* find_model_kind(std::string_view name);

/// Makes a model with initial values.
/// throws: ValueError listing all names, for an unknown name; what the model's constructor throws.
LATHE_API std::unique_ptr<Module> make_model(std::string_view name,
                                             const ModelOptions& options = {});

}  // namespace lathe::nn
