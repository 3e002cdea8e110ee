// with_new_head(): from the result back to the last layer, then forward again with other sizes.
#include "lathe/graph/pt2/pt2_head.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/graph/pt2/pt2_json.h"

namespace lathe::jit::pt2 {

namespace {

using safetensors::in_quotes;

constexpr std::string_view kAten = "torch.ops.aten.";
constexpr std::string_view kLinear = "linear.default";
constexpr std::string_view kConvolutions[] = {"conv2d.default", "conv2d.padding"};
constexpr std::string_view kViews[] = {"view.default", "reshape.default", "_unsafe_view.default"};
/// What may stand between the last layer and the result. None of them looks at the number of
/// classes; views do, in their sizes.
constexpr std::string_view kPassed[] = {"adaptive_avg_pool2d.default",
                                        "add.Tensor",
                                        "alias.default",
                                        "avg_pool2d.default",
                                        "clone.default",
                                        "contiguous.default",
                                        "div.Tensor",
                                        "dropout.default",
                                        "dropout_.default",
                                        "flatten.using_ints",
                                        "log_softmax.int",
                                        "max_pool2d.default",
                                        "mean.dim",
                                        "mul.Tensor",
                                        "permute.default",
                                        "relu.default",
                                        "relu_.default",
                                        "reshape.default",
                                        "select.int",
                                        "sigmoid.default",
                                        "slice.Tensor",
                                        "softmax.int",
                                        "squeeze.default",
                                        "squeeze.dim",
                                        "squeeze.dims",
                                        "to.dtype",
                                        "transpose.int",
                                        "unsqueeze.default",
                                        "_to_copy.default",
                                        "_unsafe_view.default",
                                        "view.default"};

/// Those that move dimensions to other places, or remove some.
constexpr std::string_view kMoving[] = {
    "flatten.using_ints", "mean.dim",     "permute.default",   "reshape.default",
    "select.int",         "squeeze.dim",  "squeeze.dims",      "squeeze.default",
    "transpose.int",      "view.default", "unsqueeze.default", "_unsafe_view.default"};

template <size_t N>
bool is_aten_op_of(std::string_view target, const std::string_view (&names)[N]) {
  return target.starts_with(kAten) &&
         std::ranges::find(names, target.substr(kAten.size())) != std::end(names);
}

/// The same member of an object that may be changed.
Json& changeable(const Json& member_of_root) { return const_cast<Json&>(member_of_root); }

/// {"as_int": 10}, and not a symbol.
bool is_size(const Json& size, int64_t number) {
  const Json* const known = find(size, "as_int");
  return known != nullptr && *known == number;
}

/// How often an argument, or what is in it, names a value.
int uses_in(const Json& argument, const std::string& name) {
  int uses = 0;
  if (argument.is_object()) {
    const Json* const found = find(argument, "name");
    if (found != nullptr && *found == name) ++uses;
  }
  if (argument.is_structured()) {
    for (const Json& inner : argument) uses += uses_in(inner, name);
  }
  return uses;
}

class HeadEditor {
 public:
  HeadEditor(std::string_view json, int64_t classes, const std::string& file)
      : file_(concat(file, ": the program")), classes_(classes), root_(parse_json(json, file_)) {}

  /// The weight and the bias of the last layer; no bias: the weight alone.
  std::vector<std::string> parameters() {
    read();
    find_head();
    std::vector<std::string> names = {parameter_of(weight_)};
    if (!bias_.empty()) names.push_back(parameter_of(bias_));
    return names;
  }

  NewHead edit() {
    read();
    const std::vector<const Json*> behind = find_head();  // the last one first
    const Json& weight = type_of(weight_);
    old_ = size_at(weight, 0);
    if (old_ < 1) refuse("its weight is empty");
    resize(weight_, 0);
    if (!bias_.empty()) {
      if (size_at(type_of(bias_), 0) != old_) refuse("its bias is of another length");
      resize(bias_, 0);
    }
    const std::string result = result_of(*head_);
    const auto ndim = static_cast<int64_t>(array(type_of(result), "sizes", file_).size());
    int64_t dim = is_linear() ? ndim - 1 : 1;
    if (ndim < 2 ||
        !is_size(array(type_of(result), "sizes", file_)[static_cast<size_t>(dim)], old_))
      refuse("its result is not [N,classes,…]");
    Json sizes = array(type_of(result), "sizes", file_);
    resize(result, dim);
    for (auto node = behind.rbegin(); node != behind.rend(); ++node) {
      const std::string value = result_of(**node);
      const Json now = array(type_of(value), "sizes", file_);
      if (is_aten_op_of(target_of(**node), kMoving)) dim = moved(dim, sizes, now, **node);
      if (target_of(**node) == concat(kAten, "slice.Tensor")) check_slice(**node, dim);
      const auto at = static_cast<size_t>(dim);
      if (at >= now.size() || !is_size(now[at], old_)) {
        refuse(concat("the result of ", in_quotes(target_of(**node)), " has no size of ", old_,
                      " in dimension ", dim));
      }
      if (is_aten_op_of(target_of(**node), kViews)) change_view(**node, at);
      resize(value, dim);
      sizes = now;
    }
    return {root_.dump(), parameter_of(weight_), bias_.empty() ? "" : parameter_of(bias_)};
  }

