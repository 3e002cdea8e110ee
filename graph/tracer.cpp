// Tracer: from a watched range to a node.
#include "lathe/graph/tracer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "lathe/autograd/autocast.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/printable.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/trace.h"
#include "lathe/ops/autocast.h"

namespace lathe::jit {

namespace {

bool is_random(std::string_view op) {
  constexpr std::string_view kRandom[] = {"dropout", "bernoulli", "uniform_", "normal_",
                                          "multinomial"};
  return std::find(std::begin(kRandom), std::end(kRandom), op) != std::end(kRandom);
}

std::string refusal_of_draws(std::string_view op) {
  return concat(op, " draws random numbers, which a graph does not hold");
}

/// Why an op that reads traced tensors cannot be part of a graph.
std::string refusal(std::string_view op) {
  if (is_random(op)) return refusal_of_draws(op);
  if (op.ends_with('_')) return concat(op, " writes into a tensor, which a graph does not hold");
  return concat("graphs do not hold the op ", op);
}

/// Input `i` of a call: a tensor of its range, or one of its options.
Tensor input_of(size_t i, const profile::WatchedOp& call, const Tensors& options) {
  return i < call.inputs.size() ? call.inputs[i] : options[i - call.inputs.size()];
}

/// True if this call of the op has a tensor to write into.
bool writes_any(const Op& op, const profile::WatchedOp& call, const Tensors& options) {
  return std::any_of(op.writes.begin(), op.writes.end(), [&](int at) {
    return input_of(static_cast<size_t>(at), call, options).defined();
  });
}

bool same_place(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.offset() == b.offset() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

/// A module's path as a comment of one line.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

}  // namespace

// Backward passes of all threads add up in another order while somebody looks at gradients. Only
// the trace of a program of its own may ask for that: a stand-in holds no backward pass, and one
// that is traced inside adds up by ops (create_graph).
Tracer::Tracer(Purpose purpose)
    : Watcher(purpose == Purpose::kProgram ? Gradients::kWatch : Gradients::kIgnore),
      purpose_(purpose),
      mode_({.grad = false, .would_record = &would_record_}) {}

void Tracer::add(std::string name, Origin origin, const Tensor& t) {
  LATHE_CHECK(ValueError, t.defined(), "trace: \"", name, "\" is an undefined tensor");
  LATHE_CHECK(TraceError, is_name(name), "trace: a graph's text cannot hold the name \"",
              printable(name), "\"; a name has letters, digits, _, ., - and /");
  const int number = add_value(std::move(name), origin, t);
  if (origin == Origin::kInput) {
    graph_.inputs.push_back(number);
  } else {
    graph_.values.back().tensor = t;
  }
}

int Tracer::add_value(std::string name, Origin origin, const Tensor& t) {
  const bool may_train = origin == Origin::kInput || origin == Origin::kParameter;
  const bool live = is_floating(t.dtype()) && (may_train || t.requires_grad());
  const int number = graph_.add({std::move(name), origin, type_of(t), {}});
  known_.push_back({t, t.version(), live});
  numbers_.insert_or_assign(t.handle().get(), number);
  in_storage_.emplace(t.impl().storage.get(), number);
  return number;
}

void Tracer::fail(const std::string& what) {
  const profile::CallPlace place = profile::call_place(profile::call_stack(), layer());
  std::string where = place.layer;
  if (!place.call.empty()) where += concat(where.empty() ? "" : ", ", place.call);
  failure_ = std::make_exception_ptr(
      TraceError(concat("trace: ", what, where.empty() ? "" : concat(" (at ", where, ")"))));
  call_.reset();
  std::rethrow_exception(failure_);
}

/// The number of a value that was seen, or -1.
int Tracer::known_number(const Tensor& t) const {
  if (const auto at = numbers_.find(t.handle().get()); at != numbers_.end()) return at->second;
  const auto [first, last] = in_storage_.equal_range(t.impl().storage.get());
  for (auto at = first; at != last; ++at) {
    if (same_place(known_[static_cast<size_t>(at->second)].tensor, t)) return at->second;
  }
  return -1;
}

/// True if t depends on an input or a named tensor.
bool Tracer::is_traced(const Tensor& t) const {
  if (!t.defined()) return false;
  const int number = known_number(t);
  if (number >= 0) {
    return graph_.values[static_cast<size_t>(number)].origin != Origin::kConstant;
  }
  return in_storage_.contains(t.impl().storage.get());
}

bool Tracer::reads_traced(const profile::WatchedOp& op) const {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&](const Tensor& t) { return is_traced(t); });
}

void Tracer::check_unwritten(int number) {
  const Known& known = known_[static_cast<size_t>(number)];
  if (known.tensor.version() == known.version) return;
  const Value& value = graph_.values[static_cast<size_t>(number)];
  const bool named = value.origin == Origin::kParameter || value.origin == Origin::kBuffer;
  fail(concat("the program writes into ", named ? value.name : "a tensor", " (", known.tensor,
              "); a graph cannot write in place, so a model must be in eval() mode"));
}

