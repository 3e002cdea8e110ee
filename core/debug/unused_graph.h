// UnusedGraph: finds ops that were recorded for a backward pass that never came. An evaluation
// without NoGrad records such ops.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/hooks/stack.h"

namespace lathe::debug {

/// A place of the program that records ops which no backward pass reaches. The field `layer` of its
/// base is empty.
struct UnusedPlace : profile::CallPlace {
  int64_t ops = 0;
  std::string first;  // the op that was recorded first
};

/// Finds ops that were recorded and that no backward pass ever reaches. While it is alive, it notes
/// the ops that its thread records and the ops that the thread's backward passes reach. It keeps
/// about 100 bytes for each op that no backward pass has reached.
class LATHE_API UnusedGraph {
 public:
  [[nodiscard]] UnusedGraph();
  /// Must run on the thread of the constructor.
  ~UnusedGraph();
  UnusedGraph(const UnusedGraph&) = delete;
  UnusedGraph& operator=(const UnusedGraph&) = delete;

  /// The places in the program whose recorded ops no backward pass has reached so far. The place
  /// with the most ops comes first. Call it when no further backward pass is to come.
  /// To find the place of an op, it goes through the lines of the program that called the op, from
  /// the innermost outwards. The place is the first line whose calls led only to ops that no
  /// backward pass reached. For an evaluation, the place is the line that calls the model. It is
  /// not a line inside the model, because training calls those lines too. If backward passes have
  /// reached no op at all, the place is the innermost line that the calls of all ops have in
  /// common. Only the 127 innermost frames of a call are examined.
  std::vector<UnusedPlace> places() const;
  /// A line for each place; "" if there is none.
  std::string text() const;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace lathe::debug
