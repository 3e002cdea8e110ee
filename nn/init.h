// Initial values of parameters: in place (names with a trailing underscore; never recorded), or as
// a new tensor.
//   fan_in = shape[1] · kernel size,   fan_out = shape[0] · kernel size
// For a grouped convolution too, where shape[1] is the number of channels per group.
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
  FanMode mode = FanMode::kFanIn;  // which signal keeps its variance: forward (kFanIn), backward
  Generator* generator = nullptr;  // null: the default one
};
/// With g = sqrt(2 / (1 + slope²)): U(±g·sqrt(3 / fan)) and N(0, g / sqrt(fan)).
/// throws: ShapeError.   ref: He et al. 2015 (arXiv:1502.01852).
LATHE_API const Tensor& kaiming_uniform_(const Tensor& w, const KaimingOptions& options = {});
LATHE_API const Tensor& kaiming_normal_(const Tensor& w, const KaimingOptions& options = {});

struct XavierOptions {
  double gain = 1;
  Generator* generator = nullptr;
};
/// U(±gain·sqrt(6 / (fan_in + fan_out))) and N(0, gain·sqrt(2 / (fan_in + fan_out))).
/// throws: ShapeError.   ref: Glorot and Bengio 2010.
LATHE_API const Tensor& xavier_uniform_(const Tensor& w, const XavierOptions& options = {});
LATHE_API const Tensor& xavier_normal_(const Tensor& w, const XavierOptions& options = {});

struct TruncNormalOptions {
  double mean = 0, std = 1;
  double low = -2, high = 2;  // values, not multiples of std
  Generator* generator = nullptr;
};
/// N(mean, std) under the condition that low <= value <= high. Where both ends are at least 4 std
/// from the mean, values outside are drawn again; elsewhere by the inverse of the distribution
/// function. Computed on the CPU.
/// throws: ValueError unless std > 0 and low < high, or if the interval has a probability of 0 in
/// f64; DTypeError.
LATHE_API const Tensor& trunc_normal_(const Tensor& w, const TruncNormalOptions& options = {});

struct OrthogonalOptions {
  double gain = 1;
  Generator* generator = nullptr;
};
/// w as a matrix [shape[0], the rest] with orthonormal rows or columns, whichever are fewer, times
/// gain: Q of the QR decomposition of a normal matrix, with signs that make it uniformly
/// distributed. Computed on the CPU in f64.
/// throws: ShapeError for fewer than 2 dimensions; DTypeError.
/// ref: Saxe et al. 2014 (arXiv:1312.6120); Mezzadri 2007 (arXiv:math-ph/0609050) for the signs.
LATHE_API const Tensor& orthogonal_(const Tensor& w, const OrthogonalOptions& options = {});

LATHE_API const Tensor& uniform_(const Tensor& w, double low, double high,
                                 Generator* generator = nullptr);
LATHE_API const Tensor& normal_(const Tensor& w, double mean, double std,
                                Generator* generator = nullptr);
LATHE_API const Tensor& constant_(const Tensor& w, Scalar value);
LATHE_API const Tensor& zeros_(const Tensor& w);
LATHE_API const Tensor& ones_(const Tensor& w);

/// New values for a layer's weight or bias: U(±1 / sqrt(fan_in)); 0 where fan_in is 0. For a weight
/// this is kaiming_uniform_ with slope sqrt(5), the default of the layers.
LATHE_API Tensor uniform_fan_in(const Shape& shape, int64_t fan_in);

/// While one lives, the functions of this header that draw random numbers draw none, in this
/// thread, and leave the values as they are: weights of layers made meanwhile are uninitialised
/// memory. constant_, zeros_ and ones_ fill as ever, and so do layers that begin with constants
/// (batch norms). Scopes may nest; the last one to begin must end first. For a model whose values
/// are loaded next:
///   auto make = [] { const nn::init::Skip skip; return nn::vgg16(); };
///   auto net = make();
///   nn::load(net, "vgg16.pth");
class LATHE_API Skip {
 public:
  [[nodiscard]] Skip();
  ~Skip();
  Skip(const Skip&) = delete;
  Skip& operator=(const Skip&) = delete;
  /// Whether one lives.
  static bool on();

 private:
  bool outer_;
};

/// Uninitialised memory for a weight that its maker fills next. It takes as many random numbers as
/// uniform_fan_in, so that a seed gives the other layers the same values in both cases.
LATHE_API Tensor left_open(const Shape& shape);

}  // namespace lathe::nn::init
