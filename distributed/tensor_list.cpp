// Lists of tensors between ranks, as headers of safetensors files.
#include "lathe/distributed/tensor_list.h"

#include <vector>

#include "lathe/core/format.h"
#include "lathe/distributed/control.h"
#include "lathe/distributed/replicate.h"

namespace lathe::distributed {

std::string tensor_list(const StateDict& tensors, const safetensors::Metadata& metadata) {
  std::vector<size_t> order;
  return safetensors::format_header(tensors, metadata, order);
}

safetensors::Header read_tensor_list(ProcessGroup& group, const char* what, int64_t rank,
                                     const std::string& text) {
  try {
    safetensors::Header list = safetensors::parse_header(text, {}, "its list");
    list.metadata.erase(std::string(safetensors::kChecksumKey));
    return list;
  } catch (const DataError& error) {
    fail_tensor_list(group, what, rank, error.message());
  }
}

void fail_tensor_list(ProcessGroup& group, const char* what, int64_t rank,
                      const std::string& fault) {
  wait_until_all_know(group);
  throw DistributedError(
      concat(what, " of ", name_of(rank, group.host(rank)), " cannot be received: ", fault),
      here(__FILE__, __LINE__), rank, group.host(rank));
}

}  // namespace lathe::distributed
