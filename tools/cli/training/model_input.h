// ModelInput: how an image becomes the input of a trained model, and what its classes are called.
// Checkpoints carry it, so that the file is all that the prediction of image files needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/formats/safetensors.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::cli {

/// The longest side of an image that a model file may ask for. The square of this side is the most
/// pixels that an image file may have.
inline constexpr int64_t kMostSide = 10'000;

/// How evaluation prepares an image of any size, in this order:
///   - resizes it
///   - takes the middle side x side pixels (with a black border if the image is smaller)
///   - makes it grey if the model has one input channel
///   - normalises it
struct ModelInput {
  std::vector<std::string> class_names;
  int64_t channels = 3;           // 3 or 1
  int64_t side = 32;              // the input is [N,channels,side,side]
  int64_t resize = 32;            // to this many pixels before the middle is taken:
  bool keeps_ratio = false;       // true: the shorter side; false: both sides
  std::vector<double> mean, std;  // per channel, of x / 255
};

/// Writes `input` as text, under keys that other programs can read:
///   lathe.class_names     ["cat","dog"], a JSON list; bytes that are no UTF-8 become U+FFFD
///   lathe.image_channels  3
///   lathe.image_resize    256 for the shorter side, or 28x28; bilinear with antialiasing
///   lathe.image_size      224, the middle of what was resized
///   lathe.image_mean, lathe.image_std   0.485,0.456,0.406
safetensors::Metadata metadata_of(const ModelInput& input);

/// The entries of `metadata` that describe a ModelInput; empty if there are none.
safetensors::Metadata input_entries(const safetensors::Metadata& metadata);

/// throws: CommandError (kData) naming the file and what is missing or wrong.
ModelInput model_input_in(const safetensors::Metadata& metadata, std::string_view file);

/// The preparation for torchvision's models, for a file that does not name one. It resizes the
/// shorter side to side * 256 / 224 pixels, takes the middle side x side, and normalises with
/// ImageNet's mean and deviation. The names of the classes are numbers.
ModelInput usual_input(int64_t classes, int64_t side);

/// The transform for data::ImageFiles. It makes three planes, which are equal for a model with one
/// channel.
data::Transform transform_of(const ModelInput& input);

}  // namespace lathe::cli
