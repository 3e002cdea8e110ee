// Passes: text in, text out; and what they leave of the numbers.
#include "lathe/graph/passes.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/compute_alone.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/models.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;

namespace {

/// The text of `lines` after the pass.
std::string after(void (*pass)(jit::Graph&), const std::string& lines) {
  jit::Graph graph = jit::parse("lathe graph 1\n" + lines);
  pass(graph);
  const std::string text = graph.text();
  CHECK(jit::parse(text).text() == text);
  return text.substr(text.find('\n') + 1);
}

const char* const kNorm =
    "input %x: f32[N,3,8,8]\n"
    "param @w: f32[4,3,3,3]\n"
    "param @g: f32[4]\n"
    "param @b: f32[4]\n"
    "buffer @m: f32[4]\n"
    "buffer @v: f32[4]\n"
    "%0: f32[N,4,8,8] = conv2d(%x, @w, none, stride=[1,1], pad=[1,1], dilation=[1,1], groups=1)  "
    "# Net.conv\n";

}  // namespace

TEST_CASE("passes: dead code") {
  CHECK(after(jit::remove_dead_code,
              "input %x: f32[3]\n"
              "input %unused: f32[3]\n"
              "param @w: f32[3]\n"
              "param @z: f32[3]\n"
              "%0: f32[3] = mul(%x, @z)\n"
              "%1: f32[3] = relu(%0)\n"
              "%2: f32[3] = add(%x, @w)\n"
              "output %2\n") ==
        "input %x: f32[3]\n"
        "input %unused: f32[3]\n"
        "param @w: f32[3]\n"
        "%2: f32[3] = add(%x, @w)\n"
        "output %2\n");
}

TEST_CASE("passes: common subexpressions") {
  CHECK(after(jit::merge_common_subexpressions,
              "input %x: f32[3]\n"
              "const @a: f32[] = 2.0\n"
              "const @b: f32[] = 2.0\n"
              "const @c: f64[] = 2.0\n"
              "%0: f32[3] = mul(%x, @a)\n"
              "%1: f32[3] = mul(%x, @b)\n"
              "%2: f32[3] = mul(%x, @c)\n"
              "%3: f32[3] = relu(%0)\n"
              "%4: f32[3] = relu(%1)\n"
              "%5: f32[3] = leaky_relu(%1, slope=0.1)\n"
              "%6: f32[3] = leaky_relu(%1, slope=0.2)\n"
              "%7: f32[12] = cat(%3, %4, %5, %6, dim=0)\n"
              "output %7, %2, %4\n") ==
        "input %x: f32[3]\n"
        "const @a: f32[] = 2.0\n"
        "const @c: f64[] = 2.0\n"
        "%0: f32[3] = mul(%x, @a)\n"
        "%2: f32[3] = mul(%x, @c)\n"
        "%3: f32[3] = relu(%0)\n"
        "%5: f32[3] = leaky_relu(%0, slope=0.1)\n"
        "%6: f32[3] = leaky_relu(%0, slope=0.2)\n"
        "%7: f32[12] = cat(%3, %3, %5, %6, dim=0)\n"
        "output %7, %2, %3\n");
}

TEST_CASE("passes: constants") {
  CHECK(after(jit::fold_constants,
              "input %x: f32[N,1]\n"
              "const @a: f32[] = 2.0\n"
              "param @w: f32[]\n"
              "%0: f32[] = mul(@a, @a)\n"
              "%1: f32[1] = reshape(%0, shape=[1])\n"
              "%2: f32[N] = expand(%1, shape=[N])\n"
              "%3: f32[] = mul(@w, @a)\n"
              "%4: f32[N,1] = mul(%x, %3)\n"
              "output %2, %4\n") ==
        "input %x: f32[N,1]\n"
        "const @a: f32[] = 2.0\n"
        "param @w: f32[]\n"
        "const @folded.1: f32[1] = 4.0\n"
        "%2: f32[N] = expand(@folded.1, shape=[N])\n"
        "%3: f32[] = mul(@w, @a)\n"
        "%4: f32[N,1] = mul(%x, %3)\n"
        "output %2, %4\n");
}

