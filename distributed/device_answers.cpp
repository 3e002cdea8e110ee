// Judging what ranks say of their GPUs.
#include "lathe/distributed/device_answers.h"

#include <algorithm>
#include <cstdint>

#include "lathe/core/format.h"
#include "lathe/core/json.h"
#include "lathe/distributed/control.h"

namespace lathe::distributed {

std::string line_of(const DeviceAnswer& answer) {
  return to_line(nlohmann::json{{"problem", answer.problem},
                                {"device", answer.device},
                                {"gpu", answer.gpu},
                                {"id", answer.id}});
}

DeviceVerdict judge(const std::vector<std::string>& lines, const std::vector<std::string>& hosts) {
  const auto name = [&](size_t rank) { return name_of(static_cast<int64_t>(rank), hosts[rank]); };
  std::string problem, collision, id;
  std::vector<std::string> gpus;
  for (size_t rank = 0; rank < lines.size(); ++rank) {
    const Message answer = read_message(lines[rank], Sender::kRankWithDevice);
    if (!answer.fault.empty()) return {.failure = concat(name(rank), " sent ", answer.fault)};
    const std::string own_problem = text_of(answer.content, "problem");
    if (!own_problem.empty() && problem.empty()) problem = concat(name(rank), ": ", own_problem);
    if (rank == 0) id = text_of(answer.content, "id");
    gpus.push_back(hosts[rank] + " " + text_of(answer.content, "gpu"));
    const auto same = static_cast<size_t>(std::ranges::find(gpus, gpus.back()) - gpus.begin());
    if (!own_problem.empty() || same == rank || !collision.empty()) continue;
    collision = concat(name(same), " and ", name(rank), " use the same GPU, ",
                       text_of(answer.content, "device"),
                       "; NCCL needs one for each rank: start as many ranks as there are GPUs");
  }
  return {.failure = problem.empty() ? collision : "", .problem = problem, .id = id};
}

}  // namespace lathe::distributed
