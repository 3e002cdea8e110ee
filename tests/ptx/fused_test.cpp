// Fused kernels as NVRTC compiles them, run by the interpreter, against the ops' own kernels as
// nvcc compiled them: the same bits. fused_group_test.cpp: the way by which programs get there.
// Where NVRTC is not installed the cases are skipped and counted.
//
// LATHE_FUSED_EVERY_DTYPE=1 compiles every op for every dtype, which takes 13 s.
#include <doctest/doctest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/core/error.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/fused/kernel_compiler.h"
#include "lathe/graph/fused/kernel_source.h"
#include "lathe/graph/fused/pointwise_gradient.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tests/cuda/on_device.h"
#include "nvrtc_case.h"
#include "run_text.h"

using namespace lathe;

namespace {

using Kind = jit::InputForm::Kind;

constexpr DType kDTypes[] = {kF32, kF16, kBF16, kF64};

std::span<const std::byte> bytes_of(const Tensor& t) {
  return {static_cast<const std::byte*>(t.raw_data()),
          static_cast<size_t>(t.numel()) * size_of(t.dtype())};
}

/// A plan, its kernel's text, and the results of the ops themselves on the device.
struct Case {
  std::string about, name;  // of the kernel
  jit::KernelSource source;
  Tensors inputs, results;  // on the host
};

/// What the kernel writes, from a module that holds it. `packets` as in its contract.
Tensors run_kernel(ptx::Module& module, const Case& c, int64_t packets) {
  ptx::test::Buffers buffers;
  const ptx::Function& kernel = module.kernel(c.name);
  ptx::Launch launch{.kernel = &kernel,
                     .memory = nullptr,
                     .grid = {2, 1, 1},
                     .block = {64, 1, 1},
                     .params = std::vector<std::byte>(kernel.param_bytes)};
  size_t next = 0;
  const auto pass = [&](const void* value, size_t bytes) {
    REQUIRE(bytes <= kernel.param_sizes.at(next));
    std::memcpy(&launch.params[kernel.param_offsets[next++]], value, bytes);
  };
  const auto pass_number = [&](int64_t value) { pass(&value, sizeof(value)); };
  const int64_t n = c.results.at(0).numel();
  pass_number(n);
  pass_number(packets);
  for (const int i : c.source.inputs) {
    const auto k = static_cast<size_t>(i);
    pass_number(static_cast<int64_t>(buffers.add(concat("x", i), bytes_of(c.inputs.at(k)))));
  }
  for (const auto& [input, dtype] : c.source.numbers) {
    const Tensor number = cast(c.inputs.at(static_cast<size_t>(input)), dtype);
    std::byte parameter[16] = {};  // no pointer, then the number
    std::memcpy(parameter + 8, number.raw_data(), size_of(dtype));
    pass(parameter, sizeof(parameter));
  }
  for (size_t i = 0; i < c.source.results.size(); ++i) {
    const Tensor y = zeros({n}, {.dtype = c.source.results[i]});
    pass_number(static_cast<int64_t>(buffers.add(concat("y", i), bytes_of(y))));
  }
  const ptx::test::WithConstants memory(buffers, module);
  launch.memory = &memory;
  ptx::Work work;
  ptx::run(launch, work);
  Tensors results;
  for (size_t i = 0; i < c.source.results.size(); ++i) {
    results.push_back(empty({n}, {.dtype = c.source.results[i]}));
    const std::vector<std::byte> made = buffers.read<std::byte>(concat("y", i));
    std::memcpy(results.back().raw_data(), made.data(), made.size());
  }
  return results;
}

/// The bytes, with one NaN for all NaNs of f64: which of two operands' NaNs an instruction gives is
/// open, and compilers exchange operands. Smaller types have one NaN only.
std::vector<std::byte> comparable(const Tensor& t) {
  const auto bytes = bytes_of(t);
  std::vector<std::byte> all(bytes.begin(), bytes.end());
  const double nan = std::nan("");
  for (int64_t i = 0; t.dtype() == kF64 && i < t.numel(); ++i) {
    if (std::isnan(t.data<double>()[i]))
      std::memcpy(&all[static_cast<size_t>(i) * sizeof(nan)], &nan, sizeof(nan));
  }
  return all;
}

void check_same(const Case& c, const Tensors& got, int64_t packets) {
  for (size_t r = 0; r < got.size(); ++r) {
    const bool same = comparable(c.results[r]) == comparable(got[r]);
    CHECK_MESSAGE(same, c.about, ", ", c.results[0].numel(), " elements, ", packets, " packets:\n",
                  c.source.text);
  }
}

/// Compiles all kernels as one text. Cases of one kernel have one text: it names no size.
void check_all(const std::vector<Case>& cases) {
  std::string text;
  std::map<std::string, std::string> texts;  // by name
  for (const Case& c : cases) {
    const auto [known, added] = texts.emplace(c.name, c.source.text);
    CHECK(known->second == c.source.text);
    if (added) text += c.source.text;
  }
  ptx::Module module(jit::compile_kernels(text, "compute_80"));
  for (const Case& c : cases) {
    const int64_t all = c.results[0].numel() / c.source.packet;
    for (const int64_t packets : {all, int64_t{0}})
      check_same(c, run_kernel(module, c, packets), packets);
  }
}

/// Values of which an op may have an opinion of its own.
std::vector<double> special_values(DType dtype) {
  const double least = dtype == kF16    ? 0x1p-24
                       : dtype == kBF16 ? 0x1p-133
                       : dtype == kF32  ? 0x1p-149
                                        : 0x1p-1074;
  return {std::nan(""), INFINITY, -INFINITY, 0.0,     -0.0,  least, -least,
          65520,        -1e-8,    1,         -700.25, 1e300, -2.5};
}

/// The first elements of x are special values. Those of y are, too, from the fourth on, so that
/// special values meet each other, and ordinary ones on either side.
Tensors example_inputs(int64_t n, DType dtype) {
  manual_seed(5);
  Tensor x = mul(sub(rand({n}, {.dtype = kF64}), 0.4), 3), y = rand({n}, {.dtype = kF64});
  const std::vector<double> special = special_values(dtype);
  for (size_t k = 0; k < special.size(); ++k) {
    const auto at = static_cast<int64_t>(k);
    if (at < n) x.data<double>()[at] = special[k];
    if (at + 3 < n) y.data<double>()[at + 3] = special[k];
  }
  return {cast(x, dtype), cast(y, dtype), gt(rand({n}), 0.5), full({}, 0.1, {.dtype = dtype})};
}

jit::InputForms forms_of(DType dtype) {
  return {
      {dtype, Kind::kFull}, {dtype, Kind::kFull}, {kBool, Kind::kFull}, {dtype, Kind::kZeroDim}};
}

/// Values for the attributes of an op; nothing if it has no kernel of its own with attributes.
std::vector<std::vector<jit::Attribute>> attributes_of(const jit::Op& op) {
  if (op.attributes.empty()) return {{}};
  if (op.name == "leaky_relu" || op.name == "elu") return {{0.1}};
  if (op.name == "clamp") return {{0.1, 0.5}, {-INFINITY, 0.5}};
  if (op.name == "gelu") return {{false}, {true}};
  if (op.name == "cast") return {{"f64"}, {"f32"}, {"f16"}, {"bf16"}, {"bool"}};
  return {};
}

/// The op of one, two or three operands, with each dtype that it may give.
std::vector<jit::PointwiseProgram> programs_of(const jit::Op& op,
                                               const std::vector<jit::Attribute>& attributes,
                                               int64_t n, DType dtype) {
  std::vector<jit::PointwiseProgram> programs;
  std::vector<DType> results = {dtype, kBool};
  if (op.name == "cast") results = {dtype_from_name(std::get<std::string>(attributes[0]))};
  for (const DType result : results) {
    for (const std::vector<int>& operands :
         {std::vector<int>{0}, {0, 1}, {0, 3}, {2, 0, 1}, {0, 2, 3}}) {
      if (!op.takes(operands.size())) continue;
      programs.push_back({.shape = {n}, .inputs = 4, .steps = {}, .results = {0}});
      programs.back().steps.push_back({&op, operands, attributes, result});
    }
  }
  return programs;
}

/// The results of a program's ops on the device.
Tensors by_ops(const jit::PointwiseProgram& program, const Tensors& inputs) {
  Tensors there, back;
  for (const Tensor& t : inputs) there.push_back(t.ndim() == 0 ? t : test::on_device(t));
  for (const Tensor& y : jit::call_in_turn(program, there, program.shape))
    back.push_back(test::on_host(y));
  return back;
}

}  // namespace