 private:
  /// Sets signature_, types_ and nodes_.
  void read() {
    const Json& module = member(root_, "graph_module", file_);
    const Json& graph = member(module, "graph", file_);
    signature_ = &member(module, "signature", file_);
    types_ = &member(graph, "tensor_values", file_);
    nodes_ = &array(graph, "nodes", file_);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    LATHE_FAIL(DataError, file_, " cannot get a new last layer: ", why);
  }

  const std::string& target_of(const Json& node) const {
    return text(member(node, "target", file_), file_);
  }
  bool is_linear() const { return target_of(*head_).ends_with(kLinear); }

  const Json* argument_of(const Json& node, std::string_view name) const {
    for (const Json& input : array(node, "inputs", file_)) {
      if (text(member(input, "name", file_), file_) == name) return &member(input, "arg", file_);
    }
    return nullptr;
  }

  /// The value that an argument is; "" if it is none.
  std::string value_of(const Json* argument) const {
    const Json* const tensor = argument == nullptr ? nullptr : find(*argument, "as_tensor");
    return tensor == nullptr ? "" : text(member(*tensor, "name", file_), file_);
  }

  std::string result_of(const Json& node) const {
    const Json& outputs = array(node, "outputs", file_);
    const std::string value = outputs.size() == 1 ? value_of(&outputs[0]) : "";
    if (value.empty()) refuse(concat(in_quotes(target_of(node)), " gives several results"));
    return value;
  }

  const Json& type_of(const std::string& value) const {
    return member(*types_, value.c_str(), file_);
  }

  int64_t size_at(const Json& type, size_t dim) const {
    const Json& sizes = array(type, "sizes", file_);
    const Json* const size = dim < sizes.size() ? find(sizes[dim], "as_int") : nullptr;
    if (size == nullptr) refuse("its weight has no fixed size");
    return integer(*size, file_);
  }

  /// Sets head_, weight_ and bias_.   → what stands behind it, the last one first
  std::vector<const Json*> find_head() {
    const Json& specs = array(*signature_, "output_specs", file_);
    if (specs.size() != 1) refuse(concat("it has ", specs.size(), " results"));
    std::unordered_map<std::string, const Json*> makers;
    for (const Json& node : *nodes_) {
      for (const Json& output : array(node, "outputs", file_)) {
        const std::string value = value_of(&output);
        if (!value.empty()) makers.emplace(value, &node);
      }
    }
    std::vector<const Json*> behind;
    const Json& spec = *alternative(specs[0], file_).second;
    for (std::string value = value_of(&member(spec, "arg", file_));;) {
      const auto maker = makers.find(value);
      if (maker == makers.end()) refuse("no layer makes its result");
      const Json& node = *maker->second;
      const std::string& target = target_of(node);
      if (target == concat(kAten, kLinear) || is_aten_op_of(target, kConvolutions)) {
        head_ = &node;
        break;
      }
      if (!is_aten_op_of(target, kPassed)) {
        refuse(concat("its result comes from ", in_quotes(target),
                      ", not from a linear layer or convolution"));
      }
      std::vector<std::string> tensors;
      for (const Json& input : array(node, "inputs", file_)) {
        const std::string name = value_of(&member(input, "arg", file_));
        if (!name.empty()) tensors.push_back(name);
      }
      if (tensors.size() != 1) {
        refuse(concat("behind the last layer ", in_quotes(target), " takes ", tensors.size(),
                      " tensors"));
      }
      behind.push_back(&node);
      value = tensors[0];
    }
    weight_ = value_of(argument_of(*head_, "weight"));
    bias_ = value_of(argument_of(*head_, "bias"));
    const Json* const groups = argument_of(*head_, "groups");
    if (groups != nullptr && !is_size(*groups, 1)) refuse("the last convolution has groups");
    for (const std::string& value : {weight_, bias_}) {
      if (!value.empty()) check_own(value);
    }
    return behind;
  }

  /// Whether a value is a parameter of this layer alone.
  void check_own(const std::string& value) const {
    const std::string name = parameter_of(value);
    int uses = 0;
    for (const Json& node : *nodes_) {
      for (const Json& input : array(node, "inputs", file_))
        uses += uses_in(member(input, "arg", file_), value);
    }
    if (uses != 1) refuse(concat(in_quotes(name), " is used ", uses, " times"));
  }

  std::string parameter_of(const std::string& value) const {
    for (const Json& spec : array(*signature_, "input_specs", file_)) {
      const Json* const parameter = find(spec, "parameter");
      if (parameter == nullptr) continue;
      if (text(member(member(*parameter, "arg", file_), "name", file_), file_) == value)
        return text(member(*parameter, "parameter_name", file_), file_);
    }
    refuse("the weight of the last layer is no parameter, but computed");
  }

