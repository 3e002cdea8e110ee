// The update kernels of optim/kernels/update_cuda.cu against the CPU loops: one formula, so equal to the
// last bit, for every rule, dtype and size, over several steps.
#include "lathe/optim/update.h"

#include "fault.h"
#include "lathe/core/copy.h"
#include "lathe/ops/index.h"
#include "lathe/optim/adadelta.h"
#include "lathe/optim/adagrad.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/adamax.h"
#include "lathe/optim/lion.h"
#include "lathe/optim/nadam.h"
#include "lathe/optim/radam.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"
#include "update_state.h"

using namespace lathe;
using namespace lathe::test;

namespace {

std::vector<Rule> rules() {
  std::vector<Rule> all;
  const auto array_if = [](bool used) { return used ? Buffer::kArray : Buffer::kNone; };
  const auto sgd = [&](std::string name, const optim::SGDOptions& o) {
    all.push_back(rule("SGD " + name, {array_if(o.momentum != 0)}, o, optim::cpu::sgd_update,
                       optim::cuda::sgd_update));
  };
  const auto adam = [&](std::string name, const optim::AdamOptions& o, bool decoupled) {
    all.push_back({"Adam " + name,
                   {Buffer::kArray, Buffer::kArray, array_if(o.amsgrad)},
                   [=](auto items) { optim::cpu::adam_update(items, o, decoupled); },
                   [=](auto items) { optim::cuda::adam_update(items, o, decoupled); }});
  };
  const auto rmsprop = [&](std::string name, const optim::RMSpropOptions& o) {
    all.push_back(rule("RMSprop " + name,
                       {Buffer::kArray, array_if(o.momentum != 0), array_if(o.centered)}, o,
                       optim::cpu::rmsprop_update, optim::cuda::rmsprop_update));
  };
  const auto by_rule = [&]<class Options>(const Options& o) {
    all.push_back({Options::kName,
                   {Buffer::kArray, array_if(std::size(Options::kBuffers) > 1)},
                   [=](auto items) { optim::cpu::rule_update(items, o); },
                   [=](auto items) { optim::cuda::rule_update(items, o); }});
  };
  sgd("plain", {.lr = 0.1, .weight_decay = 0.3});
  sgd("momentum", {.lr = 0.1, .momentum = 0.9, .dampening = 0.4});
  sgd("nesterov", {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2, .nesterov = true});
  optim::AdamOptions a{.lr = 0.02, .betas = {0.9, 0.99}, .weight_decay = 0.1};
  adam("decay", a, false);
  adam("decoupled", a, true);
  a.amsgrad = true;
  adam("amsgrad", a, true);
  optim::RMSpropOptions r{.lr = 0.02, .alpha = 0.8, .eps = 0.01, .weight_decay = 0.1};
  rmsprop("plain", r);
  r.centered = true;
  rmsprop("centered", r);
  r.momentum = 0.5;
  rmsprop("centered with momentum", r);
  r.centered = false;
  rmsprop("momentum", r);
  by_rule(optim::AdagradOptions{.lr_decay = 0.1, .initial_accumulator_value = 0.5});
  by_rule(optim::AdadeltaOptions{.weight_decay = 0.1});
  by_rule(optim::AdamaxOptions{.lr = 0.02, .weight_decay = 0.1});
  by_rule(optim::NAdamOptions{.lr = 0.02, .weight_decay = 0.1});
  by_rule(optim::RAdamOptions{.lr = 0.02, .betas = {0.9, 0.75}, .decoupled_weight_decay = true});
  by_rule(optim::LionOptions{.lr = 0.02, .weight_decay = 0.1});
  all.push_back(rule("EMA", {Buffer::kArray}, optim::EmaNumbers{.decay = 0.9, .warm_up = true},
                     optim::cpu::ema_update, optim::cuda::ema_update));
  return all;
}

}  // namespace

TEST_CASE("update kernels: equal the CPU loops bit for bit, for every rule and dtype") {
  manual_seed(31);
  for (const Rule& r : rules()) {
    compare(r, make_state({0, 1, 31, 33, 1025}, kF32, r.used), 3);
    for (const DType dtype : {kF16, kBF16, kF64}) compare(r, make_state({65, 3}, dtype, r.used), 2);
  }
}

TEST_CASE("update kernels: masters of half parameters, and gradients with factors") {
  manual_seed(38);
  for (const Rule& r : rules()) {
    if (r.name == "EMA") continue;  // an average has neither
    for (const DType dtype : {kF16, kBF16, kF32}) {
      State host = make_state({33, 1025}, dtype, r.used);
      host.grad_factors = tensor({0.5, 0.3}, kF64);
      if (dtype != kF32) {
        for (const Tensor& p : host.params) {
          host.masters.push_back(p.to(kF32) + 1e-5f);
          fill_values(host.masters.back().narrow(0, 0, 1), 9);  // not what the parameter holds
        }
      }
      compare(r, host, 2);
    }
  }
}