TEST_SUITE_BEGIN("kernels");

TEST_CASE("fused kernels: every op has the bits of its own kernel" * test::nvrtc_case()) {
  const bool every_dtype = std::getenv("LATHE_FUSED_EVERY_DTYPE") != nullptr;
  std::vector<Case> cases;
  size_t programs = 0;
  for (const DType dtype : kDTypes) {
    const int64_t n = 45;  // packets and elements behind them, of each dtype
    const Tensors inputs = example_inputs(n, dtype);
    size_t turn = 0;
    for (const jit::Op& op : jit::all_ops()) {
      if (!op.pointwise) continue;
      for (const std::vector<jit::Attribute>& attributes : attributes_of(op)) {
        for (jit::PointwiseProgram& program : programs_of(op, attributes, n, dtype)) {
          const auto plan = jit::PointwisePlan::of(program, forms_of(dtype));
          if (!plan) continue;  // it takes other operands, or has no kernel of its own
          ++programs;
          // Each op in one dtype, not in f64, which takes NVRTC longest.
          if (kDTypes[turn++ % (std::size(kDTypes) - 1)] != dtype && !every_dtype) continue;
          const std::string name = concat("fused_", cases.size());
          auto source = jit::kernel_source(*plan, name);
          REQUIRE(source);
          cases.push_back({concat(op.name, " of ", dtype), name, std::move(*source), inputs,
                           by_ops(program, inputs)});
        }
      }
    }
  }
  CHECK(programs > 250);
  CHECK(cases.size() >= programs / 4);
  check_all(cases);
}

