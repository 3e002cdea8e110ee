// What memory is for. A scope says so for all that its thread allocates; memory_use.h counts it.
//
//   { const profile::MemoryTagScope data(profile::MemoryTag::kData); batch = read(); }
#pragma once

#include <cstdint>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe::profile {

enum class MemoryTag : uint8_t {
  kOther,        // temporaries, and what a program made itself
  kWeights,      // parameters and buffers of modules
  kGradients,    // of parameters; in a backward pass also those of activations
  kOptimizer,    // state and scratch memory of optimisers
  kActivations,  // results of recorded ops, and what these keep for the backward pass
  kWorkspace,    // scratch memory of cuDNN, cuBLAS and oneDNN
  kData,         // batches and samples of loaders
};
inline constexpr int kMemoryTags = 7;

/// "weights", "optimiser state", …
LATHE_API std::string_view name_of(MemoryTag tag) noexcept;

/// What this thread's memory is for now.
LATHE_API MemoryTag current_memory_tag() noexcept;
/// → the tag before
LATHE_API MemoryTag exchange_memory_tag(MemoryTag tag) noexcept;

/// In this scope the tensors that this thread makes have the tag. Scopes nest; the inner one
/// counts. Storage::set_tag() changes the tag of one that there is.
class LATHE_API MemoryTagScope {
 public:
  [[nodiscard]] explicit MemoryTagScope(MemoryTag tag) noexcept
      : before_(exchange_memory_tag(tag)) {}
  ~MemoryTagScope() { exchange_memory_tag(before_); }
  MemoryTagScope(const MemoryTagScope&) = delete;
  MemoryTagScope& operator=(const MemoryTagScope&) = delete;

 private:
  const MemoryTag before_;
};

}  // namespace lathe::profile