TEST_CASE("passes: batch norm that counts batches has its mean and variance before the count") {
  const auto folded = [](const std::string& form) {
    return after(jit::fold_batch_norm, std::string(kNorm) +
                                           "%1: f32[N,4,8,8] = batch_norm(%0, @g, @b, @m, @v, " +
                                           form + "eps=1e-05)\noutput %1\n");
  };
  CHECK(folded("none, training=false, momentum=0.1, ") == folded("training=false, "));
}

TEST_CASE("passes: batch norm goes into the convolution before it") {
  const std::string norm =
      "%1: f32[N,4,8,8] = batch_norm_add_relu(%0, %x, @g, @b, @m, @v, training=false, "
      "eps=1e-05)  # Net.bn\n";
  CHECK(after(jit::fold_batch_norm, kNorm + norm + "output %1\n") ==
        "input %x: f32[N,3,8,8]\n"
        "param @w: f32[4,3,3,3]\n"
        "param @g: f32[4]\n"
        "param @b: f32[4]\n"
        "buffer @m: f32[4]\n"
        "buffer @v: f32[4]\n"
        "const @0.eps: f32[] = 1e-05\n"
        "%0.var: f32[4] = add(@v, @0.eps)  # Net.conv\n"
        "%0.invstd: f32[4] = rsqrt(%0.var)  # Net.conv\n"
        "%0.scale: f32[4] = mul(%0.invstd, @g)  # Net.conv\n"
        "%0.factors: f32[4,1,1,1] = reshape(%0.scale, shape=[4,1,1,1])  # Net.conv\n"
        "%0.weight: f32[4,3,3,3] = mul(@w, %0.factors)  # Net.conv\n"
        "%0.shift: f32[4] = neg(@m)  # Net.conv\n"
        "%0.shift_scaled: f32[4] = mul(%0.shift, %0.scale)  # Net.conv\n"
        "%0.bias: f32[4] = add(%0.shift_scaled, @b)  # Net.conv\n"
        "%0: f32[N,4,8,8] = conv2d(%x, %0.weight, %0.bias, stride=[1,1], pad=[1,1], "
        "dilation=[1,1], groups=1)  # Net.conv\n"
        "%0.sum: f32[N,4,8,8] = add(%0, %x)  # Net.bn\n"
        "%1: f32[N,4,8,8] = relu(%0.sum)  # Net.bn\n"
        "output %1\n");

  // Somebody else reads the convolution, it is training, there are no running statistics, or a file
  // has only one of them, which no call takes.
  for (const char* const line :
       {"%1: f32[N,4,8,8] = batch_norm(%0, @g, @b, @m, @v, training=false, eps=1e-05)\n"
        "output %0, %1\n",
        "%1: f32[N,4,8,8] = batch_norm(%0, @g, @b, @m, @v, training=true, eps=1e-05)\n"
        "output %1\n",
        "%1: f32[N,4,8,8] = batch_norm(%0, @g, @b, none, none, training=false, eps=1e-05)\n"
        "output %1\n",
        "%1: f32[N,4,8,8] = batch_norm(%0, @g, @b, @m, none, training=false, eps=1e-05)\n"
        "output %1\n"}) {
    const auto nothing = [](jit::Graph&) {};
    CHECK(after(jit::fold_batch_norm, kNorm + std::string(line)) ==
          after(nothing, kNorm + std::string(line)));
  }
}

TEST_CASE("passes: batch norm goes into half filters as they were before their cast") {
  std::string head = kNorm;
  head.resize(head.find("%0"));
  const std::string folded = after(
      jit::fold_batch_norm,
      head +
          "param @c: f16[4]\n"
          "%x16: f16[N,3,8,8] = cast(%x, dtype=\"f16\")\n"
          "%w16: f16[4,3,3,3] = cast(@w, dtype=\"f16\")\n"
          "%0: f16[N,4,8,8] = conv2d(%x16, %w16, @c, stride=[1,1], pad=[1,1], dilation=[1,1], "
          "groups=1)\n"
          "%1: f16[N,4,8,8] = batch_norm(%0, @g, @b, @m, @v, training=false, eps=1e-05)\n"
          "output %1\n");
  INFO(folded);
  for (const char* const line :
       {"%0.weight: f32[4,3,3,3] = mul(@w, %0.factors)\n",
        "%0.half: f16[4,3,3,3] = cast(%0.weight, dtype=\"f16\")\n",
        "%0.wide: f32[4] = cast(@c, dtype=\"f32\")\n", "%0.shift: f32[4] = sub(%0.wide, @m)\n",
        "%1: f16[N,4,8,8] = conv2d(%x16, %0.half, %0.half_, "}) {
    CHECK_MESSAGE(folded.find(line) != std::string::npos, line);
  }
}

