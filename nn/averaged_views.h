// Test-time augmentation of a classifier of images.
#pragma once

#include <cstdint>
#include <memory>

#include "lathe/core/function_ref.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

enum class Views : uint8_t {
  kMirror,       // the image, and the image with left and right exchanged: half each
  kMirrorShift,  // half: as kMirror; a quarter each: as kMirror, but moved by one pixel up and to
                 // the left, or down and to the right
};

/// Averages a classifier's scores over several views of each image. A moved view has the image's
/// own pixels at its border, mirrored at the outermost ones (PadMode::kReflect).
///   scores  the classifier: [N,C,H,W] → [N,classes]
/// → [N,classes]
/// throws: ShapeError unless x has four dimensions; ValueError from pad(), for kMirrorShift of
/// images with a side of 1.
/// ref: Krizhevsky et al. 2012; these weights: Jordan 2024 (arXiv:2404.00498).
LATHE_API Tensor average_views(FunctionRef<Tensor(const Tensor& x)> scores, const Tensor& x,
                               Views views);

/// A classifier with average_views(). It is the module "0".
class LATHE_API AveragedViews final : public ModuleHolder {
 public:
  AveragedViews(std::unique_ptr<Module> model, Views views);
  Tensor forward(const Tensor& x) override;

 private:
  Views views_;
};

}  // namespace lathe::nn
