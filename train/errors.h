// The errors that end a training, besides those of what it calls.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lathe/core/error.h"

namespace lathe::train {

/// The run folder cannot be written, so there is nowhere to save to.
class LATHE_API SaveError : public FileError {
  using FileError::FileError;
};

/// A file of a run that is no checkpoint cannot be written: metrics, for example.
class LATHE_API RecordError : public FileError {
  using FileError::FileError;
};

/// A loss, or a value that DetectAnomaly looks at, is not finite, or all updates would be skipped.
/// The last state known to be good is saved.
class LATHE_API DivergedError : public Error {
 public:
  enum class Kind { kLoss, kOther };

  /// `cause` says what was not finite, in which step. `saved` names the file and the step of its
  /// weights: "; FILE holds the weights of step N". Both make the message.
  DivergedError(Kind kind, const std::string& cause, const std::string& saved)
      : Error(cause + saved), kind_(kind), cause_(cause), saved_(saved) {}

  Kind kind() const { return kind_; }
  const std::string& cause() const { return cause_; }
  const std::string& saved() const { return saved_; }

 private:
  Kind kind_;
  std::string cause_, saved_;
};

}  // namespace lathe::train
