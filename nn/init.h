// Initial values of parameters. Functions with a trailing underscore fill a tensor in place, are
// not recorded by autograd and return their argument; the others return a new tensor.
//   fan_in = shape[1] · kernel size,   fan_out = shape[0] · kernel size
// This holds for grouped convolutions, too: their shape[1] is the number of channels per group.
#pragma once

#include <cstdint>

#include "lathe/core/random/generator.h"
#include "lathe/core/tensor.h"

namespace lathe::nn::init {

struct Fans {
  int64_t in, out;
};
/// throws: ShapeError for fewer than 2 dimensions.
LATHE_API Fans fans_of(const Shape& shape);

enum class FanMode { kFanIn, kFanOut };
inline constexpr FanMode kFanIn = FanMode::kFanIn, kFanOut = FanMode::kFanOut;

struct KaimingOptions {
  double slope = 0;                // of the leaky relu that follows; 0: relu
  FanMode mode = FanMode::kFanIn;  // keeps the variance of the forward signal; kFanOut: backward
  Generator* generator = nullptr;  // null: the default one
};
/// kaiming_uniform_ draws from U(±g·sqrt(3 / fan)), kaiming_normal_ from N(0, g / sqrt(fan)), where
/// g = sqrt(2 / (1 + slope²)), and fan is w's fan_in or, with FanMode::kFanOut, its fan_out.
/// throws: ShapeError for fewer than 2 dimensions.   ref: He et al. 2015 (arXiv:1502.01852).
LATHE_API const Tensor& kaiming_uniform_(const Tensor& w, const KaimingOptions& options = {});
LATHE_API const Tensor& kaiming_normal_(const Tensor& w, const KaimingOptions& options = {});

struct XavierOptions {
  double gain = 1;
  Generator* generator = nullptr;
};
/// xavier_uniform_ draws from U(±gain·sqrt(6 / (fan_in + fan_out))), xavier_normal_ from N(0,
/// gain·sqrt(2 / (fan_in + fan_out))).
/// throws: ShapeError for fewer than 2 dimensions.   ref: Glorot and Bengio 2010.
LATHE_API const Tensor& xavier_uniform_(const Tensor& w, const XavierOptions& options = {});
LATHE_API const Tensor& xavier_normal_(const Tensor& w, const XavierOptions& options = {});

struct TruncNormalOptions {
  double mean = 0, std = 1;
  double low = -2, high = 2;  // values, not multiples of std
  Generator* generator = nullptr;
};
/// Draws from N(mean, std), restricted to [low, high]. Computed on the CPU.
/// throws: ValueError unless std > 0 and low < high, or if the interval has a probability of 0 in
/// f64; DTypeError unless w is floating.
LATHE_API const Tensor& trunc_normal_(const Tensor& w, const TruncNormalOptions& options = {});

struct OrthogonalOptions {
  double gain = 1;
  Generator* generator = nullptr;
};
/// Fills w, seen as a matrix [shape[0], the rest], with gain times a random matrix whose rows or
/// columns, whichever are fewer, are orthonormal. All such matrices are equally likely. Computed on
/// the CPU in f64.
/// throws: ShapeError for fewer than 2 dimensions; DTypeError unless w is floating.
/// ref: Saxe et al. 2014 (arXiv:1312.6120); Mezzadri 2007 (arXiv:math-ph/0609050) for the signs.
LATHE_API const Tensor& orthogonal_(const Tensor& w, const OrthogonalOptions& options = {});

/// Makes a convolution of filters w [K,C,…] pass its first min(K, C) channels on unchanged, if it
/// is padded so that images keep their size: the middle of w[k,k] is 1, all else 0. If w is a
/// narrow() of a weight, the other filters of that weight stay as they are.
/// throws: ShapeError for fewer than 3 dimensions.
/// ref: Zagoruyko and Komodakis 2017 (arXiv:1706.00388).
LATHE_API const Tensor& dirac_(const Tensor& w);

struct WhiteningOptions {
  double eps = 5e-4;  // added to the eigenvalues
};
/// Fills w [2D,C,R,S], D = C·R·S, with filters whose results for these images are uncorrelated and
/// of equal mean square. Let M be the mean of p·pᵀ over all patches p of the images, C x R x S
/// numbers each. It has eigenvectors e_1, e_2, … of falling eigenvalues v_1, v_2, …. Filter i is
/// e_i / sqrt(v_i + eps), and filter D + i is its negative; eps keeps filters of small eigenvalues
/// from growing without bound. Such filters are usually not trained. Computed on the CPU in f64.
///   images  [N,C,H,W], floating, normalised as in training; some thousand are enough
/// throws: ShapeError, DTypeError, ValueError without a patch or for eps < 0.
/// ref: Page 2019 ("How to train your ResNet 8", myrtle.ai); Jordan 2024 (arXiv:2404.00498).
LATHE_API const Tensor& whitening_(const Tensor& w, const Tensor& images,
                                   const WhiteningOptions& options = {});

LATHE_API const Tensor& uniform_(const Tensor& w, double low, double high,
                                 Generator* generator = nullptr);
LATHE_API const Tensor& normal_(const Tensor& w, double mean, double std,
                                Generator* generator = nullptr);
LATHE_API const Tensor& constant_(const Tensor& w, Scalar value);
LATHE_API const Tensor& zeros_(const Tensor& w);
LATHE_API const Tensor& ones_(const Tensor& w);

/// A new weight or bias, drawn from U(±1 / sqrt(fan_in)), or 0 if fan_in is 0. This is the default
/// of the layers. For a weight it equals kaiming_uniform_ with slope sqrt(5).
LATHE_API Tensor uniform_fan_in(const Shape& shape, int64_t fan_in);

/// While a Skip is alive, the random functions of this header draw no numbers in this thread and
/// leave values as they are. So the weights of layers that are made meanwhile are uninitialised
/// memory. constant_, zeros_ and ones_ still fill, so layers that begin with constants (batch
/// norms) are initialised. Scopes may nest; the last one to begin must end first. Use it for a
/// model whose values are loaded next:
///   auto make = [] { const nn::init::Skip skip; return nn::vgg16(); };
///   auto net = make();
///   nn::load(net, "vgg16.pth");
class LATHE_API Skip {
 public:
  [[nodiscard]] Skip();
  ~Skip();
  Skip(const Skip&) = delete;
  Skip& operator=(const Skip&) = delete;
  /// True while a Skip is alive in this thread.
  static bool on();

 private:
  bool outer_;
};

/// Uninitialised memory for a weight that the caller fills next. left_open() advances the generator
/// just as uniform_fan_in() does. So, with the same seed, the layers made after it get the same
/// initial values as with uniform_fan_in().
LATHE_API Tensor left_open(const Shape& shape);

}  // namespace lathe::nn::init
