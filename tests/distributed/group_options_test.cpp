// GroupOptions: the variables of launchers, and what is refused.
#include "lathe/distributed/group_options.h"

#include <doctest/doctest.h>

#include <map>

#include "lathe/core/error.h"
#include "lathe/core/format.h"

using namespace lathe;
using namespace lathe::distributed;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<GroupOptions> read(const Variables& variables) {
  return options_from_variables([&](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  });
}

std::string text_of(const GroupOptions& o) {
  return concat(o.rank, "/", o.world_size, " ", o.local_rank, "/", o.local_world_size, " ",
                o.rendezvous, " ", o.token);
}

}  // namespace

TEST_CASE("the variables of each launcher") {
  CHECK(!read({}));
  CHECK(!read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));  // a batch script is no rank
  Variables torchrun = {{"RANK", "5"},
                        {"WORLD_SIZE", "8"},
                        {"LOCAL_RANK", "1"},
                        {"LOCAL_WORLD_SIZE", "4"},
                        {"MASTER_ADDR", "node1"},
                        {"MASTER_PORT", "29400"},
                        {"TORCHELASTIC_RUN_ID", "job"}};
  CHECK(text_of(*read(torchrun)) == "5/8 1/4 tcp://node1:29400 job");
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(text_of(*read(torchrun)) == "5/8 1/4 tcp://node1:29401 job");
  torchrun["LATHE_RENDEZVOUS"] = "file:///shared/a";
  torchrun["LATHE_JOB_TOKEN"] = "secret";
  CHECK(text_of(*read(torchrun)) == "5/8 1/4 file:///shared/a secret");

  const Variables slurm = {{"SLURM_PROCID", "3"},
                           {"SLURM_STEP_NUM_TASKS", "8"},
                           {"SLURM_LOCALID", "3"},
                           {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                           {"SLURM_STEP_NODELIST", "gpu[07-08],cpu1"},
                           {"SLURM_JOB_ID", "77"},
                           {"SLURM_STEP_ID", "0"}};
  const GroupOptions in_slurm = *read(slurm);
  CHECK(text_of(in_slurm).starts_with("3/8 3/4 tcp://gpu07:2"));
  CHECK(in_slurm.token == "77.0");

  const Variables mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "prterun-a-1"}};
  CHECK(text_of(*read(mpi)).starts_with("1/2 1/2 tcp://127.0.0.1:2"));
}

TEST_CASE("a variable that is missing or wrong is named") {
  const auto wrong = [](Variables variables, const char* text) {
    CHECK_THROWS_WITH_AS(read(variables), doctest::Contains(text), ValueError);
  };
  wrong({{"RANK", "one"}, {"WORLD_SIZE", "2"}}, "RANK must be an integer, got \"one\"");
  wrong({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "the world size must be from 1 to 1000000, got 0");
  wrong({{"RANK", "0"}, {"WORLD_SIZE", "0"}, {"LOCAL_WORLD_SIZE", "2"}}, "1 to 1000000, got 0");
  wrong({{"RANK", "0"}, {"WORLD_SIZE", "2000000000"}}, "from 1 to 1000000, got 2000000000");
  wrong({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "the rank must be from 0 to 1, got 2");
  wrong({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, "MASTER_PORT is not set");
  wrong({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}, "set LATHE_RENDEZVOUS");
  wrong({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LATHE_DISTRIBUTED_TIMEOUT", "soon"}},
        "must be seconds, got \"soon\"");
  wrong({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LATHE_RENDEZVOUS", "node1:29500"}},
        "rendezvous must be tcp://");
}

TEST_CASE("one of RANK and WORLD_SIZE alone is refused, unless it says that there is one rank") {
  const auto text = [](const Variables& variables) {
    try {
      const auto found = read(variables);
      return std::string(found ? "ranks" : "none");
    } catch (const ValueError& error) {
      return error.message();
    }
  };
  CHECK(text({{"WORLD_SIZE", "2"}}) ==
        "process group: WORLD_SIZE is 2 but RANK is not set; to compute alone, unset WORLD_SIZE");
  CHECK(text({{"RANK", "1"}, {"MASTER_ADDR", "a"}}) ==
        "process group: RANK is 1 but WORLD_SIZE is not set; to compute alone, unset RANK");
  CHECK(text({{"WORLD_SIZE", "1"}}) == "none");
  CHECK(text({{"RANK", "0"}}) == "none");
  CHECK(text({{"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}) ==
        "ranks");
}
