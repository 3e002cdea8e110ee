// Two lists of checksums, and the first place where they differ.
#include "lathe/core/debug/determinism.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/debug/bad_value.h"
#include "lathe/core/files/crc32c.h"
#include "lathe/core/hooks/watch.h"

namespace lathe::debug {

namespace {

using profile::Kind;

struct Result {
  std::string op, inside;
  bool backward = false;
  int input = -1;
  Shape shape;
  DType dtype = DType::kF32;
  uint32_t sum = 0;  // of the bytes in row-major order
  std::string layer = {};
  std::vector<void*> stack = {};

  bool operator==(const Result& other) const {  // from whichever call
    return op == other.op && inside == other.inside && input == other.input &&
           shape == other.shape && dtype == other.dtype && sum == other.sum;
  }
};

uint32_t sum_of(const Tensor& t) {
  Tensor host = t;
  if (!t.device().is_cpu() || !t.is_contiguous()) {
    host = empty(t.shape(), {.dtype = t.dtype()});
    copy_values(host, t);
  }
  return crc32c(host.raw_data(), static_cast<size_t>(host.bytes()));
}

class Results final : public profile::Watcher {
 public:
  std::vector<Result> all;

  void output(const Tensor& y) override {
    const auto ops = open_ops();
    if (!ops.empty() && ops.back().kind != Kind::kOp) return;  // a view
    if (!can_be_read(y)) return;
    const auto closure =
        std::ranges::find_if(ops, [](const auto& op) { return op.kind == Kind::kBackward; });
    Result result = described(y);
    result.backward = closure != ops.end();
    result.op = ops.empty() ? "an op" : result.backward ? closure->name : ops.front().name;
    if (ops.size() > 1) result.inside = ops.back().name;
    all.push_back(std::move(result));
  }

  void gradient(const char* op, uint64_t number, size_t input, const Tensor& gradient,
                const Tensors&) override {
    if (!can_be_read(gradient)) return;
    Result result = described(gradient);
    result.op = op;
    result.backward = true;
    result.input = static_cast<int>(input);
    if (const auto call = profile::call_of(number)) {
      result.stack = call->stack;
      result.layer = call->layer;
    }
    // The ops of this closure are called there, too.
    for (size_t i = all.size(); i-- > 0 && all[i].backward && all[i].input < 0;) {
      all[i].stack = result.stack;
      all[i].layer = result.layer;
    }
    all.push_back(std::move(result));
  }

 private:
  static Result described(const Tensor& t) {
    Result result;
    result.shape = t.shape();
    result.dtype = t.dtype();
    result.sum = sum_of(t);
    result.layer = layer();
    result.stack = profile::call_stack();
    return result;
  }
};

std::vector<Result> results_of(const std::function<void()>& step) {
  Results results;
  step();
  profile::raise_found();
  return std::move(results.all);
}

std::string name_of(const Result& r) {
  return concat(r.op, r.backward ? " backward" : "", " ", r.dtype, r.shape);
}

}  // namespace

DeterminismReport check_determinism(const std::function<void()>& step) {
  const std::vector<Result> first = results_of(step), second = results_of(step);
  const auto [a, b] = std::ranges::mismatch(first, second);
  DeterminismReport report{.results = static_cast<int64_t>(std::max(first.size(), second.size()))};
  if (a == first.end() && b == second.end()) return report;
  const Result& at = b == second.end() ? *a : *b;
  Difference found;
  static_cast<profile::CallPlace&>(found) = profile::call_place(at.stack, at.layer);
  found.op = at.op;
  if (at.inside != at.op) found.inside = at.inside;
  found.backward = at.backward;
  found.input = at.input;
  found.place = a - first.begin();
  if (a == first.end() || b == second.end()) {
    found.was = "nothing";
  } else if (name_of(*a) != name_of(*b)) {
    found.was = name_of(*a);
  }
  found.shape = at.shape;
  found.dtype = at.dtype;
  report.difference = std::move(found);
  return report;
}

std::string DeterminismReport::text() const {
  if (!difference) return concat(results, " results of ops and gradients are equal in both runs");
  const Difference& d = *difference;
  return concat("the first result that differs between two runs is number ", d.place + 1, " of ",
                results, ": ", d.op, d.backward ? " backward" : "",
                d.inside.empty() ? "" : concat(", its part ", d.inside), " ", d.dtype, d.shape,
                d.layer.empty() ? "" : concat(" in ", d.layer),
                d.input < 0 ? "" : concat(", the gradient of input ", d.input),
                d.was.empty() ? "" : concat(" (the other run has ", d.was, " there)"),
                d.call.empty() ? "" : concat(", called at ", d.call));
}

}  // namespace lathe::debug
