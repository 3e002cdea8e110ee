// What is looked at: each result of an op that the program calls, of the ops inside it only to say
// which one began it, and each gradient of a node.
//
// Note [Bad values inside an op]
// A loss may compute log(0) and select another value for it afterwards. So a result inside an op is
// no anomaly by itself. If the op has no result of its own to look at, the last one inside it is
// taken for it; the op is over then, and the next one throws.
//
// Note [Ops in place]
// Their first input is overwritten before its values are looked at. So the outermost op looks at it
// when it begins. Inside an op this is no question: only what came into the outermost one counts.
#include "lathe/core/debug/detect_anomaly.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <string_view>

#include "lathe/core/hooks/watch.h"
#include "lathe/core/log.h"

namespace lathe::debug {

namespace {

using profile::Kind;

/// Ops whose infinities are those that the program gave them.
bool writes_given_values(std::string_view op) {
  constexpr std::string_view kGiven[] = {"full",         "full_like", "fill_", "masked_fill",
                                         "masked_fill_", "pad",       "where", "copy_",
                                         "index_put_",   "scatter"};
  return std::find(std::begin(kGiven), std::end(kGiven), op) != std::end(kGiven);
}

std::string bad_number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
  return concat(value);
}

std::optional<BadValue> look(const Tensor& t, bool infinity) {
  return t.defined() && can_be_read(t) ? first_bad_value(t, infinity) : std::nullopt;
}

std::string inside_text(const Anomaly& anomaly) {
  return anomaly.inside.empty() ? "" : concat(" (first in ", anomaly.inside, ", a part of it)");
}

[[noreturn]] void fail_with(const std::string& message, const Anomaly& anomaly) {
  AnomalyError error(message, anomaly);
  // A layer that only passes it on must not claim it.
  if (!anomaly.layer.empty()) error.set_origin(anomaly.layer);
  throw error;
}

[[noreturn]] void fail_forward(const Anomaly& anomaly, const std::string& inputs) {
  fail_with(concat("anomaly: ", anomaly.op, anomaly.came_in ? " passed on " : " made ",
                   bad_number_text(anomaly.bad.value), " at ", anomaly.bad.index, " of its result ",
                   anomaly.dtype, anomaly.shape, inside_text(anomaly),
                   anomaly.call.empty() ? "" : concat(", called at ", anomaly.call), inputs),
            anomaly);
}

[[noreturn]] void fail_backward(const Anomaly& anomaly, bool known) {
  fail_with(
      concat("anomaly: the backward of ", anomaly.op, anomaly.came_in ? " passed on " : " made ",
             bad_number_text(anomaly.bad.value), " at ", anomaly.bad.index,
             " of the gradient of its input ", anomaly.input, " ", anomaly.dtype, anomaly.shape,
             inside_text(anomaly),
             anomaly.came_in ? "; the gradient that came in held one already" : "",
             known ? concat("; its forward call is at ", anomaly.call)
                   : std::string("; its forward call was made outside of a DetectAnomaly scope")),
      anomaly);
}

}  // namespace

class DetectAnomaly::Watch final : public profile::Watcher {
 public:
  explicit Watch(const DetectAnomalyOptions& options) : options_(options) {}

  void begins() override {
    const auto ops = open_ops();
    if (ops.back().kind == Kind::kBackward) return forget();
    if (ops.size() != 1) return;
    held_ = {};
    const WatchedOp& op = ops.front();
    if (!writes_first_input(op) || !is_floating(op.inputs[0].dtype())) return;
    held_.bad = look(op.inputs[0], true);
    held_.nan = held_.bad && look(op.inputs[0], false);
  }

  void output(const Tensor& y) override {
    const auto ops = open_ops();
    if (!ops.empty() && ops.back().kind != Kind::kOp) return;
    if (!options_.backward && in_backward()) return;
    last_.reset();  // also by a bool, which is all that isclose() gives
    const auto bad = look(y, options_.infinity);
    if (!bad) return;
    const std::string op = ops.empty() ? "an op" : ops.back().name;
    std::string& first = first_inside_[std::isnan(bad->value) ? 1 : 0];
    if (first.empty()) first = op;
    if (in_backward()) return;  // gradient() judges
    Anomaly anomaly;
    anomaly.op = ops.empty() ? op : ops.front().name;
    anomaly.shape = y.shape();
    anomaly.dtype = y.dtype();
    anomaly.bad = *bad;
    last_ = anomaly;
    // Of an op that records: it throws at once.
    if (ops.size() <= 1) judge();
  }

