// Bridge to OpenCV: images and batches as tensors, and back.
//   Tensor x = bridge::to_batch({cv::imread("cat.jpg")});     // RGB f32 [1,3,H,W] in [0,1]
//   cv::Mat image = bridge::to_mat(x[0]);                     // BGR u8
// as_…() shares memory: each side sees what the other writes. to_…() copies.
// Header-only: a program that includes it links OpenCV's core module.
#pragma once

#include <opencv2/core.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/bridge/shared_memory.h"

namespace lathe::bridge {

namespace detail {

struct CvDepth {
  int depth;
  DType dtype;
};
inline constexpr CvDepth kCvDepths[] = {{CV_8U, kU8},   {CV_8S, kI8},   {CV_16S, kI16},
                                        {CV_32S, kI32}, {CV_32F, kF32}, {CV_64F, kF64},
                                        {CV_16F, kF16}};

/// throws: DTypeError.
inline DType dtype_of_depth(const cv::Mat& image, const char* name) {
  for (const CvDepth& known : kCvDepths) {
    if (known.depth == image.depth()) return known.dtype;
  }
  LATHE_FAIL(DTypeError, name, ": no dtype holds the values of a ", cv::typeToString(image.type()),
             "; cv::Mat::convertTo() makes them CV_32F");
}

/// throws: DTypeError.
inline int depth_of_dtype(DType dtype, const char* name) {
  for (const CvDepth& known : kCvDepths) {
    if (known.dtype == dtype) return known.depth;
  }
  LATHE_FAIL(DTypeError, name, ": OpenCV has no images of ", dtype);
}

}  // namespace detail

/// A tensor over an image's memory: [H,W,C] with OpenCV's order of channels, also for C = 1. A
/// region of an image keeps the strides of the whole. A Mat of more dimensions gives [sizes…, C].
/// The tensor keeps the Mat alive. If the Mat does not own its memory, the program must keep the
/// memory alive.
/// dtypes: CV_8U, CV_8S, CV_16S, CV_32S, CV_16F, CV_32F, CV_64F.
/// throws: ValueError for an empty Mat; DTypeError for CV_16U.
inline Tensor as_tensor(const cv::Mat& image) {
  LATHE_CHECK(ValueError, !image.empty(), "as_tensor: the image is empty (",
              cv::typeToString(image.type()), " of ", image.rows, " x ", image.cols,
              "); was its file read?");
  const DType dtype = detail::dtype_of_depth(image, "as_tensor");
  Shape shape;
  Strides strides;
  for (int d = 0; d < image.dims; ++d) {
    shape.push_back(image.size[d]);
    strides.push_back(static_cast<int64_t>(image.step[d] / image.elemSize1()));
  }
  shape.push_back(image.channels());
  strides.push_back(1);
  return detail::tensor_over(
      image.data, shape, strides, dtype, [image] {}, "as_tensor");
}

/// An image over the memory of a tensor [H,W,C] or [H,W], which must outlive the image. There may
/// be gaps between the tensor's rows, but not within a row. After writing through the image, call
/// t.bump_version().
/// dtypes: u8, i8, i16, i32, f16, f32, f64.
/// throws: ShapeError unless t has 2 or 3 dimensions and 1 to 512 channels (OpenCV's limit);
/// ValueError naming the strides if a row has gaps; DTypeError for another dtype; DeviceError
/// unless the tensor is on the CPU; StateError if it requires grad.
inline cv::Mat as_mat(const Tensor& t) {
  detail::check_shareable(t, "as_mat");
  const int depth = detail::depth_of_dtype(t.dtype(), "as_mat");
  LATHE_CHECK(ShapeError, t.ndim() == 2 || t.ndim() == 3,
              "as_mat: an image is [H,W] or [H,W,C] (t: ", t, ")");
  const int64_t channels = t.ndim() == 3 ? t.shape()[2] : 1;
  LATHE_CHECK(ShapeError, channels >= 1 && channels <= CV_CN_MAX,
              "as_mat: OpenCV's images have 1 to ", CV_CN_MAX, " channels (t: ", t, ")");
  const int64_t rows = t.dim(0), columns = t.dim(1), row = columns * channels;
  LATHE_CHECK(ShapeError, std::in_range<int>(rows) && std::in_range<int>(columns),
              "as_mat: OpenCV has no images of this size (t: ", t, ")");
  const int64_t step = rows > 1 ? t.strides()[0] : row;
  LATHE_CHECK(ValueError,
              step >= row && (columns <= 1 || t.strides()[1] == channels) &&
                  (channels == 1 || t.strides()[2] == 1),
              "as_mat: the pixels are not dense (t: ", t, ", strides ", t.strides(),
              "); to_mat() copies [C,H,W], contiguous() [H,W,C]");
  return cv::Mat(static_cast<int>(rows), static_cast<int>(columns),
                 CV_MAKETYPE(depth, static_cast<int>(channels)), t.raw_data(),
                 static_cast<size_t>(step) * size_of(t.dtype()));
}

struct ImageOptions {
  bool swap_red_blue = true;        // BGR ↔ RGB, BGRA ↔ RGBA
  std::optional<DType> dtype = {};  // u8, f32 or f64; unset: f32 for tensors, u8 for images
};

namespace detail {

/// throws: ShapeError, DTypeError.
inline void check_colours(int64_t channels, DType from, DType to, const Tensor& shown,
                          const char* name) {
  LATHE_CHECK(ShapeError, channels == 1 || channels == 3 || channels == 4, name,
              ": an image has 1, 3 or 4 channels, not ", channels, " (", shown, ")");
  for (const DType dtype : {from, to}) {
    LATHE_CHECK(DTypeError, dtype == kU8 || dtype == kF32 || dtype == kF64, name,
                ": colours are u8, f32 or f64, not ", dtype, " (", shown, ")");
  }
}

/// The image with colours of another depth: 0 to 255 of CV_8U are 0 to 1 of the others.
inline cv::Mat converted(const cv::Mat& image, int depth) {
  if (image.depth() == depth) return image;
  cv::Mat out;
  image.convertTo(out, depth, depth == CV_8U ? 255 : image.depth() == CV_8U ? 1 / 255.0 : 1);
  return out;
}

/// Copies an image or its planes into an image or planes of the same depth.
inline void copy_channels(const std::vector<cv::Mat>& from, std::vector<cv::Mat> to,
                          int64_t channels, bool swap_red_blue) {
  std::vector<int> pairs;
  for (int c = 0; c < channels; ++c) {
    pairs.push_back(c);
    pairs.push_back(swap_red_blue && channels >= 3 && c < 3 ? 2 - c : c);
  }
  cv::mixChannels(from, to, pairs);
}

/// The planes of [C,H,W] as images.
inline std::vector<cv::Mat> planes_of(const Tensor& t) {
  std::vector<cv::Mat> planes;
  for (const Tensor& plane : t.unbind()) planes.push_back(as_mat(plane));
  return planes;
}

}  // namespace detail

/// A batch [N,C,H,W] of images of one size, with C of 1, 3 or 4. Colours are 0 to 255 in u8 and 0
/// to 1 in floating dtypes, so CV_8U values are divided by 255, and floating values are unchanged.
/// With options.dtype kU8, CV_8U values are unchanged, and floating values are multiplied by 255,
/// rounded and limited to 0 to 255.
/// throws: ValueError for no images or an empty one; ShapeError that names an image whose channels,
/// number of dimensions or size differ from the first image's; DTypeError for images that are not
/// CV_8U, CV_32F or CV_64F.
inline Tensor to_batch(const std::vector<cv::Mat>& images, const ImageOptions& options = {}) {
  LATHE_CHECK(ValueError, !images.empty(), "to_batch: no images");
  const DType dtype = options.dtype.value_or(kF32);
  Tensor batch;
  for (size_t n = 0; n < images.size(); ++n) {
    const Tensor image = as_tensor(images[n]);
    LATHE_CHECK(ShapeError, image.ndim() == 3, "to_batch: image ", n, " has ", images[n].dims,
                " dimensions, not 2 (", image, ")");
    const int64_t channels = image.dim(2);
    const Shape shape{channels, image.dim(0), image.dim(1)};
    detail::check_colours(channels, image.dtype(), dtype, image, "to_batch");
    if (n == 0) {
      batch = empty({static_cast<int64_t>(images.size()), shape[0], shape[1], shape[2]},
                    {.dtype = dtype});
    }
    const Tensor to = batch.select(0, static_cast<int64_t>(n));
    LATHE_CHECK(ShapeError, to.shape() == shape, "to_batch: image ", n, " is ", shape,
                " in [C,H,W], the first ", to.shape(), "; cv::resize() makes them equal");
    detail::copy_channels({detail::converted(images[n], detail::depth_of_dtype(dtype, "to_batch"))},
                          detail::planes_of(to), channels, options.swap_red_blue);
  }
  return batch;
}

/// An image with the values of a tensor [C,H,W] of any device and strides, with C of 1, 3 or 4.
/// By default the image is CV_8U; floating values are multiplied by 255, rounded and limited to 0
/// to 255.
/// dtypes: u8, f16, bf16, f32, f64.
/// throws: ShapeError unless t is [C,H,W] with C of 1, 3 or 4 and H, W > 0; DTypeError for another
/// dtype.
inline cv::Mat to_mat(const Tensor& t, const ImageOptions& options = {}) {
  LATHE_CHECK(ShapeError, t.ndim() == 3 && t.numel() > 0, "to_mat: an image is [C,H,W] (t: ", t,
              ")");
  const Tensor from = (is_half(t.dtype()) ? t.detach().to(kF32) : t.detach()).to(kCPU).contiguous();
  const int64_t channels = t.dim(0);
  const DType dtype = options.dtype.value_or(kU8);
  detail::check_colours(channels, from.dtype(), dtype, t, "to_mat");
  const std::vector<cv::Mat> planes = detail::planes_of(from);
  const cv::Mat image(planes[0].size(), CV_MAKETYPE(planes[0].depth(), static_cast<int>(channels)));
  detail::copy_channels(planes, {image}, channels, options.swap_red_blue);
  return detail::converted(image, detail::depth_of_dtype(dtype, "to_mat"));
}

/// Converts each image of a batch [N,C,H,W] as to_mat() does.
/// throws: as to_mat().
inline std::vector<cv::Mat> to_mats(const Tensor& batch, const ImageOptions& options = {}) {
  LATHE_CHECK(ShapeError, batch.ndim() == 4, "to_mats: a batch is [N,C,H,W] (batch: ", batch, ")");
  std::vector<cv::Mat> images;
  for (const Tensor& t : batch.detach().to(kCPU).unbind()) images.push_back(to_mat(t, options));
  return images;
}

}  // namespace lathe::bridge
