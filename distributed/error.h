// DistributedError: what goes wrong between processes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lathe/core/error.h"

namespace lathe::distributed {

/// A rank ended, does not answer, or disagrees with the others; or the ranks could not be joined.
class LATHE_API DistributedError : public Error {
 public:
  using Error::Error;
  DistributedError(const std::string& message, SourcePlace place, int64_t rank, std::string host)
      : Error(message, place), rank_(rank), host_(std::move(host)) {}

  /// The rank that is the cause, and its host; -1 and "" if there is no single one.
  int64_t rank() const noexcept { return rank_; }
  const std::string& host() const noexcept { return host_; }

 private:
  int64_t rank_ = -1;
  std::string host_;
};

}  // namespace lathe::distributed
