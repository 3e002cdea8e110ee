// ModuleTree: modules by their paths, with bounds on what a hostile file can ask for.
#include "lathe/graph/module_tree.h"

#include <algorithm>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"

namespace lathe::jit {

using safetensors::in_quotes;

namespace {

constexpr size_t kMostNameBytes = 1000;  // of a name; each module keeps the name up to it
constexpr int kMostLevels = 64;          // modules in modules
constexpr int kMostNames = 10000;        // in one module, which compares a new name with all others

}  // namespace

std::optional<nn::LoraLayer> Part::lora_layer() const {
  std::optional<nn::LoraLayer> out = layer;
  if (out) out->weight = weight;
  return out;
}

Tensor Part::replaced(const Tensor& x, const Tensor& y) {
  Tensor out;
  call([&] { out = run_forward_hooks(x, y); });
  // Later steps may view it as they would have viewed y.
  return y.is_contiguous() ? out.contiguous() : out;
}

bool Part::has_running_statistics() const {
  return holds_statistics || nn::Module::has_running_statistics();
}

bool Part::is_called() const { return tree_.knows_calls(); }

DType Part::dtype_for(DType asked, const Tensor& own) const { return tree_.dtype_for(asked, own); }

ModuleTree::ModuleTree(nn::Module& model, OwnTensor own, std::string file, bool knows_calls)
    : model_(model), own_(std::move(own)), file_(std::move(file)), knows_calls_(knows_calls) {}

Part& ModuleTree::part_at(std::string_view path) {
  LATHE_CHECK(DataError, path.size() <= kMostNameBytes, file_, ": the name of a module has ",
              path.size(), " bytes, more than ", kMostNameBytes);
  Part* at = nullptr;
  int levels = 0;
  for (size_t begin = 0; begin <= path.size();) {
    LATHE_CHECK(DataError, ++levels <= kMostLevels, file_, ": ", in_quotes(path),
                " lies in more than ", kMostLevels, " modules");
    const size_t end = std::min(path.find('.', begin), path.size());
    auto& child = parts_[std::string(path.substr(0, end))];
    if (child == nullptr) {
      nn::Module& parent = at == nullptr ? model_ : *at;
      count_name(at, path);
      child = std::make_unique<Part>(parent, std::string(path.substr(begin, end - begin)), *this);
    }
    at = child.get();
    begin = end + 1;
  }
  return *at;
}

void ModuleTree::count_name(Part* part, std::string_view path) {
  int& names = part == nullptr ? names_ : part->names;
  LATHE_CHECK(DataError, ++names <= kMostNames, file_, ": ", in_quotes(path),
              " lies in a module of more than ", kMostNames, " tensors and modules");
}

Part* ModuleTree::add(const std::string& name, const Tensor& tensor, bool is_buffer) {
  const std::string what = concat(file_, ": ", in_quotes(name));
  const size_t dot = name.rfind('.');
  const bool at_root = dot == std::string::npos;
  const std::string leaf = at_root ? name : name.substr(dot + 1);
  try {
    Part* const part = at_root ? nullptr : &part_at(std::string_view(name).substr(0, dot));
    count_name(part, name);
    if (part == nullptr) {
      own_(leaf, tensor, is_buffer);
    } else if (is_buffer) {
      part->buffer(leaf, tensor);
    } else {
      part->parameter(leaf, tensor);
    }
    return part;
  } catch (const ValueError& error) {
    LATHE_FAIL(DataError, what, " is no name that a module can have: ", error.message());
  } catch (const DTypeError& error) {
    LATHE_FAIL(DataError, what, ": ", error.message());
  }
}

}  // namespace lathe::jit