TEST_CASE("passes: sum and relu go into the convolution before them") {
  const std::string head =
      "input %x: f32[N,4,8,8]\n"
      "param @w: f32[4,4,3,3]\n"
      "param @v: f32[4,4,1,1]\n"
      "%0: f32[N,4,8,8] = conv2d(%x, @w, none, stride=[1,1], pad=[1,1], dilation=[1,1], groups=1)  "
      "# Net.conv\n"
      "%1: f32[N,4,8,8] = conv2d(%x, @v, none, stride=[1,1], pad=[0,0], dilation=[1,1], "
      "groups=1)\n";
  const std::string alone = head.substr(0, head.find("%1"));
  // The larger filters take in the smaller ones' result, on whichever side.
  for (const char* const sum :
       {"%2: f32[N,4,8,8] = add(%0, %1)\n", "%2: f32[N,4,8,8] = add(%1, %0)\n"}) {
    CHECK(after(jit::fuse_epilogues, head + sum + "%3: f32[N,4,8,8] = relu(%2)\noutput %3\n") ==
          "input %x: f32[N,4,8,8]\n"
          "param @w: f32[4,4,3,3]\n"
          "param @v: f32[4,4,1,1]\n"
          "%1: f32[N,4,8,8] = conv2d(%x, @v, none, stride=[1,1], pad=[0,0], dilation=[1,1], "
          "groups=1)\n"
          "%3: f32[N,4,8,8] = fused_conv2d(%x, @w, none, %1, stride=[1,1], pad=[1,1], "
          "dilation=[1,1], groups=1, constant_filters=false, relu=true)  # Net.conv\n"
          "output %3\n");
  }
  const std::string fused =
      "input %x: f32[N,4,8,8]\n"
      "param @w: f32[4,4,3,3]\n"
      "%2: f32[N,4,8,8] = fused_conv2d(%x, @w, none, ";
  const std::string options =
      ", stride=[1,1], pad=[1,1], dilation=[1,1], groups=1, constant_filters=false, ";
  CHECK(after(jit::fuse_epilogues, alone + "%2: f32[N,4,8,8] = add(%x, %0)\noutput %2\n") ==
        fused + "%x" + options + "relu=false)  # Net.conv\noutput %2\n");
  CHECK(after(jit::fuse_epilogues, alone + "%2: f32[N,4,8,8] = relu(%0)\noutput %2\n") ==
        fused + "none" + options + "relu=true)  # Net.conv\noutput %2\n");

  // Somebody else reads what would go, or the sum stretches its operands.
  for (const char* const rest :
       {"%2: f32[N,4,8,8] = relu(%0)\noutput %0, %2\n",
        "%2: f32[N,4,8,8] = add(%0, %0)\noutput %2\n",
        "input %y: f32[1,4,1,1]\n%2: f32[N,4,8,8] = add(%0, %y)\noutput %2\n",
        "input %y: f64[N,4,8,8]\n%2: f64[N,4,8,8] = add(%0, %y)\noutput %2\n"}) {
    const auto nothing = [](jit::Graph&) {};
    CHECK(after(jit::fuse_epilogues, alone + std::string(rest)) ==
          after(nothing, alone + std::string(rest)));
  }
  // Two sums, and a relu before the sum: one of each goes, in this order.
  CHECK(after(jit::fuse_epilogues, alone + "%2: f32[N,4,8,8] = relu(%0)\n"
                                           "%3: f32[N,4,8,8] = add(%2, %x)\n"
                                           "output %3\n") ==
        fused + "none" + options +
            "relu=true)  # Net.conv\n"
            "%3: f32[N,4,8,8] = add(%2, %x)\noutput %3\n");
}

