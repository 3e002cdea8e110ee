// What each rank tells all others before they connect over NCCL, and what follows from that.
#pragma once

#include <string>
#include <vector>

namespace lathe::distributed {

struct DeviceAnswer {
  std::string problem = {};  // why this rank cannot use NCCL; empty if it can
  std::string device = {};   // its name on this rank, "cuda:0"
  std::string gpu = {};      // the GPU itself: ranks of one host with the same text share it
  std::string id = {};       // of the communicator; rank 0's answer has it
};

/// For all_gather_text().
std::string line_of(const DeviceAnswer& answer);

struct DeviceVerdict {
  // Why the ranks cannot use GPUs at all: a wrong answer, or two ranks that share a GPU.
  std::string failure = {};
  // Otherwise: the problem of the first rank that has one. Tensors then travel through host memory.
  std::string problem = {};
  std::string id = {};  // of the communicator
};

/// Judges the answers of all ranks, by number. Every rank comes to the same verdict.
DeviceVerdict judge(const std::vector<std::string>& lines, const std::vector<std::string>& hosts);

}  // namespace lathe::distributed
