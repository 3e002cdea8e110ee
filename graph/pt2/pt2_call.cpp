// The arguments and results of one call, and the look-up of operators.
#include "lathe/graph/pt2/pt2_call.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <unordered_map>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/graph/pt2/pt2_steps.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/inplace.h"

namespace lathe::jit::pt2 {

using safetensors::in_quotes;

namespace {

constexpr std::string_view kAten = "aten.";

/// Other names of operators.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"absolute", "abs"},
    {"negative", "neg"},
    {"multiply", "mul"},
    {"subtract", "sub"},
    {"divide", "div"},
    {"true_divide", "div"},
    {"clip", "clamp"},
    {"fix", "trunc"},
    {"arcsin", "asin"},
    {"arccos", "acos"},
    {"arctan", "atan"},
    {"arctan2", "atan2"},
    {"arcsinh", "asinh"},
    {"arccosh", "acosh"},
    {"arctanh", "atanh"},
    {"not_equal", "ne"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"moveaxis", "movedim"},
    {"ger", "outer"},
    {"special_expit", "sigmoid"},
    {"special_erf", "erf"},
    {"special_expm1", "expm1"},
    {"special_log1p", "log1p"},
    {"special_exp2", "exp2"},
    {"special_logsumexp", "logsumexp"},
    {"special_gammaln", "lgamma"},
    {"special_digamma", "digamma"},
    {"special_psi", "digamma"},
    {"special_polygamma", "polygamma"},
    {"cholesky", "linalg_cholesky"},
    {"det", "linalg_det"},
    {"inverse", "linalg_inv"},
    {"slogdet", "linalg_slogdet"},
    {"linalg_matrix_exp", "matrix_exp"},
};

/// "aten.NAME.OVERLOAD" with a NAME of the tables; `name` itself if it has no other.
std::string canonical(std::string_view name) {
  if (!name.starts_with(kAten)) return std::string(name);
  const size_t end = std::min(name.find('.', kAten.size()), name.size());
  std::string_view op = name.substr(kAten.size(), end - kAten.size());
  const bool in_place = op.ends_with('_') && !op.ends_with("__");
  if (in_place) op.remove_suffix(1);
  for (const auto& [other, known] : kSynonyms) {
    if (op == other) op = known;
  }
  return concat(kAten, op, in_place ? "_" : "", name.substr(end));
}

/// All rows by name, and the in-place forms of those that have none of their own.
class Table {
 public:
  Table() {
    for (const auto targets :
         {pointwise_targets(), shape_targets(), layer_targets(), product_targets(),
          reduction_targets(), loss_targets(), linalg_targets()}) {
      for (const Target& target : targets) rows_.emplace(target.name, &target);
    }
    for (const auto targets :
         {pointwise_targets(), shape_targets(), product_targets(), reduction_targets()}) {
      for (const Target& target : targets) add_in_place(target);
    }
  }

  const Target* find(std::string_view name) const {
    const auto found = rows_.find(name);
    return found == rows_.end() ? nullptr : found->second;
  }

 private:
  struct InPlace {
    std::string name;
    Target target;
  };

  void add_in_place(const Target& target) {
    if (target.kind != Kind::kPlain || !target.name.starts_with(kAten)) return;
    std::string name(target.name);
    name.insert(name.find('.', kAten.size()), "_");
    if (rows_.contains(name)) return;
    InPlace& made = in_place_.emplace_back(InPlace{std::move(name), {}});
    made.target = {made.name, target.run, Kind::kWrite};
    rows_.emplace(made.name, &made.target);
  }

  std::unordered_map<std::string_view, const Target*> rows_;
  std::deque<InPlace> in_place_;  // a deque, so that the names stay where they are
};

}  // namespace

const Target* find_target(std::string_view name) {
  static const Table table;
  constexpr std::string_view kPrefix = "torch.ops.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const Target* const found = table.find(name);
  return found != nullptr ? found : table.find(canonical(name));
}

void Call::refuse(const std::string& why) const {
  LATHE_FAIL(DataError, step_.target->name, " (node ", in_quotes(step_.node.name), "): ", why);
}

// --- arguments -----------------------------------------------------------------------------------

const Argument* Call::find(std::string_view name) const {
  const Argument* const found = find_argument(step_.node, name);
  const bool is_none = found != nullptr && std::holds_alternative<std::monostate>(*found);
  return is_none ? nullptr : found;
}

const Argument& Call::get(std::string_view name) const {
  const Argument* const found = find(name);
  if (found == nullptr) refuse(concat("argument ", in_quotes(name), " is missing"));
  return *found;
}

