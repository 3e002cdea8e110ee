// Two halves of an image through a network's input and back. cv::imread() would give the image.
#include <lathe/bridge/opencv.h>
#include <lathe/lathe.h>

#include <iostream>
#include <opencv2/core.hpp>

namespace bridge = lathe::bridge;

int main() {
  cv::Mat image(48, 64, CV_8UC3, cv::Scalar(255, 128, 0));  // blue, green, red
  cv::Mat left = image(cv::Rect(0, 0, 32, 48)), right = image(cv::Rect(32, 0, 32, 48));
  bridge::as_tensor(right).select(2, 0).fill_(0);  // no blue: writes into image

  lathe::Tensor x = bridge::to_batch({left, right});   // RGB f32 [2,3,48,32] in [0,1]
  lathe::Tensor half = x * 0.5;                        // a network would stand here
  std::vector<cv::Mat> shown = bridge::to_mats(half);  // BGR u8, for cv::imshow()

  lathe::Tensor mean = half[0].mean({0});
  cv::Mat grey = bridge::as_mat(mean);  // f32 [48,32], mean's memory
  std::cout << "left " << shown[0].at<cv::Vec3b>(5, 5) << ", right " << shown[1].at<cv::Vec3b>(5, 5)
            << ", grey " << grey.at<float>(5, 5) << '\n';
}