  /// The dimension of the classes behind a node that may move it.
  int64_t moved(int64_t dim, const Json& before, const Json& now, const Json& node) const {
    const bool is_view = is_aten_op_of(target_of(node), kViews);
    if (is_view && now == before) return dim;
    if (classes_ == 1 && target_of(node).find("squeeze.") != std::string::npos) {
      refuse(concat("with one class, ", in_quotes(target_of(node)),
                    " may remove the dimension of the classes"));
    }
    const int64_t from = only_dim(before, "what goes into ", node);
    const int64_t to = only_dim(now, "the result of ", node);
    if (is_view && !keeps_apart(before, from, now, to)) {
      refuse(concat(in_quotes(target_of(node)),
                    " merges the dimension of the classes with another one"));
    }
    return to;
  }

  /// Whether a view that takes dimension `from` to `to` keeps what lies before or behind it.
  static bool keeps_apart(const Json& before, int64_t from, const Json& now, int64_t to) {
    const auto sizes = [](const Json& all, int64_t first, int64_t end) {
      std::vector<std::string> texts;
      for (; first < end; ++first) {
        const Json& size = all[static_cast<size_t>(first)];
        if (!is_size(size, 1)) texts.push_back(size.dump());
      }
      return texts;
    };
    const auto ndim = [](const Json& all) { return static_cast<int64_t>(all.size()); };
    return sizes(before, 0, from) == sizes(now, 0, to) ||
           sizes(before, from + 1, ndim(before)) == sizes(now, to + 1, ndim(now));
  }

  /// Refuses a slice that takes some of the classes, up to a number that fits the old ones.
  void check_slice(const Json& node, int64_t dim) const {
    const auto number = [&](const char* name, int64_t otherwise) {
      const Json* const argument = argument_of(node, name);
      if (argument == nullptr || find(*argument, "as_none") != nullptr) return otherwise;
      const Json* const known = find(*argument, "as_int");
      return known == nullptr ? -1 : integer(*known, file_);
    };
    const auto ndim = static_cast<int64_t>(array(type_of(result_of(node)), "sizes", file_).size());
    const int64_t along = number("dim", 0);
    const bool is_whole = number("start", 0) == 0 && number("end", INT64_MAX) == INT64_MAX;
    if ((along < 0 ? along + ndim : along) == dim && !is_whole) {
      refuse(concat(in_quotes(target_of(node)), " takes a slice of the classes"));
    }
  }

  /// The only dimension that has the size of the classes.
  int64_t only_dim(const Json& sizes, const char* what, const Json& node) const {
    std::vector<int64_t> found;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (is_size(sizes[d], old_)) found.push_back(static_cast<int64_t>(d));
    }
    if (found.size() != 1) {
      refuse(concat(what, in_quotes(target_of(node)), " has ", found.size(), " sizes of ", old_,
                    ", as many as there are classes"));
    }
    return found[0];
  }

  void resize(const std::string& value, int64_t dim) {
    Json& type = changeable(type_of(value));
    changeable(array(type, "sizes", file_))[static_cast<size_t>(dim)] = {{"as_int", classes_}};
    const Json* const strides = find(type, "strides");
    if (strides == nullptr || !strides->is_array() || strides->size() <= static_cast<size_t>(dim))
      return;
    const Json* const own = find((*strides)[static_cast<size_t>(dim)], "as_int");
    if (own == nullptr || !own->is_number_integer()) return;
    const int64_t step = own->get<int64_t>();
    for (Json& stride : changeable(*strides)) {  // those over all classes
      const Json* const known = find(stride, "as_int");
      if (known == nullptr || !known->is_number_integer()) continue;
      const int64_t number = known->get<int64_t>();
      const bool fits = number / old_ <= INT64_MAX / classes_;
      if (number > step && number % old_ == 0 && fits)
        stride = {{"as_int", number / old_ * classes_}};
    }
  }

  /// The number of classes among the sizes of a view.
  void change_view(const Json& node, size_t dim) {
    const bool is_reshape = target_of(node).ends_with("reshape.default");
    const Json* const argument = argument_of(node, is_reshape ? "shape" : "size");
    if (argument == nullptr) return;
    const Json* const numbers = find(*argument, "as_ints");
    const Json* const list = numbers != nullptr ? numbers : find(*argument, "as_sym_ints");
    if (list == nullptr || !list->is_array() || dim >= list->size()) return;
    Json& size = changeable((*list)[dim]);
    if (numbers != nullptr && size == old_) size = classes_;
    if (numbers == nullptr && is_size(size, old_)) size = {{"as_int", classes_}};
  }

  std::string file_;
  int64_t classes_, old_ = 0;
  Json root_;
  const Json *signature_ = nullptr, *types_ = nullptr, *nodes_ = nullptr, *head_ = nullptr;
  std::string weight_, bias_;  // values
};

}  // namespace

NewHead with_new_head(std::string_view json, int64_t classes, const std::string& file) {
  return HeadEditor(json, classes, file).edit();
}

std::vector<std::string> head_parameters(std::string_view json, const std::string& file) try {
  return HeadEditor(json, 1, file).parameters();
} catch (const DataError&) {
  return {};
}

}  // namespace lathe::jit::pt2
