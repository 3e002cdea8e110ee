// UnusedGraph: finds ops that were recorded for a backward pass that never came, as an evaluation
// without NoGrad records them.
//
//   const debug::UnusedGraph scope;
//   train(net, batch);
//   evaluate(net, test_set);
//   std::cout << scope.text();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/hooks/stack.h"

namespace lathe::debug {

/// Where a program records ops in vain. The layer is left empty.
struct UnusedPlace : profile::CallPlace {
  int64_t ops = 0;
  std::string first;  // the op that was recorded first
};

/// While it lives, each op that its thread records is noted, and each one that a backward pass of
/// that thread reaches. It keeps about 100 bytes for each op that none has reached.
class LATHE_API UnusedGraph {
 public:
  [[nodiscard]] UnusedGraph();
  /// On the same thread.
  ~UnusedGraph();
  UnusedGraph(const UnusedGraph&) = delete;
  UnusedGraph& operator=(const UnusedGraph&) = delete;

  /// Where ops were called that were recorded and that no backward pass has reached so far; the
  /// place with the most ops first. Ask when no backward pass is to come. A place is the innermost
  /// line from which no used op was called: of an evaluation the line that calls the model, and not
  /// a line of the model, which training calls too. If no recorded op was used, it is the innermost
  /// line that all of them have in common. Only the 127 innermost frames of a call are looked at.
  std::vector<UnusedPlace> places() const;
  /// A line for each place; "" if there is none.
  std::string text() const;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace lathe::debug
