// Tracer: watches the ops of one run of a program and writes them down; common_graph: what two runs
// have in common. Internal: use trace.h.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/graph/graph.h"
#include "lathe/nn/module.h"

namespace lathe::jit {

/// What a graph is for. kProgram: a program of its own, which has the results of the traced one.
/// kStandIn: it takes the place of the traced function for its callers. So a TraceError is also
/// what would give a tensor a gradient that the function keeps from it (detach(), NoGrad), and a
/// result that the function makes of no input, which all runs of the graph would share. kInside: as
/// kProgram, of what the runtime itself calls.
enum class Purpose : uint8_t { kProgram, kStandIn, kInside };

/// An op of op_table.h is one node; an op that is not there is not seen itself, but those that it
/// calls are. What Autocast casts inside of an op is a node of its own before it. A tensor is known
/// by its identity, or by its place in memory (after detach()); one that no traced op made is a
/// constant.
class Tracer final : public profile::Watcher {
 public:
  /// Nothing is recorded on this thread while it lives.
  explicit Tracer(Purpose purpose);

  /// Names a parameter or buffer, or an input.
  /// throws: TraceError for a name that the text cannot hold; ValueError for an undefined tensor.
  void add(std::string name, Origin origin, const Tensor& t);
  /// The graph that ends in these tensors.
  /// throws: TraceError, also for what was found earlier.
  Graph finish(const Tensors& outputs);

 private:
  struct Call {  // the described op that is open
    size_t depth;
    const Op* op = nullptr;
    std::vector<Attribute> attributes = {};
    Tensors option_tensors = {};
    std::vector<int> written = {};  // values that the op writes into
    bool has_arguments = false;     // it said what they are
    Tensor result = {};
  };
  struct Known {  // of the value with the same number
    Tensor tensor;
    uint32_t version;
    bool live;  // the function's gradients may reach it
  };

  void begins() override;
  void arguments(std::span<const profile::Argument> arguments) override;
  void output(const Tensor& y) override;
  void ends() override;
  void memory(const Storage& storage, bool taken) override;
  void read(const Tensor& t) override;

  [[noreturn]] void fail(const std::string& what);
  int add_value(std::string name, Origin origin, const Tensor& t);
  int number_of(const Tensor& t);
  int known_number(const Tensor& t) const;
  int number_of_cast(int number, const Tensor& t, const Op& op);
  bool is_traced(const Tensor& t) const;
  bool reads_traced(const profile::WatchedOp& op) const;
  void check_unwritten(int number);
  void begin_writes(const Op& op);
  void check_effects(const Node& node);
  void finish_call(const profile::WatchedOp& op);
  bool is_cut_off(const Tensor& t) const;
  bool takes_gradients(const Node& node, const Tensors& inputs, const Tensor& y);
  void check_result(const Tensor& t);

  const Purpose purpose_;
  bool would_record_ = false;  // its address tells the mode of the trace from one of the program's
  const autograd::ModeScope mode_;

  Graph graph_;
  std::vector<Known> known_;
  std::unordered_map<const TensorImpl*, int> numbers_;
  std::unordered_multimap<const Storage*, int> in_storage_;
  std::map<std::pair<int, DType>, int> casts_;       // value, dtype → the value of its cast
  Tensors aliases_;                                  // keeps the keys of numbers_ alive
  std::unordered_set<const TensorImpl*> cut_off_;    // no gradient passes; keys as in numbers_
  std::unordered_set<const Storage*> taken_inside_;  // by described ops
  std::optional<Call> call_;
  std::exception_ptr failure_;
  int constants_ = 0, results_ = 0;
};

/// Two runs of a program: with `first`, and with `second`, of other values. `rows` is the size of
/// the batch in each; where it is the same, the graph is for these shapes alone.
struct TwoRuns {
  Tensors first, second;
  int64_t first_rows = 0, second_rows = 0;
};

/// The graph that two runs of f have in common. Each run gets tensors of its own: what the program
/// writes into them reaches nobody else.
/// throws: as trace().
Graph common_graph(const std::function<Tensors(const Tensors&)>& f, const TwoRuns& runs,
                   const nn::Module* module, Purpose purpose);

/// Other values than x has, in memory of their own: x backwards; `larger`: for twice as many rows
/// and one.
Tensor varied(const Tensor& x, bool larger);

}  // namespace lathe::jit