const Held& Call::held(Value value) const { return held_[static_cast<size_t>(value.number)]; }

bool Call::has(std::string_view name) const { return find(name) != nullptr; }

bool Call::is_tensor(std::string_view name) const {
  const Argument* const found = find(name);
  if (found == nullptr) return false;
  const auto* const value = std::get_if<Value>(found);
  return value != nullptr && std::holds_alternative<Tensor>(held(*value));
}

Tensor Call::maybe(std::string_view name) const {
  const Argument* const found = find(name);
  if (found == nullptr) return {};
  if (!is_tensor(name)) refuse(concat("argument ", in_quotes(name), " is no tensor"));
  return std::get<Tensor>(held(std::get<Value>(*found)));
}

Tensor Call::tensor(std::string_view name) const {
  Tensor out = maybe(name);
  if (!out.defined()) refuse(concat("argument ", in_quotes(name), " is missing"));
  return out;
}

Tensor Call::self() const {
  const Tensor t = tensor("self");
  const bool written_into = step_.target->kind == Kind::kWrite && !step_.may_replace;
  return written_into && grad_enabled() ? clone(t) : t;
}

bool Call::is_shared() const { return step_.is_shared; }

Tensor Call::viewed(const Tensor& self, const Tensor& view) const {
  if (step_.is_shared && self.numel() > 0 && !view.shares_storage(self)) {
    refuse(concat("is written into, and cannot be a view of ", self, " with strides ",
                  self.strides(), "; give the program row-major inputs"));
  }
  return view;
}

Tensors Call::tensors(std::string_view name) const {
  const auto* const values = std::get_if<std::vector<Value>>(&get(name));
  if (values == nullptr) return {tensor(name)};
  Tensors out;
  for (const Value value : *values) {
    if (value.number < 0) {
      out.emplace_back();
    } else if (const auto* const t = std::get_if<Tensor>(&held(value)); t != nullptr) {
      out.push_back(*t);
    } else {
      refuse(concat("argument ", in_quotes(name), " holds something that is no tensor"));
    }
  }
  return out;
}