TEST_CASE("fused kernels: numbers in the text have the bits of the op's own" * test::nvrtc_case()) {
  const auto op_named = [](const std::string& name) {
    return &*std::ranges::find(jit::all_ops(), name, &jit::Op::name);
  };
  std::vector<Case> cases;
  for (const DType dtype : kDTypes) {
    const int64_t n = 45;
    jit::PointwiseProgram program{.shape = {n}, .inputs = 4, .steps = {}, .results = {}};
    const auto add = [&](const char* op, std::vector<jit::Attribute> attributes) {
      program.results.push_back(static_cast<int>(program.steps.size()));
      program.steps.push_back({op_named(op), {0}, std::move(attributes), dtype});
    };
    for (const double a : {-0.0, 0.1, 1e-40, 0x1p63, 0x1p64, 1e30, -double(INFINITY), std::nan("")})
      add("clamp", {a, double{FLT_MAX}});
    for (const double a : {-0.0, 0.1, 0x1p64, 1e300, double(INFINITY), std::nan("")})
      add("leaky_relu", {a});
    // A parameter that is a number, and in halves another one.
    Tensors inputs = example_inputs(n, dtype);
    inputs[3] = full({}, 0.1);
    jit::InputForms forms = forms_of(dtype);
    forms[3].dtype = kF32;
    program.results.push_back(static_cast<int>(program.steps.size()));
    program.steps.push_back({op_named("mul"), {0, 3}, {}, dtype});
    const auto plan = jit::PointwisePlan::of(program, forms);
    REQUIRE(plan);
    const std::string name = concat("numbers_", dtype);
    auto source = jit::kernel_source(*plan, name);
    REQUIRE(source);
    cases.push_back(
        {concat("numbers of ", dtype), name, std::move(*source), inputs, by_ops(program, inputs)});
  }
  check_all(cases);
}

