// GroupOptions: their checks, and the variables of launchers.
#include "lathe/distributed/group_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "lathe/core/error.h"
#include "lathe/core/format.h"

namespace lathe::distributed {

namespace {

using Variables = std::function<std::optional<std::string>(const std::string&)>;

// Ports that no launcher and no service of the system uses by itself.
constexpr int64_t kFirstPort = 20'000, kPorts = 10'000;

constexpr int64_t kMostRanks = 1'000'000;

int64_t integer(const std::string& name, const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  LATHE_CHECK(ValueError, error == std::errc() && at == end, "process group: ", name,
              " must be an integer, got \"", text, "\"");
  return value;
}

/// What one launcher sets.
struct Launcher {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};
constexpr Launcher kTorchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Launcher kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Launcher kSlurm = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                             "SLURM_STEP_TASKS_PER_NODE"};

class Reader {
 public:
  explicit Reader(const Variables& get) : get_(get) {}

  std::optional<GroupOptions> read() {
    for (const Launcher& launcher : {kTorchrun, kOpenMpi, kSlurm}) {
      if (!get_(launcher.rank) || !get_(launcher.world_size)) continue;
      read_ranks(launcher);
      check(out_);  // before a place to meet is looked for, which depends on them
      const std::string job = job_number();
      out_.token = get_("LATHE_JOB_TOKEN").value_or(job);
      out_.rendezvous = rendezvous(job);
      out_.address = get_("LATHE_DISTRIBUTED_ADDRESS").value_or("");
      out_.debug = get_("LATHE_DISTRIBUTED_DEBUG").value_or("0") == "1";
      if (const auto timeout = get_("LATHE_DISTRIBUTED_TIMEOUT")) {
        char* end = nullptr;
        out_.timeout_seconds = std::strtod(timeout->c_str(), &end);
        LATHE_CHECK(ValueError, *end == '\0' && !timeout->empty(),
                    "process group: LATHE_DISTRIBUTED_TIMEOUT must be seconds, got \"", *timeout,
                    "\"");
      }
      check(out_);
      return out_;
    }
    refuse_half_a_world();
    return std::nullopt;
  }

 private:
  /// Of RANK and WORLD_SIZE one is missing, and the other one says that there are more ranks.
  void refuse_half_a_world() {
    const auto check_other = [&](const char* set, const char* other, int64_t alone) {
      const auto text = get_(set);
      if (!text || get_(other)) return;
      LATHE_CHECK(ValueError, integer(set, *text) == alone, "process group: ", set, " is ", *text,
                  " but ", other, " is not set; to compute alone, unset ", set);
    };
    check_other(kTorchrun.world_size, kTorchrun.rank, 1);
    check_other(kTorchrun.rank, kTorchrun.world_size, 0);
  }

  void read_ranks(const Launcher& launcher) {
    out_.rank = required(launcher.rank);
    out_.world_size = required(launcher.world_size);
    // Slurm writes "4(x2),3" for nodes with 4, 4 and 3 tasks, and srun of one node "4".
    const std::string local =
        get_(launcher.local_world_size).value_or(std::to_string(out_.world_size));
    const bool is_list = local.find_first_not_of("0123456789") != std::string::npos;
    out_.local_world_size =
        is_list ? integer(launcher.local_world_size, local.substr(0, local.find_first_of("(,")))
                : integer(launcher.local_world_size, local);
    out_.local_rank = get_(launcher.local_rank) ? required(launcher.local_rank) : 0;
    if (is_list) out_.local_world_size = std::max(out_.local_world_size, out_.local_rank + 1);
  }

  int64_t required(const char* name) { return integer(name, *get_(name)); }

  std::string job_number() {
    if (const auto id = get_("TORCHELASTIC_RUN_ID")) return *id;
    if (const auto id = get_("PMIX_NAMESPACE")) return *id;
    if (const auto id = get_("SLURM_JOB_ID"))
      return *id + "." + get_("SLURM_STEP_ID").value_or("0");
    return "";
  }

  std::string rendezvous(const std::string& job) {
    if (const auto place = get_("LATHE_RENDEZVOUS")) return *place;
    const auto host = get_("MASTER_ADDR"), port = get_("MASTER_PORT");
    if (host) {
      LATHE_CHECK(ValueError, port, "process group: MASTER_ADDR is ", *host,
                  " but MASTER_PORT is not set");
      const bool is_taken = get_("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
      return concat("tcp://", *host, ":", integer("MASTER_PORT", *port) + (is_taken ? 1 : 0));
    }
    uint64_t hash = 1469598103934665603u;  // FNV-1a
    for (const char c : job) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
    const int64_t own_port = kFirstPort + static_cast<int64_t>(hash % kPorts);
    if (const auto nodes = get_("SLURM_STEP_NODELIST"); nodes && !get_("OMPI_COMM_WORLD_RANK"))
      return concat("tcp://", first_node(*nodes), ":", own_port);
    LATHE_CHECK(
        ValueError, out_.local_world_size == out_.world_size, "process group: ", out_.world_size,
        " ranks, ", out_.local_world_size,
        " of them here, need a place to meet: set LATHE_RENDEZVOUS to tcp://HOST:PORT, with "
        "the host of rank 0");
    return concat("tcp://127.0.0.1:", own_port);
  }

  /// "gpu[07-09,12],cpu3" → "gpu07".
  static std::string first_node(const std::string& nodes) {
    const size_t bracket = nodes.find('['), comma = nodes.find(',');
    if (bracket == std::string::npos || comma < bracket) return nodes.substr(0, comma);
    const size_t end = nodes.find_first_of(",-]", bracket);
    return nodes.substr(0, bracket) + nodes.substr(bracket + 1, end - bracket - 1);
  }

  const Variables& get_;
  GroupOptions out_;
};

}  // namespace

std::optional<GroupOptions> options_from_variables(const Variables& get) {
  return Reader(get).read();
}

std::optional<GroupOptions> options_from_environment() {
  return options_from_variables([](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  });
}

void check(const GroupOptions& o) {
  LATHE_CHECK(ValueError, o.world_size >= 1 && o.world_size <= kMostRanks,
              "process group: the world size must be from 1 to ", kMostRanks, ", got ",
              o.world_size);
  LATHE_CHECK(ValueError, o.rank >= 0 && o.rank < o.world_size,
              "process group: the rank must be from 0 to ", o.world_size - 1, ", got ", o.rank);
  LATHE_CHECK(ValueError, o.local_world_size >= 1 && o.local_world_size <= o.world_size,
              "process group: the local world size must be from 1 to ", o.world_size, ", got ",
              o.local_world_size);
  LATHE_CHECK(ValueError, o.local_rank >= 0 && o.local_rank < o.local_world_size,
              "process group: the local rank must be from 0 to ", o.local_world_size - 1, ", got ",
              o.local_rank);
  LATHE_CHECK(ValueError, o.timeout_seconds >= 0.1 && o.timeout_seconds <= 1e6,
              "process group: the timeout must be from 0.1 to 1000000 s, got ", o.timeout_seconds);
  LATHE_CHECK(ValueError,
              o.rendezvous.starts_with("tcp://") || o.rendezvous.starts_with("file:///"),
              "process group: rendezvous must be tcp://HOST:PORT or file:///PATH, got \"",
              o.rendezvous, "\"");
}

}  // namespace lathe::distributed