int64_t Call::known(const Integer& integer, std::string_view name) const {
  if (integer.value.number < 0) return integer.known;
  const Held& value = held(integer.value);
  if (const auto* const number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* const truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  refuse(concat("argument ", in_quotes(name), " is no integer"));
}

int64_t Call::integer(std::string_view name, std::optional<int64_t> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  const Argument& argument = get(name);
  if (const auto* const number = std::get_if<Integer>(&argument)) return known(*number, name);
  refuse(concat("argument ", in_quotes(name), " is no integer"));
}

std::vector<int64_t> Call::integers(std::string_view name) const {
  const Argument& argument = get(name);
  if (std::holds_alternative<Integer>(argument)) return {integer(name)};
  const auto* const list = std::get_if<std::vector<Integer>>(&argument);
  // An empty list has no kind.
  const auto* const none = std::get_if<std::vector<Value>>(&argument);
  if (list == nullptr && (none == nullptr || !none->empty())) {
    refuse(concat("argument ", in_quotes(name), " is no list of integers"));
  }
  std::vector<int64_t> out;
  if (list == nullptr) return out;
  for (const Integer& number : *list) out.push_back(known(number, name));
  return out;
}

Dims Call::dims(std::string_view name) const { return integers(name); }

Dims Call::dims(std::string_view name, const Dims& otherwise) const {
  return has(name) ? dims(name) : otherwise;
}

Pair Call::pair(std::string_view name, std::optional<Pair> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  const std::vector<int64_t> values = integers(name);
  if (values.empty() && otherwise) return *otherwise;
  if (values.size() == 1) return values[0];
  if (values.size() != 2) {
    refuse(concat("argument ", in_quotes(name), " has ", values.size(), " numbers, not 2"));
  }
  return {values[0], values[1]};
}

Triple Call::triple(std::string_view name, std::optional<Triple> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  const std::vector<int64_t> values = integers(name);
  if (values.empty() && otherwise) return *otherwise;
  if (values.size() == 1) return values[0];
  if (values.size() != 3) {
    refuse(concat("argument ", in_quotes(name), " has ", values.size(), " numbers, not 3"));
  }
  return {values[0], values[1], values[2]};
}

Scalar Call::number(std::string_view name, std::optional<Scalar> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  const Argument& argument = get(name);
  if (const auto* const real = std::get_if<double>(&argument)) return *real;
  if (const auto* const truth = std::get_if<bool>(&argument)) return *truth;
  if (const auto* const number = std::get_if<Integer>(&argument)) {
    if (number->value.number < 0) return number->known;
    const Held& value = held(number->value);
    if (const auto* const real = std::get_if<double>(&value)) return *real;
    return known(*number, name);
  }
  refuse(concat("argument ", in_quotes(name), " is no number"));
}

Scalar Call::number_in(const Tensor& t, std::string_view name,
                       std::optional<Scalar> otherwise) const {
  const Scalar value = number(name, otherwise);
  const double real = value.to<double>();
  if (t.dtype() == kBool) return real != 0;
  const bool is_cut = !is_floating(t.dtype()) && value.is_floating() && std::fabs(real) < 0x1p63;
  return is_cut ? Scalar(static_cast<int64_t>(real)) : value;
}

double Call::real(std::string_view name, std::optional<double> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  return number(name).to<double>();
}

std::vector<double> Call::reals(std::string_view name) const {
  const auto* const list = std::get_if<std::vector<double>>(&get(name));
  if (list == nullptr) refuse(concat("argument ", in_quotes(name), " is no list of numbers"));
  return *list;
}

bool Call::boolean(std::string_view name, bool otherwise) const {
  const Argument* const found = find(name);
  if (found == nullptr) return otherwise;
  if (const auto* const truth = std::get_if<bool>(found)) return *truth;
  return integer(name) != 0;
}

bool Call::is_word(std::string_view name) const {
  const Argument* const found = find(name);
  return found != nullptr && std::holds_alternative<std::string>(*found);
}

std::string Call::word(std::string_view name, std::string_view otherwise) const {
  const Argument* const found = find(name);
  if (found == nullptr) return std::string(otherwise);
  if (!is_word(name)) refuse(concat("argument ", in_quotes(name), " is no text"));
  return std::get<std::string>(*found);
}

DType Call::dtype(std::string_view name, DType otherwise) const {
  const Argument* const found = find(name);
  if (found == nullptr) return otherwise;
  const auto* const dtype = std::get_if<DType>(found);
  if (dtype == nullptr) refuse(concat("argument ", in_quotes(name), " is no dtype"));
  return setting_.dtype(*dtype);
}

MemoryFormat Call::format(std::string_view name, const Tensor& like) const {
  const Argument* const found = find(name);
  const auto* const format = found == nullptr ? nullptr : std::get_if<Format>(found);
  const Format wanted = format == nullptr ? Format::kPreserve : *format;
  const bool was_last =
      like.ndim() == 4 && !like.is_contiguous() && like.is_contiguous(kChannelsLast);
  const bool last = wanted == Format::kChannelsLast || (wanted == Format::kPreserve && was_last);
  return last ? kChannelsLast : kContiguous;
}

// --- modes ---------------------------------------------------------------------------------------

bool Call::trains() const { return step_.module->is_training(); }

bool Call::trains(std::string_view flag) const {
  return trains() && (boolean(flag, false) || !setting_.exported_in_training);
}

bool Call::is_stochastic_depth() const {
  const std::string_view type = step_.node.module_type;
  return type.ends_with("DropPath") || type.ends_with("StochasticDepth");
}

bool Call::is_masked() const { return step_.is_masked; }

Tensor Call::num_batches() const {
  if (step_.num_batches < 0) return {};
  return std::get<Tensor>(held_[static_cast<size_t>(step_.num_batches)]);
}

// --- results -------------------------------------------------------------------------------------

void Call::result_at(size_t i, Held value) {
  if (i >= step_.node.outputs.size()) refuse("gives more results than the program takes");
  const Value output = step_.node.outputs[i];
  if (output.number >= 0) held_[static_cast<size_t>(output.number)] = std::move(value);
}

void Call::results(const Tensors& tensors) {
  if (tensors.size() != step_.node.outputs.size()) {
    refuse(concat("gives ", tensors.size(), " results, but the program takes ",
                  step_.node.outputs.size()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) result_at(i, tensors[i]);
}

void Call::result(const Tensor& t) {
  if (step_.target->kind != Kind::kWrite) return result_at(0, t);
  const Tensor self = tensor("self");
  if (step_.may_replace) {
    const Tensor out = t.to(self.dtype());
    return result_at(0, out.shape() == self.shape() ? out : out.expand(self.shape()).contiguous());
  }
  result_at(0, copy_(self, t));
}

}  // namespace lathe::jit::pt2
