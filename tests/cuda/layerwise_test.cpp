// The kernels of optim/kernels/update_layerwise_cuda.cu against the CPU loops. The sums of squares run in double,
// in another order; so a rate may differ in its last bit, and elements by what that makes.
#include "fault.h"
#include "lathe/core/copy.h"
#include "lathe/ops/index.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/novograd.h"
#include "update_state.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr optim::LARSOptions kLars{.lr = 2, .weight_decay = 0.1, .trust_coefficient = 0.02};
constexpr optim::LAMBOptions kLamb{.lr = 0.02, .betas = {0.9, 0.99}, .weight_decay = 0.1};
constexpr optim::NovoGradOptions kNovograd{.lr = 0.02, .weight_decay = 0.1};

// Of vectors; of matrices the buffer is an estimate that the step reads, here of zeros.
optim::AdafactorNumbers adafactor(bool factored) {
  optim::AdafactorNumbers numbers{{.lr = 0.02, .eps1 = 0.01, .d = 1.25, .weight_decay = 0.1}};
  numbers.factored = factored;
  return numbers;
}

std::vector<Rule> rules() {
  return {rule("LARS", {Buffer::kArray}, kLars, optim::cpu::lars_update, optim::cuda::lars_update),
          rule("LAMB", {Buffer::kArray, Buffer::kArray}, kLamb, optim::cpu::lamb_update,
               optim::cuda::lamb_update),
          rule("NovoGrad", {Buffer::kArray, Buffer::kNumber}, kNovograd,
               optim::cpu::novograd_update, optim::cuda::novograd_update),
          rule("Adafactor", {Buffer::kArray}, adafactor(false), optim::cpu::adafactor_update,
               optim::cuda::adafactor_update),
          rule("Adafactor of matrices", {Buffer::kArray}, adafactor(true),
               optim::cpu::adafactor_update, optim::cuda::adafactor_update)};
}

/// One unit in the last place of the rate, through three steps.
double last_bits_of(DType dtype) {
  if (dtype == kF16) return 0x1p-10;
  if (dtype == kBF16) return 0x1p-7;
  return dtype == kF64 ? 1e-14 : 4e-7;
}

}  // namespace

TEST_CASE("layer-wise kernels: agree with the CPU for every rule and dtype") {
  manual_seed(35);
  for (const Rule& r : rules()) {
    compare(r, make_state({0, 1, 31, 33, 1025}, kF32, r.used), 3, last_bits_of(kF32));
    compare(r, make_state({4096, 9001}, kF32, r.used), 2, last_bits_of(kF32));
    compare(r, make_state(std::vector<int64_t>(150, 2), kF32, r.used), 1, last_bits_of(kF32));
    for (const DType dtype : {kF16, kBF16, kF64}) {
      compare(r, make_state({65, 3}, dtype, r.used), 2, last_bits_of(dtype));
    }
  }
}

TEST_CASE("layer-wise kernels: without trust ratio they equal the CPU bit for bit") {
  manual_seed(36);
  optim::LARSOptions lars = kLars;
  lars.adapt = false;
  const Rule r =
      rule("LARS", {Buffer::kArray}, lars, optim::cpu::lars_update, optim::cuda::lars_update);
  compare(r, make_state({1, 33, 5000}, kF32, r.used), 3);
}

TEST_CASE("layer-wise kernels: tensors and gradients of zeros") {
  for (const Rule& r : rules()) {
    State host = make_state({40, 40}, kF32, r.used);
    fill_values(host.params[0], 0);
    fill_values(host.grads[1], 0);
    compare(r, host, 2, last_bits_of(kF32));
  }
}

TEST_CASE("layer-wise kernels: nothing changes while the fault record is raised") {
  for (const Rule& r : rules()) {
    const State before = make_state({300}, kF32, r.used);
    const State device = on_device(before);
    cuda::check_index("embedding", lathe::test::on_device(full({1}, 9, {.dtype = kI64})), 5);
    r.on_cuda(device.items());
    CHECK(take_fault().raised == 1);
    check_equal(device, before, r.name);
  }
}

TEST_CASE("layer-wise kernels: a skipped step changes nothing and is not counted") {
  manual_seed(37);
  for (const Rule& r : rules()) {
    State host = make_state({0, 1, 33, 4099}, kF32, r.used);
    State device = on_device(host);
    const Tensor counts = lathe::test::on_device(zeros({4}, {.dtype = kI64}));
    for (const bool skip : {true, false, true, false}) {
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
      check_equal(device, host, r.name, last_bits_of(kF32));
      for (size_t i = 0; i < host.params.size(); ++i) {
        host.grads[i] = randn(host.grads[i].shape());
        device.grads[i] = moved(host.grads[i]);
      }
    }
    CHECK(on_host(counts).to_vector<int64_t>() == std::vector<int64_t>{2, 2, 2, 2});
  }
}
