// replicate(): comparing what models hold, and sending rank 0's values.
#include "lathe/distributed/replicate.h"

#include <set>
#include <sstream>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/distributed/control.h"

namespace lathe::distributed {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void wait_until_all_know(ProcessGroup& group) {
  try {
    group.barrier().wait();
  } catch (const DistributedError&) {  // a rank has thrown already: so all were here
  }
}

void check_same(ProcessGroup& group, const char* what, const std::vector<std::string>& texts) {
  const std::vector<std::string> expected = lines_of(texts[0]);
  for (size_t i = 1; i < texts.size(); ++i) {
    if (texts[i] == texts[0]) continue;
    const std::vector<std::string> found = lines_of(texts[i]);
    size_t at = 0;
    while (at < found.size() && at < expected.size() && found[at] == expected[at]) ++at;
    const auto entry = [&](const auto& lines) { return at < lines.size() ? lines[at] : "no more"; };
    const auto rank = static_cast<int64_t>(i);
    wait_until_all_know(group);
    throw DistributedError(concat(what, " differ: ", name_of(rank, group.host(rank)), " has ",
                                  entry(found), " where rank 0 has ", entry(expected)),
                           here(__FILE__, __LINE__), rank, group.host(rank));
  }
}

void replicate(ProcessGroup& group, nn::Module& model) {
  const StateDict state = model.state_dict();
  std::set<std::string> frozen;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (!parameter.requires_grad()) frozen.insert(name);
  }
  std::string own;
  for (const auto& [name, tensor] : state)
    own += concat(name, " ", tensor.dtype(), tensor.shape(),
                  frozen.contains(name) ? " (frozen)" : "", "\n");
  check_same(group, "replicate: the models", group.all_gather_text(own));
  std::vector<Work> calls;
  const NoGrad off;
  for (const auto& [name, tensor] : state) calls.push_back(group.broadcast_(tensor));
  for (Work& call : calls) call.wait();
}

}  // namespace lathe::distributed
