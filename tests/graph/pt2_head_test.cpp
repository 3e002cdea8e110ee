// A program with a new last layer (ProgramOptions::classes). make_pt2_golden.py made the files.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <span>
#include <string>

#include "lathe/autograd/grad_mode.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/nn/fine_tuning.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/pt2_files.h"

using namespace lathe;
using data::testing::message_of;
using testing::pt2_argument;
using testing::pt2_file;
using testing::pt2_node;
using testing::pt2_program;
using testing::pt2_tensor;
using testing::pt2_type;

namespace {

std::string golden(const char* name) {
  return (std::filesystem::path(LATHE_GOLDEN_PT2) / name).string() + ".pt2";
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bool has(const std::string& message, std::string_view part) {
  const bool found = message.find(part) != message.npos;
  CHECK_MESSAGE(found, message);
  return found;
}

/// Copies the first rows of the old last layer into the new one.
void copy_first_rows(jit::Program& to, const jit::Program& from, const std::string& head) {
  const NoGrad off;
  const StateDict old = from.state_dict(), now = to.state_dict();
  for (const char* name : {".weight", ".bias"}) {
    const Tensor& row = now[head + name];
    row.copy_(narrow(old[head + name], 0, 0, row.dim(0)));
  }
}

}  // namespace

TEST_CASE("pt2: a new last layer has as many rows as there are classes, and all else stays") {
  struct {
    const char *name, *head;
    Shape x;
    int64_t classes;
  } const cases[] = {{"classifier", "fc", {5, 3, 16, 16}, 3},
                     {"classifier", "fc", {5, 3, 16, 16}, 10},  // others, but as many
                     {"classifier", "fc", {5, 3, 16, 16}, 23},
                     {"conv_head", "head", {5, 3, 9, 12}, 2},
                     {"conv_head", "head", {5, 3, 9, 12}, 12}};
  for (const auto& c : cases) {
    CAPTURE(c.name);
    CAPTURE(c.classes);
    jit::Program old = jit::load_program(golden(c.name));
    jit::Program fresh = jit::load_program(golden(c.name), {.classes = c.classes});
    const std::string head = c.head;
    CHECK(nn::head_of(old) == head);
    CHECK(fresh.head_parameters() == std::vector{head + ".weight", head + ".bias"});
    const StateDict before = old.state_dict(), now = fresh.state_dict();
    REQUIRE(before.size() == now.size());
    for (const auto& [name, tensor] : before) {
      CAPTURE(name);
      if (!name.starts_with(head + ".")) {
        CHECK(equal(tensor, now[name]));
        continue;
      }
      Shape shape = tensor.shape();
      shape[0] = c.classes;
      CHECK(now[name].shape() == shape);
      const auto fan_in = static_cast<double>(before[head + ".weight"][0].numel());
      CHECK(now[name].abs().max().item<double>() <= 1 / std::sqrt(fan_in));
      CHECK(now[name].abs().max().item<double>() > 0);
    }
    CHECK(fresh.output_types()[0].shape ==
          std::vector<std::optional<int64_t>>{std::nullopt, c.classes});

    // With rows of the old layer its scores are those of the old program. Of log_softmax only
    // differences are comparable.
    const Tensor x = randn(c.x);
    fresh.eval();
    old.eval();
    if (c.classes > old.output_types()[0].shape[1]) {
      CHECK(fresh(x).shape() == Shape{5, c.classes});
      continue;
    }
    copy_first_rows(fresh, old, head);
    const Tensor got = fresh(x), want = narrow(old(x), 1, 0, c.classes);
    CHECK(got.shape() == want.shape());
    CHECK(allclose(got - narrow(got, 1, 0, 1), want - narrow(want, 1, 0, 1),
                   {.rtol = 1e-5, .atol = 1e-5}));

    fresh.train();
    (fresh(x) * fresh(x)).sum().backward();
    for (const auto& [name, parameter] : fresh.named_parameters())
      CHECK_MESSAGE(parameter.grad().defined(), name);
  }
}

TEST_CASE("pt2: a new last layer is part of what a checkpoint and a file hold") {
  jit::Program fresh = jit::load_program(golden("classifier"), {.classes = 4});
  fresh.eval();
  const Tensor x = randn({2, 3, 16, 16}), want = fresh(x);
  const std::string held = fresh.architecture();
  jit::Program again = jit::load_program(bytes_of(held), "held", fresh.state_dict());
  again.eval();
  CHECK(equal(again(x), want));
  CHECK(again.architecture() == held);

  const data::testing::TempDir folder;
  jit::save_program(fresh, folder / "m.pt2");
  jit::Program read = jit::load_program(folder / "m.pt2");
  read.eval();
  CHECK(equal(read(x), want));
  CHECK(read.output_types()[0].shape[1] == 4);
}

TEST_CASE("pt2: where no last layer can be replaced, the message says why") {
  const auto linear =
      pt2_node("aten.linear.default", pt2_tensor("input", "x") + "," + pt2_tensor("weight", "p_w"),
               "linear");
  const auto refused = [&](const std::string& behind, const std::string& result,
                           const std::string& sizes, const std::string& before = "s0,2",
                           int64_t classes = 3) {
    const std::string types =
        concat(",\"linear\":", pt2_type(before), ",\"", result, "\":", pt2_type(sizes));
    const std::string file = pt2_file(
        pt2_program(behind.empty() ? linear : linear + "," + behind, result, "8", "", types));
    return message_of<DataError>(
        [&] { jit::load_program(bytes_of(file), "m.pt2", {.classes = classes}); });
  };
  const auto view = [](const std::string& target, const std::string& sizes) {
    return pt2_node(target,
                    pt2_tensor("self", "linear") + "," +
                        pt2_argument("size", concat(R"({"as_ints":[)", sizes, "]}")),
                    "y");
  };
  const auto with_x = [](const std::string& target) {
    return pt2_node(target, pt2_tensor("self", "linear") + "," + pt2_tensor("other", "x"), "y");
  };
  CHECK(refused(with_x("aten.add.Tensor"), "y", "s0,2") ==
        "m.pt2: the program cannot get a new last layer: behind the last layer "
        "\"torch.ops.aten.add.Tensor\" takes 2 tensors");
  CHECK(has(refused(with_x("aten.matmul.default"), "y", "s0,2"),
            "comes from \"torch.ops.aten.matmul.default\", not from a linear layer"));
  CHECK(has(refused(view("aten.view.default", "-1"), "y", "s0"),
            "\"torch.ops.aten.view.default\" has 0 sizes of 2"));
  CHECK(has(refused(view("aten.view.default", "-1,2,2"), "y", "s0,2,2"),
            "\"torch.ops.aten.view.default\" has 2 sizes of 2"));
  CHECK(
      has(refused(view("aten.view.default", "2,3"), "y", "2,3", "3,2"),
          "\"torch.ops.aten.view.default\" merges the dimension of the classes with another one"));
  CHECK(refused(view("aten.view.default", "3,2,1"), "y", "3,2,1", "3,2").empty());
  // [2,2] of a fixed batch: what moves dimensions could move either. Each keeps the shape.
  const auto moving = [&](const std::string& target, const std::string& arguments) {
    return refused(pt2_node(target, pt2_tensor("self", "linear") + "," + arguments, "y"), "y",
                   "2,2", "2,2");
  };
  const std::string dims =
      pt2_argument("dim0", R"({"as_int":0})") + "," + pt2_argument("dim1", R"({"as_int":1})");
  CHECK(has(moving("aten.transpose.int", dims),
            "what goes into \"torch.ops.aten.transpose.int\" has 2 sizes of 2"));
  const auto slice = [&](const char* dim, const char* end) {
    return moving("aten.slice.Tensor", pt2_argument("dim", concat(R"({"as_int":)", dim, "}")) +
                                           "," +
                                           pt2_argument("end", concat(R"({"as_int":)", end, "}")));
  };
  CHECK(has(slice("1", "2"), "\"torch.ops.aten.slice.Tensor\" takes a slice of the classes"));
  CHECK(has(slice("-1", "2"), "takes a slice of the classes"));
  CHECK(slice("1", "9223372036854775807").empty());
  CHECK(slice("0", "2").empty());
  const auto squeezed = pt2_node("aten.squeeze.default", pt2_tensor("self", "linear"), "y");
  CHECK(has(refused(squeezed, "y", "s0,2", "s0,2", 1), "may remove the dimension of the classes"));
  const std::string twice =
      pt2_node("aten.linear.default",
               pt2_tensor("input", "linear") + "," + pt2_tensor("weight", "p_w"), "y");
  CHECK(has(refused(twice, "y", "s0,2"), "\"w\" is used 2 times"));

  const auto of_golden = [](const char* name) {
    return message_of<DataError>([&] { jit::load_program(golden(name), {.classes = 3}); });
  };
  CHECK(has(of_golden("attention"), "it has 2 results"));
  CHECK(has(of_golden("tied"), "is used 2 times"));
  CHECK_THROWS_AS(jit::load_program(golden("classifier"), {.classes = 0}), ValueError);
}

TEST_CASE("pt2: frozen batch norms of a program keep their statistics") {
  jit::Program program = jit::load_program(golden("classifier"));
  const nn::Frozen frozen = nn::freeze(program, {"stem", "norm"});
  REQUIRE(frozen.norms.size() == 1);
  program.train();
  frozen.hold();
  const StateDict before = program.state_dict().clone();
  program(randn({4, 3, 16, 16}));
  const StateDict after = program.state_dict();
  const auto moved = [&](const std::string& name) { return !equal(before[name], after[name]); };
  CHECK(!moved("norm.running_mean"));
  CHECK(moved("block.1.running_mean"));
}
