// What ranks tell each other of tensors that they are about to send, and of their GPUs: a text that
// does not fit is refused by all, with the rank and what is wrong.
#include <doctest/doctest.h>

#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lathe/core/format.h"
#include "lathe/distributed/device_answers.h"
#include "lathe/distributed/replicate.h"
#include "lathe/distributed/tensor_list.h"
#include "lathe/distributed/zero_redundancy.h"
#include "lathe/ops/creation.h"
#include "lathe/optim/sgd.h"
#include "lathe/train/ranks.h"
#include "parts.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;

namespace {

void check_contains(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, text, ", expected: ", part);
}

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const DistributedError& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST_CASE("exchange: the checkpoint of rank 0 arrives, and a list that does not fit is refused") {
  const std::pair<std::string, std::string> wrong[] = {
      {"x", "its list: the header does not begin with '{'"},
      {R"({"w":{"dtype":"F32","shape":[1]}})", R"(entry "w" has no "data_offsets")"},
      {R"({"w":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", "dtype \"F31\" is not one"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", "do not hold the 4 bytes"},
      {R"({"__metadata__":{"a":1}})", "metadata \"a\": a number"}};
  const std::string result =
      test::Ranks(2, 60, [&](const GroupOptions& options) {
        ProcessGroup group(options);
        const train::Ranks ranks(&group);
        Checkpoint sent{.tensors = {}, .metadata = {{"key", "a text"}}};
        sent.tensors.add("half", full({2, 3}, 0.5, {.dtype = kF16}));
        sent.tensors.add("none", zeros({0, 4}, {.dtype = kI64}));
        sent.tensors.add("long", full({1}, 0.1, {.dtype = kF64}));
        std::string out;
        if (group.rank() == 0) {
          ranks.from_first(std::optional(sent));
          ranks.from_first(std::optional<Checkpoint>());
          for (const auto& [text, fault] : wrong) {
            group.all_gather_text(text);
            wait_until_all_know(group);
          }
        } else {
          const std::optional<Checkpoint> got = ranks.from_first(std::optional<Checkpoint>());
          if (!got || got->metadata != sent.metadata) return std::string("metadata");
          for (const auto& [name, t] : got->tensors)
            out += concat(name, " ", t.dtype(), t.shape(), " ", test::values_of({t}), "\n");
          if (ranks.from_first(std::optional<Checkpoint>())) return std::string("not none");
          for (int i = 0; i < std::ssize(wrong); ++i)
            out += message_of([&] { ranks.from_first(std::optional<Checkpoint>()); }) + "\n";
        }
        group.barrier().wait();
        return out;
      }).result(1);
  check_contains(result,
                 "half f16[2,3] 0.5 0.5 0.5 0.5 0.5 0.5 \nnone i64[0,4] \n"
                 "long f64[1] 0.10000000000000001 \n");
  check_contains(result, "train::Ranks: the checkpoint of rank 0 (");
  for (const auto& [text, fault] : wrong) check_contains(result, fault);
}

TEST_CASE("exchange: divided state whose list does not fit is refused") {
  const std::pair<std::string, std::string> wrong[] = {
      {R"({"state.0.momentum":{"dtype":"F64","shape":[2]}})", "has no \"data_offsets\""},
      {R"({"state.9.more":{"dtype":"F64","shape":[0],"data_offsets":[0,0]}})",
       "its entry \"state.9.more\" is not of its next parameter"}};
  for (const auto& [text, fault] : wrong) {
    const auto body = [&, &text = text](const GroupOptions& options) {
      ProcessGroup group(options);
      const Tensor p = ones({2}, {.device = test::device()}).requires_grad_();  // of rank 0
      optim::SGD sgd(Tensors{p}, {.lr = 0.1, .momentum = 0.9});
      const ZeroRedundancyOptimizer zero(group, sgd);
      if (group.rank() == 0) return message_of([&] { sgd.state_dict(); });
      group.all_gather_text(text);
      wait_until_all_know(group);
      return std::string();
    };
    const std::string message = test::Ranks(2, 60, body).result(0);
    check_contains(message, "ZeroRedundancyOptimizer: the state of rank 1 (");
    check_contains(message, fault);
  }
}

TEST_CASE("exchange: what ranks say of their GPUs") {
  const std::vector<std::string> hosts = {"a", "a", "b"};
  const auto answers = [](std::vector<DeviceAnswer> of_ranks) {
    std::vector<std::string> lines;
    for (const DeviceAnswer& answer : of_ranks) lines.push_back(line_of(answer));
    return lines;
  };
  // Ranks of two hosts may have the same GPU by name.
  const std::vector<DeviceAnswer> good = {{.device = "cuda:0", .gpu = "g0", .id = "ab"},
                                          {.device = "cuda:1", .gpu = "g1"},
                                          {.device = "cuda:0", .gpu = "g0"}};
  const DeviceVerdict can = judge(answers(good), hosts);
  CHECK(can.failure.empty());
  CHECK(can.problem.empty());
  CHECK(can.id == "ab");

  std::vector<DeviceAnswer> shared = good;
  shared[1].gpu = "g0";
  CHECK(judge(answers(shared), hosts).failure ==
        "rank 0 (a) and rank 1 (a) use the same GPU, cuda:1; NCCL needs one for each rank: start "
        "as many ranks as there are GPUs");
  shared[2].problem = "no NCCL";  // GPUs are not used then
  CHECK(judge(answers(shared), hosts).failure.empty());
  CHECK(judge(answers(shared), hosts).problem == "rank 2 (b): no NCCL");

  const std::string whole = line_of(good[1]);
  for (const char* member : {"problem", "device", "gpu", "id"}) {
    const std::string key = concat("\"", member, "\":");
    for (const auto& [from, to, fault] :
         {std::tuple(key, std::string("\"other\":"),
                     member == std::string("problem")
                         ? "an unknown message "
                         : concat("a message without \"", member, "\"")),
          std::tuple(key, key + "5," + key, concat("\"", member, "\" appears twice")),
          std::tuple(key + "\"", key + "[],\"other\":\"",
                     concat("a message whose \"", member, "\" is [] instead of a text"))}) {
      std::vector<std::string> lines = answers(shared);  // a wrong answer counts before a problem
      lines[1] = whole;
      lines[1].replace(whole.find(from), from.size(), to);
      check_contains(judge(lines, hosts).failure, "rank 1 (a) sent ");
      check_contains(judge(lines, hosts).failure, fault);
    }
  }
}