TEST_CASE("update kernels: chunks, many parameters, mixed dtypes and steps, odd addresses") {
  manual_seed(32);
  const Rule sgd = rules()[1], adam = rules()[3];
  compare(sgd, make_state({4096, 4097, 8195}, kF32, sgd.used), 2);
  compare(sgd, make_state(std::vector<int64_t>(200, 2), kF32, sgd.used), 2);  // several tables

  State mixed = make_state({40, 3}, kF32, adam.used);
  const State half = make_state({17, 3}, kF16, adam.used);
  for (size_t i = 0; i < half.params.size(); ++i) {
    mixed.params.insert(mixed.params.begin() + 1, half.params[i]);
    mixed.grads.insert(mixed.grads.begin() + 1, half.grads[i]);
    mixed.buffers.insert(mixed.buffers.begin() + 1, half.buffers[i]);
    mixed.scratch.insert(mixed.scratch.begin() + 1, half.scratch[i]);
    mixed.steps.insert(mixed.steps.begin() + 1, 7);
  }
  compare(adam, mixed, 2);

  State host = make_state({1000}, kF32, sgd.used);  // one element beyond a 16-byte boundary
  host.params[0] = host.params[0].narrow(0, 1, 999);
  host.grads[0] = host.grads[0].narrow(0, 0, 999);
  host.buffers[0][0] = host.buffers[0][0].narrow(0, 1, 999);
  State device = host;
  const Tensor param = lathe::test::on_device(zeros({1000}));
  device.params[0] = param.narrow(0, 1, 999);
  device.params[0].copy_(host.params[0]);
  device.grads[0] = moved(host.grads[0]);
  device.buffers[0][0] = moved(host.buffers[0][0]);
  sgd.on_cpu(host.items());
  sgd.on_cuda(device.items());
  check_equal(device, host, "SGD at an odd address");
}
TEST_CASE("update kernels: half gradients and half copies of f32 parameters") {
  manual_seed(39);
  for (const Rule& r : rules()) {
    if (r.name == "EMA") continue;
    for (const DType half : {kF16, kBF16}) {
      State host = make_state({3, 33, 4097}, kF32, r.used);
      for (Tensor& g : host.grads) g = g.to(half).to(kF32);
      const State device = on_device(host);
      Tensors grads, copies;
      std::vector<UpdateItem> items = device.items();
      for (size_t i = 0; i < items.size(); ++i) {
        grads.push_back(moved(host.grads[i].to(half)));
        copies.push_back(moved(zeros(host.grads[i].shape(), {.dtype = half})));
        items[i].grad = grads[i].raw_data();
        items[i].half_grad = half;
        if (i == 1) continue;  // one has no copy
        items[i].half_copy = half;
        items[i].copy = copies[i].raw_data();
      }
      r.on_cpu(host.items());
      r.on_cuda(items);
      check_equal(device, host, r.name);
      for (size_t i = 0; i < items.size(); ++i) {
        const Tensor want = i == 1 ? zeros_like(copies[i]).to(kCPU) : host.params[i].to(half);
        CHECK(difference(lathe::test::on_host(copies[i]), want, 0).empty());
      }
    }
  }
}
TEST_CASE("update kernels: nothing changes while the fault record is raised") {
  const Rule adam = rules()[3];
  // Not one state moved to the device: a build without CUDA would leave both in the same memory.
  manual_seed(39);
  const State before = make_state({300}, kF32, adam.used);
  manual_seed(39);
  const State device = on_device(make_state({300}, kF32, adam.used));
  const Tensor bad = on_device(full({1}, 9, {.dtype = kI64}));
  cuda::check_index("embedding", bad, 5);
  adam.on_cuda(device.items());
  const FaultReport fault = take_fault();
  CHECK(fault.raised == 1);
  CHECK(fault.value == 9);
  check_equal(device, before, "Adam with a fault");
  adam.on_cuda(device.items());
  CHECK_FALSE(difference(on_host(device.params[0]), before.params[0], 0).empty());
}
TEST_CASE(
    "update kernels: with counts on the device, a skipped step changes nothing and is not "
    "counted") {
  manual_seed(34);
  for (const Rule& r : rules()) {
    State host = make_state({0, 1, 33, 4099}, kF32, r.used);
    State device = on_device(host);
    // One count per parameter; the second parameter has made three updates already.
    const Tensor counts = lathe::test::on_device(zeros({4}, {.dtype = kI64}));
    fill_values(counts.narrow(0, 1, 1), 3);
    host.steps[1] = 4;
    for (const bool skip : {true, false, true, false, false}) {
      const Tensor flag = lathe::test::on_device(full({}, skip ? 1.0 : 0.0));
      std::vector<UpdateItem> items = device.items();
      for (size_t i = 0; i < items.size(); ++i) {
        items[i].found_inf = flag.data<float>();
        items[i].count = counts.data<int64_t>() + i;
      }
      r.on_cuda(items);
      if (!skip) {
        r.on_cpu(host.items());
        for (int64_t& step : host.steps) ++step;
      }
      check_equal(device, host, r.name);
      for (size_t i = 0; i < host.params.size(); ++i) {
        host.grads[i] = randn(host.grads[i].shape());
        device.grads[i] = moved(host.grads[i]);
      }
    }
    CHECK(on_host(counts).to_vector<int64_t>() == std::vector<int64_t>{3, 6, 3, 3});
  }
  // More counts than one launch takes.
  const Rule sgd = rules()[1];
  const State before = make_state(std::vector<int64_t>(500, 1), kF32, sgd.used);
  const State device = on_device(before);
  const Tensor counts = lathe::test::on_device(zeros({500}, {.dtype = kI64}));
  std::vector<UpdateItem> items = device.items();
  for (size_t i = 0; i < items.size(); ++i) items[i].count = counts.data<int64_t>() + i;
  sgd.on_cuda(items);
  CHECK(on_host(counts).to_vector<int64_t>() == std::vector<int64_t>(500, 1));
  sgd.on_cpu(before.items());
  check_equal(device, before, "SGD of 500 parameters");
}