TEST_CASE("fused kernels: groups and their gradients, of any size" * test::nvrtc_case()) {
  std::vector<Case> cases;
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {1, 8, 71}) {
      // z = gelu(x * y + c), w = where(m, sigmoid(z), x) * c: results z and w.
      jit::PointwiseProgram program{.shape = {n}, .inputs = 4, .steps = {}, .results = {2, 5}};
      const auto add = [&](const char* name, std::vector<int> operands,
                           std::vector<jit::Attribute> attributes = {}) {
        const auto op = std::ranges::find_if(jit::all_ops(), [&](const jit::Op& each) {
          return each.name == name && each.attributes.size() == attributes.size();
        });
        program.steps.push_back({&*op, std::move(operands), std::move(attributes), dtype});
      };
      add("mul", {0, 1});
      add("add", {4, 3});
      add("gelu", {5}, {false});
      add("sigmoid", {6});
      add("where", {2, 7, 0});
      add("mul", {8, 3});
      for (size_t k = 0; k < program.steps.size(); ++k) {
        for (const int operand : program.steps[k].operands) {
          if (operand >= program.inputs)
            program.steps[static_cast<size_t>(operand - program.inputs)].last = static_cast<int>(k);
        }
      }
      const Tensors inputs = example_inputs(n, dtype);
      const auto plan = jit::PointwisePlan::of(program, forms_of(dtype));
      REQUIRE(plan);
      std::string name = concat("group_", dtype);
      auto source = jit::kernel_source(*plan, name);
      REQUIRE(source);
      cases.push_back(
          {concat("group of ", dtype), name, std::move(*source), inputs, by_ops(program, inputs)});

      const auto gradient = jit::gradient_of(program, {true, true, false, false}, forms_of(dtype),
                                             {{dtype, Kind::kFull}, {dtype, Kind::kFull}});
      REQUIRE(gradient != nullptr);
      name = concat("gradient_", dtype);
      source = jit::kernel_source(gradient->plan, name);
      REQUIRE(source);
      Tensors given = inputs, there;
      for (int r = 0; r < 2; ++r) given.push_back(cast(sub(rand({n}), 0.5), dtype));
      for (const Tensor& t : given) there.push_back(t.ndim() == 0 ? t : test::on_device(t));
      const Tensors x = {there[0].requires_grad_(), there[1].requires_grad_()};
      const Tensors values =
          jit::call_in_turn(program, {x[0], x[1], there[2], there[3]}, program.shape);
      const Tensors dx = lathe::grad(values, x, {.grad_outputs = {there[4], there[5]}});
      given.insert(given.end(), gradient->constants.begin(), gradient->constants.end());
      Tensors want(source->results.size());
      for (size_t i = 0; i < 2; ++i) {
        REQUIRE(gradient->from[i].value_or(0) < 0);
        want.at(static_cast<size_t>(-1 - *gradient->from[i])) = test::on_host(dx[i]);
      }
      cases.push_back({concat("gradient of ", dtype), name, std::move(*source), given, want});
    }
  }
  check_all(cases);
}

TEST_CASE("fused kernels: machine code for GPUs that NVRTC knows, PTX for others" *
          test::nvrtc_case()) {
  CHECK(jit::kernel_target(9, 0) == "sm_90");
  CHECK(jit::kernel_target(8, 5) == "compute_80");
  CHECK(jit::kernel_target(99, 0).starts_with("compute_"));
  CHECK_THROWS_WITH_AS(jit::kernel_target(3, 5),
                       doctest::Contains("compute capability 3.5 is older"), CudaError);
}

TEST_CASE("fused kernels: a GPU's machine code; what cannot be compiled names its line" *
          test::nvrtc_case()) {
  const std::string text =
      "#include \"lathe/graph/fused/fused_kernel.cuh\"\n"
      "extern \"C\" __global__ void k(float* y) { *y = lathe::math::Log{}(*y); }\n";
  CHECK(jit::compile_kernels(text, "sm_90")
            .starts_with("\x7f"
                         "ELF"));
  CHECK_THROWS_WITH_AS(jit::compile_kernels("__global__ void k() {\n  nothing();\n}\n", "sm_90"),
                       doctest::Contains("fused_kernel.cu(2): error: identifier \"nothing\""),
                       CudaError);
}

TEST_CASE("fused kernels: a file in the current folder is no header" * test::nvrtc_case()) {
  const test::TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  folder.write("beside_it.h", "");
  std::filesystem::current_path(folder.path());
  CHECK_THROWS_WITH_AS(jit::compile_kernels("#include \"beside_it.h\"\n", "compute_80"),
                       doctest::Contains("beside_it.h"), CudaError);
  std::filesystem::current_path(before);
}

TEST_SUITE_END();