int Tracer::number_of(const Tensor& t) {
  if (!t.defined()) return -1;
  int number = known_number(t);
  if (number < 0) {
    if (in_storage_.contains(t.impl().storage.get())) {
      fail(concat("the trace did not see how a view of a traced tensor was made (", t, ")"));
    }
    if (taken_inside_.contains(t.impl().storage.get())) {
      fail(concat("the trace did not see how the result of an op was made (", t, ")"));
    }
    std::string name = fresh_name(graph_, concat("c", constants_++));
    number = add_value(std::move(name), Origin::kConstant, t);
    graph_.values.back().tensor = t;
  } else if (numbers_.emplace(t.handle().get(), number).second) {  // t is what detach() made
    aliases_.push_back(t);
    const Known& known = known_[static_cast<size_t>(number)];
    if (known.live || is_cut_off(known.tensor)) cut_off_.insert(t.handle().get());
    if (purpose_ == Purpose::kStandIn && t.requires_grad() && !known.live) {
      fail(concat("the program uses the detach() of a tensor before the tensor itself (", t, ")"));
    }
  }
  check_unwritten(number);
  return number;
}

/// The value that the op computes with, where t, a value with this number, is its input: where
/// Autocast is on, a cast of it. The op makes that cast itself, unseen.
int Tracer::number_of_cast(int number, const Tensor& t, const Op& op) {
  if (number < 0 || !op.amp) return number;
  const DType dtype = amp::target_dtype(*op.amp, t);
  if (dtype == t.dtype()) return number;
  const auto [at, is_new] = casts_.try_emplace({number, dtype}, -1);
  if (is_new) {
    static const Op* const cast = find_op("cast", std::vector<std::string>{"dtype"});
    Type type = graph_.values[static_cast<size_t>(number)].type;
    type.dtype = dtype;
    at->second = graph_.add({std::to_string(results_++), Origin::kNode, std::move(type), {}});
    known_.push_back({t, t.version(), known_[static_cast<size_t>(number)].live});
    graph_.nodes.push_back(
        {cast, {number}, {std::string(name_of(dtype))}, at->second, one_line(layer())});
  }
  return at->second;
}

bool Tracer::is_cut_off(const Tensor& t) const {
  return t.defined() && cut_off_.contains(t.handle().get());
}

/// Do gradients of y reach the node's inputs in the graph? Notes it if the program keeps them away.
bool Tracer::takes_gradients(const Node& node, const Tensors& inputs, const Tensor& y) {
  if (!is_floating(y.dtype())) return false;
  bool live = false, cut = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_cut_off(inputs[i])) {
      cut = true;
    } else if (node.inputs[i] >= 0) {
      live |= known_[static_cast<size_t>(node.inputs[i])].live;
    }
  }
  const bool off = autograd::current_mode().would_record != &would_record_;
  if (purpose_ == Purpose::kStandIn && live && cut && !off) {
    fail(concat(node.op->name,
                " takes a tensor that gradients reach and one that the program keeps them from "
                "(detach(), NoGrad), which a graph does not hold"));
  }
  if (cut || (live && off)) cut_off_.insert(y.handle().get());
  return live && !cut && !off;
}

void Tracer::begins() {
  if (failure_ || call_) return;
  // The backward pass of an op is made of ops of its own, which are traced.
  if (open_ops().back().kind == profile::Kind::kBackward) return;
  const std::string_view name = open_ops().back().name;
  if (purpose_ == Purpose::kStandIn && name == "checkpoint") {
    fail("checkpoint() calls its function again in the backward pass, which a graph does not");
  }
  if (find_ops(name).empty()) return;
  const Device gpu(DeviceType::kCUDA);
  if (purpose_ != Purpose::kProgram &&
      (amp::autocast_enabled(kCPU) || amp::autocast_enabled(gpu))) {
    fail(concat("Autocast is on, which casts inside of ", open_ops().back().name));
  }
  call_ = Call{open_ops().size()};
}

void Tracer::arguments(std::span<const profile::Argument> arguments) {
  if (failure_ || !call_ || open_ops().size() != call_->depth) return;
  call_->has_arguments = true;
  for (const Op& op : find_ops(open_ops().back().name)) {
    call_->attributes.clear();
    call_->option_tensors.clear();
    if (!op.read(arguments, call_->attributes, call_->option_tensors)) continue;
    if (!op.writes.empty() && !writes_any(op, open_ops().back(), call_->option_tensors)) continue;
    call_->op = &op;
    if (purpose_ == Purpose::kStandIn) begin_writes(op);
    return;
  }
}

