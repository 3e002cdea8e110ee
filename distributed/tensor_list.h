// Which tensors a rank is about to send: their names, dtypes and shapes as a text for
// all_gather_text().
#pragma once

#include <cstdint>
#include <string>

#include "lathe/core/formats/safetensors_header.h"
#include "lathe/distributed/process_group.h"

namespace lathe::distributed {

/// The header of a safetensors file with these tensors.
/// throws: ValueError for a name or metadata that are not UTF-8.
std::string tensor_list(const StateDict& tensors, const safetensors::Metadata& metadata = {});

/// Reads the list of `rank`. All ranks must call it with the same text. `what` begins the message.
/// throws: on all ranks, DistributedError that names the rank, the entry and what is wrong with it.
/// The group can still be used then.
safetensors::Header read_tensor_list(ProcessGroup& group, const char* what, int64_t rank,
                                     const std::string& text);

/// Throws the error that read_tensor_list() throws, on all ranks.
[[noreturn]] void fail_tensor_list(ProcessGroup& group, const char* what, int64_t rank,
                                   const std::string& fault);

}  // namespace lathe::distributed
