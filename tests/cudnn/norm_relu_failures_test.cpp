// What fails where batch norm, relu and convolution are one op: over the emulated cuDNN, which can be
// made to. The op itself: norm_relu_conv2d_test.cpp.
#include "fused_choices.h"
#include "lathe/tests/emulation/cudnn_emulation.h"
#include "normed_layer.h"

using namespace lathe;
using namespace lathe::test;
using emulation::cudnn_probe;

TEST_CASE("norm relu conv2d: an engine that fails is given up, and nothing but speed is lost") {
  CudnnFixture f;
  cudnn::set_benchmark(true);
  manual_seed(11);
  const NormedLayer layer{"failing", {2, 8, 9, 9}, {8, 8, 3, 3}, 1, 1};
  const NormedProblem p = problem_of(layer);
  const Tensors want = run(layer, p.in_f64());
  choose(search([&] { run(layer, p); }), kFused);
  cudnn_probe().failing = {8};  // the fused one
  const Tensors got = run(layer, p);
  CHECK(f.logged.find("is given up") != std::string::npos);
  for (size_t i = 0; i < got.size(); ++i) CHECK(error_of(got[i], want[i]) < 4 * kHalfRounding);
}

TEST_CASE("norm relu conv2d: over a library without the patterns it is two ops") {
  CudnnFixture f;
  cudnn::set_benchmark(true);
  manual_seed(12);
  const NormedLayer layer{"without", {2, 8, 5, 5}, {8, 8, 3, 3}, 1, 1};
  const NormedProblem p = problem_of(layer);
  const Tensors want = run(layer, p.in_f64());
  cudnn_probe().fuses = false;
  forget_executions();
  const Tensors got = run(layer, p);
  CHECK(fused_executions() == 0);
  for (size_t i = 0; i < got.size(); ++i) CHECK(error_of(got[i], want[i]) < 2 * kHalfRounding);
  CHECK(f.logged.empty());
}