/// Before the op runs: what it writes is unwritten until then.
void Tracer::begin_writes(const Op& op) {
  for (const int at : op.writes) {
    const Tensor t = input_of(static_cast<size_t>(at), open_ops().back(), call_->option_tensors);
    if (!t.defined()) continue;
    const int number = number_of(t);
    call_->written.push_back(number);
    const Value& value = graph_.values[static_cast<size_t>(number)];
    if (value.origin != Origin::kConstant) continue;
    fail(concat(op.name,
                " writes into a tensor that is neither an input nor a buffer of the module (",
                value.tensor, "); compile() was not given the module"));
  }
}

/// A stand-in makes the writes and draws that the function makes. Nothing else has any: it is run
/// by several threads, and read from files.
void Tracer::check_effects(const Node& node) {
  if (purpose_ == Purpose::kStandIn || !node.op->has_effects()) return;
  if (node.op->draws) fail(refusal_of_draws(node.op->name));
  fail(concat(node.op->name, " writes into a tensor, which a graph does not hold"));
}

void Tracer::output(const Tensor& y) {
  if (failure_) return;
  if (call_) {
    call_->result = y;
    return;
  }
  for (const profile::WatchedOp& op : open_ops()) {
    if (reads_traced(op)) fail(refusal(open_ops().back().name));
  }
}

void Tracer::ends() {
  if (failure_) return;
  if (!call_) {  // copy_() writes a tensor that need not be traced, and names no output
    const profile::WatchedOp& op = open_ops().back();
    if (std::string_view(op.name).ends_with('_') && reads_traced(op)) fail(refusal(op.name));
    return;
  }
  if (open_ops().size() != call_->depth) return;
  finish_call(open_ops().back());
  call_.reset();
}

void Tracer::finish_call(const profile::WatchedOp& op) {
  const Tensor y = std::exchange(call_->result, {});
  if (!y.defined()) return;  // the op threw, or returned its input
  if (call_->op == nullptr && !call_->has_arguments) {
    for (const Op& overload : find_ops(op.name)) {
      if (overload.read({}, call_->attributes, call_->option_tensors)) call_->op = &overload;
    }
  }
  if (call_->op == nullptr) fail(concat("graphs do not hold this form of the op ", op.name));

  Node node{.op = call_->op, .attributes = std::move(call_->attributes)};
  const size_t count =
      node.op->inputs < 0 ? op.inputs.size() : static_cast<size_t>(node.op->inputs);
  if (op.inputs.size() < count) fail(concat("graphs do not hold this form of the op ", op.name));
  Tensors inputs(op.inputs.begin(), op.inputs.begin() + static_cast<std::ptrdiff_t>(count));
  inputs.insert(inputs.end(), call_->option_tensors.begin(), call_->option_tensors.end());
  for (const int number : call_->written) {
    Known& known = known_[static_cast<size_t>(number)];
    known.version = known.tensor.version();
  }
  for (const Tensor& t : inputs) {
    node.inputs.push_back(number_of_cast(number_of(t), t, *node.op));
  }
  if (node.op->amp == amp::kHalf && amp::target_dtype(amp::kHalf, y) != y.dtype()) {
    fail(concat(node.op->name, " has the dtype of an input that Autocast does not cast (", y, ")"));
  }
  check_effects(node);
  if (known_number(y) >= 0 && numbers_.contains(y.handle().get())) return;  // returned as it is
  const bool live = takes_gradients(node, inputs, y);
  node.place = one_line(layer());
  node.output = add_value(std::to_string(results_++), Origin::kNode, y);
  known_.back().live = live;
  graph_.nodes.push_back(std::move(node));
}

void Tracer::memory(const Storage& storage, bool taken) {
  if (!taken) {
    taken_inside_.erase(&storage);
  } else if (call_) {
    taken_inside_.insert(&storage);
  }
}

void Tracer::read(const Tensor& t) {
  if (failure_ || call_) return;  // a check inside an op reads, too
  if (is_traced(t)) fail(concat("the program reads values on the host (", t, ")"));
}

/// Of a graph that stands in for a function.
void Tracer::check_result(const Tensor& t) {
  if (is_cut_off(t)) {
    fail(concat("a result is kept from gradients (detach(), NoGrad), which a graph does not hold (",
                t, ")"));
  }
  const auto [first, last] = in_storage_.equal_range(t.impl().storage.get());
  for (auto at = first; at != last; ++at) {
    if (graph_.values[static_cast<size_t>(at->second)].origin != Origin::kConstant) continue;
    fail(concat("a result is no result of a traced op (", t, "): all calls would share it"));
  }
}

Graph Tracer::finish(const Tensors& outputs) {
  if (failure_) std::rethrow_exception(failure_);
  for (const Tensor& t : outputs) {
    LATHE_CHECK(TraceError, t.defined(), "trace: the program returned an undefined tensor");
    graph_.outputs.push_back(number_of(t));
    if (purpose_ == Purpose::kStandIn) check_result(t);
  }
  for (size_t i = 0; i < known_.size(); ++i) check_unwritten(static_cast<int>(i));
  return std::move(graph_);
}

}  // namespace lathe::jit