  void outermost_ends() override {
    const WatchedOp& op = open_ops().front();
    // In a backward pass only gradients are judged.
    const bool judged = op.kind == Kind::kOp && std::string_view(op.name) != "backward pass";
    if (last_ && judged && std::uncaught_exceptions() == 0) judge();
    forget();
  }

  void gradient(const char* op, uint64_t number, size_t input, const Tensor& gradient,
                const Tensors& dy) override {
    if (!options_.backward) return;
    const auto bad = look(gradient, options_.infinity);
    if (!bad) return;
    Anomaly anomaly;
    anomaly.op = op;
    anomaly.backward = true;
    anomaly.shape = gradient.shape();
    anomaly.bad = *bad;
    const std::string& inside = first_inside_[std::isnan(bad->value) ? 1 : 0];
    anomaly.inside = inside == op ? "" : inside;
    anomaly.input = static_cast<int>(input);
    anomaly.dtype = gradient.dtype();
    const bool infinite = std::isinf(bad->value);
    anomaly.came_in =
        std::ranges::any_of(dy, [&](const Tensor& t) { return look(t, infinite).has_value(); });
    if (anomaly.came_in && infinite) return;
    const auto call = profile::call_of(number);
    if (call)
      static_cast<profile::CallPlace&>(anomaly) = profile::call_place(call->stack, call->layer);
    fail_backward(anomaly, call.has_value());
  }

 private:
  using WatchedOp = profile::WatchedOp;

  static bool in_backward() {
    return std::ranges::any_of(open_ops(),
                               [](const auto& op) { return op.kind == Kind::kBackward; });
  }

  static bool writes_first_input(const WatchedOp& op) {
    return std::string_view(op.name).ends_with('_') && !op.inputs.empty() && op.inputs[0].defined();
  }

  void forget() {
    last_.reset();
    first_inside_ = {};
  }

  /// Throws the anomaly of the last result, unless its value is one that came in or was asked for.
  void judge() {
    Anomaly anomaly = *last_;
    const auto ops = open_ops();
    const bool infinite = std::isinf(anomaly.bad.value);
    const std::string& inside = first_inside_[infinite ? 0 : 1];
    if (inside != anomaly.op) anomaly.inside = inside;
    std::string inputs;
    if (!ops.empty()) {
      if (infinite && writes_given_values(ops.front().name)) return forget();
      inputs = describe_inputs(ops.front(), anomaly);
      if (infinite && anomaly.came_in) return forget();
    }
    static_cast<profile::CallPlace&>(anomaly) = profile::call_place(profile::call_stack(), layer());
    forget();
    fail_forward(anomaly, inputs);
  }

  /// Notes in `anomaly` if a value came in.   → "; input 0 f32[4] is -1 there"
  std::string describe_inputs(const WatchedOp& op, Anomaly& anomaly) const {
    std::string text;
    const bool in_place = writes_first_input(op);
    if (in_place && held_.bad) {
      anomaly.came_in = std::isinf(anomaly.bad.value) || held_.nan;
      text = concat("; input 0 ", op.inputs[0], " held ", bad_number_text(held_.bad->value), " at ",
                    held_.bad->index, " before");
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor& x = op.inputs[i];
      if (!x.defined() || !is_floating(x.dtype())) continue;
      if (in_place && x.shares_storage(op.inputs[0])) continue;  // overwritten
      if (const auto bad = look(x, true)) {
        if (std::isinf(anomaly.bad.value) || look(x, false)) anomaly.came_in = true;
        text += concat("; input ", i, " ", x, " holds ", bad_number_text(bad->value), " at ",
                       bad->index, " already");
      } else if (x.shape() == anomaly.shape && can_be_read(x)) {
        text += concat("; input ", i, " ", x, " is ", value_at(x, anomaly.bad.index), " there");
      }
    }
    return text;
  }

  const DetectAnomalyOptions options_;
  std::optional<Anomaly> last_;  // of the last result inside the outermost op, if it is bad
  struct {
    std::optional<BadValue> bad;  // the first one
    bool nan = false;             // there is a NaN, too
  } held_;                        // by what the outermost op is about to overwrite
  // The first op inside the outermost one with an infinity, and that with a NaN, as a result.
  std::array<std::string, 2> first_inside_;
};

DetectAnomaly::DetectAnomaly(DetectAnomalyOptions options)
    : watch_(std::make_unique<Watch>(options)) {}

DetectAnomaly::~DetectAnomaly() {
  try {
    check();
  } catch (const std::exception& e) {
    log(LogLevel::kWarning, e.what());
  } catch (...) {  // not of the library
  }
}

void DetectAnomaly::check() { profile::raise_found(); }

}  // namespace lathe::debug
