// The bridge to OpenCV. Expected pixels come from OpenCV's own split(), merge(), convertTo() and at().
#include "lathe/bridge/opencv.h"

#include <doctest/doctest.h>

#include <cmath>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"
#include "lathe/tests/cuda_case.h"

using namespace lathe;

namespace {

cv::Mat random_image(int rows, int columns, int type) {
  cv::Mat image(rows, columns, type);
  cv::randu(image, 0, CV_MAT_DEPTH(type) <= CV_8S ? 256 : 1);
  return image;
}

bool are_equal(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && a.type() == b.type() && cv::norm(a, b, cv::NORM_INF) == 0;
}

/// The plane of [H,W] that channel c of an image is in f32.
std::vector<float> plane(const cv::Mat& image, int c) {
  cv::Mat converted, one;
  image.convertTo(converted, CV_32F);
  cv::extractChannel(converted, one, c);
  return {one.begin<float>(), one.end<float>()};
}

template <class E>
std::string error_of(const auto& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}
void has(const std::string& text, const char* part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

}  // namespace

TEST_CASE("as_tensor: an image's memory as [H,W,C], of every depth that has a dtype") {
  for (const int depth : {CV_8U, CV_8S, CV_16S, CV_32S, CV_32F, CV_64F, CV_16F}) {
    cv::Mat numbers(4, 5, CV_32FC3), image;
    cv::randu(numbers, 0, 100);
    numbers.convertTo(image, depth);
    const Tensor t = bridge::as_tensor(image);
    REQUIRE(t.shape() == Shape{4, 5, 3});
    CHECK(t.raw_data() == image.data);
    for (int c = 0; c < 3; ++c) CHECK(t.select(2, c).to_vector<float>() == plane(image, c));
  }
  cv::Mat grey = random_image(3, 2, CV_8U), five(3, 2, CV_32FC(5));
  CHECK(bridge::as_tensor(grey).shape() == Shape{3, 2, 1});
  CHECK(bridge::as_tensor(five).shape() == Shape{3, 2, 5});
  const int sizes[] = {2, 3, 4};
  CHECK(bridge::as_tensor(cv::Mat(3, sizes, CV_32FC2)).shape() == Shape{2, 3, 4, 2});
}

TEST_CASE("as_tensor: a region keeps the steps of the whole, and both sides see writes") {
  cv::Mat whole = random_image(8, 10, CV_8UC3);
  cv::Mat region = whole(cv::Rect(2, 3, 4, 5));
  const Tensor t = bridge::as_tensor(region);
  CHECK(t.shape() == Shape{5, 4, 3});
  CHECK(t.strides() == Strides{30, 3, 1});
  for (int c = 0; c < 3; ++c) CHECK(t.select(2, c).to_vector<float>() == plane(region, c));
  t[0][0] = 9;
  CHECK(whole.at<cv::Vec3b>(3, 2) == cv::Vec3b(9, 9, 9));
  CHECK(are_equal(bridge::as_mat(t), region));
}

TEST_CASE("as_tensor: the tensor holds the image") {
  Tensor t;
  {
    cv::Mat image(2, 2, CV_32F, cv::Scalar(3));
    t = bridge::as_tensor(image);
    CHECK(image.u->refcount == 2);
  }
  CHECK(t.to_vector<float>() == std::vector<float>{3, 3, 3, 3});
  cv::Mat image(2, 2, CV_32F);
  bridge::as_tensor(image);
  CHECK(image.u->refcount == 1);
}

TEST_CASE("as_mat: a tensor's memory as an image, also where rows lie apart") {
  const Tensor t = arange(4 * 6 * 3).to(kF32).view({4, 6, 3});
  const cv::Mat image = bridge::as_mat(t);
  CHECK(image.type() == CV_32FC3);
  CHECK(image.at<cv::Vec3f>(2, 1) == cv::Vec3f(39, 40, 41));
  const cv::Mat part = bridge::as_mat(t.narrow(1, 2, 3));
  CHECK(part.at<cv::Vec3f>(1, 0) == cv::Vec3f(24, 25, 26));
  CHECK(bridge::as_mat(t.select(0, 1)).at<float>(5, 2) == 35);  // [6,3], one channel
  bridge::as_mat(t).at<cv::Vec3f>(0, 0)[1] = -1;
  CHECK(t[0][0][1].item<float>() == -1);
}

TEST_CASE("to_batch: colours in RGB planes, u8 as 0 to 1, regions included") {
  const cv::Mat whole = random_image(9, 7, CV_8UC3), other = random_image(5, 4, CV_8UC3);
  const cv::Mat region = whole(cv::Rect(1, 2, 4, 5));
  const Tensor batch = bridge::to_batch({region, other});
  REQUIRE(batch.shape() == Shape{2, 3, 5, 4});
  const Tensor bytes = bridge::to_batch({region, other}, {.dtype = kU8});
  const Tensor as_is = bridge::to_batch({region, other}, {.swap_red_blue = false, .dtype = kU8});
  for (int c = 0; c < 3; ++c) {
    const std::vector<float> wanted = plane(region, 2 - c);
    CHECK(bytes[0][c].to_vector<float>() == wanted);
    CHECK(as_is[1][c].to_vector<float>() == plane(other, c));
    const std::vector<float> got = batch[0][c].to_vector<float>();
    for (size_t i = 0; i < wanted.size(); ++i) {
      CHECK(std::abs(got[i] - wanted[i] / 255) <= 1e-7);  // OpenCV multiplies by 1/255
    }
  }
  const cv::Mat alpha = random_image(3, 2, CV_32FC4), grey = random_image(3, 2, CV_32F);
  const Tensor four = bridge::to_batch({alpha});
  for (int c = 0; c < 4; ++c) {
    CHECK(four[0][c].to_vector<float>() == plane(alpha, c < 3 ? 2 - c : c));
  }
  CHECK(bridge::to_batch({grey})[0][0].to_vector<float>() == plane(grey, 0));
}

TEST_CASE("to_mat: images come back from a batch, rounded and cut to 0 to 255") {
  for (const int type : {CV_8U, CV_8UC3, CV_8UC4}) {
    const cv::Mat image = random_image(6, 5, type);
    for (const DType dtype : {kU8, kF32, kF64}) {
      const Tensor batch = bridge::to_batch({image}, {.dtype = dtype});
      CHECK(are_equal(bridge::to_mats(batch)[0], image));
      CHECK(are_equal(bridge::to_mats(batch.contiguous(kChannelsLast))[0], image));
      if (dtype == kF32) CHECK(are_equal(bridge::to_mat(batch[0].to(kF16)), image));
    }
  }
  const cv::Mat floats = random_image(6, 5, CV_32FC3);
  CHECK(are_equal(bridge::to_mat(bridge::to_batch({floats})[0], {.dtype = kF32}), floats));
  const Tensor t = tensor({{{-0.5f, 0.001f, 0.5f, 1.5f}}}).requires_grad_();
  const cv::Mat cut = bridge::to_mat(t);
  CHECK(std::vector<uint8_t>(cut.begin<uint8_t>(), cut.end<uint8_t>()) ==
        std::vector<uint8_t>{0, 0, 128, 255});
}

TEST_CASE("bridge to OpenCV: what does not fit is named") {
  using bridge::as_mat, bridge::to_batch, bridge::to_mat;
  const cv::Mat image = random_image(4, 4, CV_8UC3);
  has(error_of<ValueError>([] { bridge::as_tensor(cv::Mat()); }), "0 x 0");
  has(error_of<DTypeError>([] { bridge::as_tensor(cv::Mat(2, 2, CV_16UC3)); }), "CV_16UC3");
  has(error_of<ValueError>([] { to_batch({}); }), "no images");
  has(error_of<ShapeError>([] { to_batch({cv::Mat(2, 2, CV_8UC(5))}); }), "not 5");
  has(error_of<DTypeError>([] { to_batch({cv::Mat(2, 2, CV_32SC3)}); }), "not i32");
  has(error_of<DTypeError>([&] { to_batch({image}, {.dtype = kI64}); }), "not i64");
  has(error_of<ShapeError>([&] {
        to_batch({image, cv::Mat(4, 5, CV_8UC3)});
      }),
      "image 1 is [3,4,5]");
  const int sizes[] = {2, 3, 4};
  has(error_of<ShapeError>([&] { to_batch({cv::Mat(3, sizes, CV_32F)}); }), "3 dimensions");

  const Tensor t = zeros({3, 4, 5});
  has(error_of<ShapeError>([] { as_mat(zeros({2})); }), "f32[2]@cpu");
  has(error_of<ShapeError>([] { as_mat(zeros({2, 2, 513})); }), "513");
  has(error_of<DTypeError>([] { as_mat(zeros({2, 2}, {.dtype = kBF16})); }), "bf16");
  has(error_of<StateError>([] { as_mat(ones({2, 2}, lathe::requires_grad())); }), "detach()");
  has(error_of<ValueError>([&] { as_mat(t.permute({1, 2, 0})); }), "strides [5,1,20]");
  has(error_of<ValueError>([&] { as_mat(t[0].slice(1, 0, 5, 2)); }), "strides [5,2]");
  has(error_of<ValueError>([&] { as_mat(t[0][0].expand({2, 5})); }), "strides [0,1]");
  has(error_of<ShapeError>([] { to_mat(zeros({5, 2, 2})); }), "not 5");
  has(error_of<ShapeError>([] { to_mat(zeros({2, 2})); }), "[C,H,W]");
  has(error_of<DTypeError>([] { to_mat(zeros({3, 2, 2}, {.dtype = kI32})); }), "not i32");
  has(error_of<DTypeError>([] { to_mat(zeros({3, 2, 2}), {.dtype = kBF16}); }), "not bf16");
  has(error_of<ShapeError>([] { to_mat(zeros({3, 0, 2})); }), "f32[3,0,2]");
  has(error_of<ShapeError>([&] { bridge::to_mats(t); }), "[N,C,H,W]");
}

TEST_CASE("as_mat: a tensor on a GPU is refused, to_mat copies it" * test::cuda_case()) {
  const cv::Mat image = random_image(4, 5, CV_8UC3);
  const Tensor t = bridge::to_batch({image}).to("cuda");
  has(error_of<DeviceError>([&] { bridge::as_mat(t[0][0]); }), "f32[4,5]@cuda:0");
  CHECK(are_equal(bridge::to_mats(t)[0], image));
}