TEST_CASE("passes: an activation goes into the linear layer before it") {
  const std::string head =
      "input %x: f32[N,4]\n"
      "param @w: f32[3,4]\n"
      "param @b: f32[3]\n";
  const std::string linear = "%0: f32[N,3] = linear(%x, @w, @b)  # Net.fc\n";
  for (const auto& [call, word] : {std::pair{"relu(%0)", "relu"},
                                   {"gelu(%0, tanh_approximation=false)", "gelu"},
                                   {"gelu(%0, tanh_approximation=true)", "gelu_tanh"}}) {
    CHECK(after(jit::fuse_epilogues, head + linear + "%1: f32[N,3] = " + call + "\noutput %1\n") ==
          head + "%1: f32[N,3] = linear(%x, @w, @b, activation=\"" + word +
              "\", activate_last=true)  # Net.fc\noutput %1\n");
  }
}

TEST_CASE("passes: convolutions read NHWC") {
  CHECK(after(jit::use_channels_last,
              "input %x: f32[N,4,8,8]\n"
              "param @w: f32[4,4,1,1]\n"
              "%0: f32[N,4,8,8] = conv2d(%x, @w, none, stride=[1,1], pad=[0,0], dilation=[1,1], "
              "groups=1)\n"
              "%1: f32[N,4,8,8] = add(%0, %x)\n"
              "output %1\n") ==
        "input %x: f32[N,4,8,8]\n"
        "param @w: f32[4,4,1,1]\n"
        "%x.nhwc: f32[N,4,8,8] = contiguous(%x, format=\"channels_last\")\n"
        "%0: f32[N,4,8,8] = conv2d(%x.nhwc, @w, none, stride=[1,1], pad=[0,0], dilation=[1,1], "
        "groups=1)\n"
        "%1: f32[N,4,8,8] = add(%0, %x)\n"
        "output %1\n");
}

TEST_CASE("passes: an optimised model computes the same within rounding") {
  for (const char* const name : {"resnet8", "mobilenet_v2"}) {
    CAPTURE(name);
    manual_seed(4);
    const auto model = nn::make_model(name, {.classes = 5, .image_size = 32});
    const NoGrad off;
    model->eval();
    for (auto& [key, t] : model->named_buffers()) {
      if (key.ends_with("running_mean")) t.normal_(0, 0.1);
      if (key.ends_with("running_var")) t.uniform_(0.5, 1.5);
    }
    const Tensor x = randn({2, 3, 32, 32});
    jit::Graph graph = jit::trace(*model, x);
    jit::optimize_for_inference(graph);
    CHECK(graph.text().find("batch_norm") == std::string::npos);
    const Tensor expected = model->forward(x), got = graph(x);
    // Each of some 20 layers rounds its sums in another order: a few 1e-7 of the largest logit.
    const double bound = 1e-5 * (expected.abs().max().item<double>() + 1);
    CHECK((got - expected).abs().max().item<double>() <= bound);
  }
}

TEST_CASE("passes: an optimised graph takes no memory from the system in a run") {
  if (!host_allocator().caches()) return;  // a memory checker's build
  const ComputeAlone alone;  // how many workers need memory at once differs from run to run
  manual_seed(4);
  const auto model = nn::make_model("resnet8", {.classes = 5, .image_size = 32});
  model->eval();
  const Tensor x = randn({4, 3, 32, 32});
  jit::Graph graph = jit::trace(*model, x);
  jit::optimize_for_inference(graph);
  for (int i = 0; i < 3; ++i) graph(x);
  const MemoryStats before = host_allocator().stats();
  for (int i = 0; i < 5; ++i) graph(x);
  const MemoryStats after = host_allocator().stats();
  CHECK(after.system_allocations == before.system_allocations);
  CHECK(after.allocated_bytes == before.allocated_bytes);
  for (const auto& [name, t] : graph.state()) CHECK(!t.requires_grad());
}
