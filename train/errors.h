// Errors of the trainer itself that end a training.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lathe/core/error.h"

namespace lathe::train {

/// Thrown if checkpoints cannot be saved, because the run folder cannot be written.
class LATHE_API SaveError : public FileError {
  using FileError::FileError;
};

/// Thrown if a file of the run folder other than a checkpoint cannot be written, for example
/// metrics.jsonl.
class LATHE_API RecordError : public FileError {
  using FileError::FileError;
};

/// Thrown if a loss, or a value that DetectAnomaly checks, is not finite, or if the loss scale
/// would fall below its floor. The trainer has then already saved the last state known to be good.
class LATHE_API DivergedError : public Error {
 public:
  enum class Kind { kLoss, kOther };

  /// The message is `cause` + `saved`. `cause` says what was not finite, and in which step. `saved`
  /// names the file and the step of its weights: "; FILE holds the weights of step N".
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
