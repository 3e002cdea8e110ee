// Writes the text of fused kernels. Contract: kernel_source.h.
#include "lathe/graph/fused/kernel_source.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lathe/core/format.h"

namespace lathe::jit {

namespace {

/// Null for integers.
const char* kernel_type(DType dtype) {
  switch (dtype) {
    case DType::kF16: return "Half";
    case DType::kBF16: return "BFloat16";
    case DType::kF32: return "float";
    case DType::kF64: return "double";
    case DType::kBool: return "bool";
    default: return nullptr;
  }
}

/// A value in the type that ops compute in.
std::string in_compute_type(const std::string& value, DType dtype) {
  return is_half(dtype) ? "float(" + value + ")" : value;
}

class KernelWriter {
 public:
  KernelWriter(const PointwisePlan& plan, const std::string& name) : plan_(plan), name_(name) {}

  std::optional<KernelSource> written() {
    if (plan_.has_total()) return std::nullopt;
    for (const auto& [input, dtype] : plan_.numbers()) made_.numbers.push_back({input, dtype});
    made_.results = plan_.made();
    std::string once, each;
    if (!write(plan_.once(), "  ", once) || !write(plan_.calls(), "    ", each))
      return std::nullopt;
    if (made_.inputs.empty()) return std::nullopt;
    made_.packet = 16 / static_cast<int>(widest_);
    made_.text = kernel(once, each);
    return std::move(made_);
  }

 private:
  using Place = PointwisePlan::Place;
  using Call = PointwisePlan::Call;

  /// One line for each call; false if one has a dtype that kernels do not know.
  bool write(const std::vector<Call>& calls, const std::string& indent, std::string& text) {
    for (const Call& call : calls) {
      const Place& result = call.places[0];
      std::vector<std::string> operands;
      for (int k = 0; k < call.operands; ++k) {
        const Place& place = call.places[static_cast<size_t>(k)];
        if (kernel_type(place.dtype) == nullptr) return false;
        if (k > 0) operands.push_back(read(place));
      }
      const std::string value = concat("v", values_++);
      text += concat(indent, "const ", kernel_type(result.dtype), " ", value, " = ",
                     expression(call, operands), ";\n");
      names_[{result.kind, result.index}] = value;
      if (result.kind == Place::Kind::kResult) {
        text += concat(indent, "q", result.index, ".v[k] = ", value, ";\n");
        widest_ = std::max(widest_, size_of(result.dtype));
      }
    }
    return true;
  }

  std::string read(const Place& place) {
    if (place.kind == Place::Kind::kNumber) return concat("c", place.index);
    if (place.kind != Place::Kind::kInput) return names_.at({place.kind, place.index});
    if (std::ranges::find(made_.inputs, place.index) == made_.inputs.end()) {
      made_.inputs.push_back(place.index);
      input_types_.push_back(place.dtype);
      widest_ = std::max(widest_, size_of(place.dtype));
    }
    return concat("p", place.index, ".v[k]");
  }

  static std::string expression(const Call& call, const std::vector<std::string>& operands) {
    const DType to = call.places[0].dtype, from = call.places[1].dtype;
    if (call.operands == 4) return concat(operands[0], " ? ", operands[1], " : ", operands[2]);
    if (call.code.empty()) {  // a cast
      const std::string x = in_compute_type(operands[0], from);
      if (to == from) return operands[0];
      if (to == kBool) return x + " != 0";
      if (to == kF32 && is_half(from)) return x;
      return is_half(to) ? concat(kernel_type(to), "(float(", operands[0], "))")
                         : concat(kernel_type(to), "(", x, ")");
    }
    std::string text = call.code + "(";
    for (size_t k = 0; k < operands.size(); ++k)
      text += (k > 0 ? ", " : "") + in_compute_type(operands[k], call.places[k + 1].dtype);
    text += ")";
    return is_half(to) ? concat(kernel_type(to), "(", text, ")") : text;
  }

  std::string kernel(const std::string& once, const std::string& each) const {
    std::string head =
                    concat("extern \"C\" __global__ void ", name_, "(int64_t n, int64_t packets"),
                before, loads, stores;
    for (size_t i = 0; i < made_.inputs.size(); ++i) {
      const int at = made_.inputs[i];
      head += concat(",\n    const ", kernel_type(input_types_[i]), "* __restrict__ x", at);
      loads += concat("    const auto p", at, " = load_packet<V>(x", at, " + i);\n");
    }
    for (size_t i = 0; i < made_.numbers.size(); ++i) {
      const char* const type = kernel_type(made_.numbers[i].dtype);
      head += concat(",\n    Number<", type, "> n", i);
      before += concat("  const ", type, " c", i, " = n", i, ".get();\n");
    }
    for (size_t i = 0; i < made_.results.size(); ++i) {
      const char* const type = kernel_type(made_.results[i]);
      head += concat(",\n    ", type, "* __restrict__ y", i);
      loads += concat("    Packet<", type, ", V> q", i, ";\n");
      stores += concat("    store_packet(y", i, " + i, q", i, ");\n");
    }
    std::string body;  // two more levels in, inside the loop over a packet
    for (size_t at = 0; at < each.size();) {
      const size_t end = each.find('\n', at) + 1;
      body += "  " + each.substr(at, end - at);
      at = end;
    }
    return concat(
        "#include \"lathe/graph/fused/fused_kernel.cuh\"\n\nusing namespace lathe;\n"
        "using namespace lathe::cuda;\nusing namespace lathe::math;\n\n",
        head, ") {\n", before, once, "  each_piece<", made_.packet,
        ">(n, packets, [&]<int V>(Neighbours<V>, int64_t i) {\n", loads,
        "    for (int k = 0; k < V; ++k) {\n", body, "    }\n", stores, "  });\n}\n");
  }

  const PointwisePlan& plan_;
  std::string name_;
  KernelSource made_;
  std::vector<DType> input_types_;
  std::map<std::pair<Place::Kind, int>, std::string> names_;  // what last stands in a place
  int values_ = 0;
  size_t widest_ = 1;  // bytes of an element
};

}  // namespace

std::optional<KernelSource> kernel_source(const PointwisePlan& plan, const std::string& name) {
  return KernelWriter(plan, name).written();
}

}  // namespace lathe::jit
