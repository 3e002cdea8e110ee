// Small .pt2 files for tests: a program of a few nodes as JSON, put into an archive.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/format.h"
#include "lathe/core/formats/zip.h"

namespace lathe::testing {

/// An archive with these entries below "m/".
inline std::string pt2_archive(const std::vector<std::pair<std::string, std::string>>& entries,
                               zip::Method method = zip::Method::kStored) {
  std::string out;
  zip::Writer writer(zip::InMemory{out});
  for (const auto& [name, content] : entries) {
    const std::string_view text = content;
    writer.add("m/" + name, std::span(&text, 1), method);
  }
  writer.commit();
  return out;
}

/// "w" of f32 [2,2] in weight_0, with these changes of its description.
struct Pt2Weight {
  std::string name = "w", entry = "weight_0", sizes = "2,2", strides = "2,1";
  int64_t dtype = 7, offset = 0;
};

inline std::string pt2_numbers(const std::string& list) {
  std::string out;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    out += concat(out.empty() ? "" : ",", R"({"as_int":)", list.substr(begin, end - begin), "}");
    begin = end + 1;
  }
  return "[" + out + "]";
}

inline std::string pt2_weights(const std::vector<Pt2Weight>& weights) {
  std::string out;
  for (const Pt2Weight& w : weights) {
    out += concat(out.empty() ? "" : ",", "\"", w.name, R"(":{"path_name":")", w.entry,
                  R"(","is_param":true,"use_pickle":false,"tensor_meta":{"dtype":)", w.dtype,
                  R"(,"sizes":)", pt2_numbers(w.sizes), R"(,"strides":)", pt2_numbers(w.strides),
                  R"(,"storage_offset":{"as_int":)", w.offset, R"(},"layout":7}})");
  }
  return concat(R"({"config":{)", out, "}}");
}

/// The type of a tensor; a size may be a symbol: "s0,2".
inline std::string pt2_type(const std::string& sizes, int64_t dtype = 7) {
  std::string out = pt2_numbers(sizes);
  const size_t symbol = out.find(R"({"as_int":s0})");
  if (symbol != std::string::npos) {
    out.replace(symbol, 13, R"j({"as_expr":{"expr_str":"Symbol('s0', positive=True)"}})j");
  }
  return concat(R"({"dtype":)", dtype, R"(,"sizes":)", out, R"(,"requires_grad":true,"layout":7})");
}

/// The spec and the type of a buffer of f32 for pt2_program().
inline std::string pt2_buffer_spec(const std::string& name) {
  return concat(R"({"buffer":{"arg":{"name":"b_)", name, R"("},"buffer_name":")", name,
                R"(","persistent":true}},)");
}
inline std::string pt2_buffer_type(const std::string& name, const std::string& sizes) {
  return concat(R"(,"b_)", name, R"(":)", pt2_type(sizes));
}

/// A program of x [s0,2] and w [2,2] with these nodes, which gives `result`. `specs`: further
/// inputs, each before a comma; `types`: of their values, each behind one.
inline std::string pt2_program(const std::string& nodes, const std::string& result,
                               const std::string& major = "8", const std::string& specs = "",
                               const std::string& types = "") {
  return concat(R"({"graph_module":{"graph":{"inputs":[],"outputs":[],"nodes":[)", nodes,
                R"(],"tensor_values":{"p_w":)", pt2_type("2,2"), R"(,"x":)", pt2_type("s0,2"),
                types, R"(}},"signature":{"input_specs":[)", specs,
                R"({"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}},)",
                R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[)",
                R"({"user_output":{"arg":{"as_tensor":{"name":")", result, R"("}}}}]}},)",
                R"("schema_version":{"major":)", major, R"(,"minor":20},"torch_version":"2.15.0",)",
                R"("range_constraints":{"s0":{"min_val":2,"max_val":64}}})");
}

/// A node; `inputs` and `outputs` are JSON.
inline std::string pt2_node(const std::string& target, const std::string& inputs,
                            const std::string& output, const std::string& metadata = "{}") {
  return concat(R"({"target":"torch.ops.)", target, R"(","name":")", output, R"(","inputs":[)",
                inputs, R"(],"outputs":[{"as_tensor":{"name":")", output, R"("}}],"metadata":)",
                metadata, "}");
}
inline std::string pt2_tensor(const std::string& name, const std::string& value) {
  return concat(R"({"name":")", name, R"(","arg":{"as_tensor":{"name":")", value, R"("}}})");
}
/// An argument of another kind: pt2_argument("alpha", R"({"as_int":2})").
inline std::string pt2_argument(const std::string& name, const std::string& value) {
  return concat(R"({"name":")", name, R"(","arg":)", value, "}");
}

/// y = relu(x w), and an add_ of x to it.
inline std::string pt2_small_program() {
  return pt2_program(
      concat(pt2_node("aten.matmul.default",
                      pt2_tensor("self", "x") + "," + pt2_tensor("other", "p_w"), "matmul"),
             ",", pt2_node("aten.relu.default", pt2_tensor("self", "matmul"), "relu"), ",",
             pt2_node("aten.add_.Tensor",
                      pt2_tensor("self", "relu") + "," + pt2_tensor("other", "x") + "," +
                          pt2_argument("alpha", R"({"as_float":0.5})"),
                      "add_")),
      "add_");
}

/// Four numbers of f32, 1 to 4.
inline std::string pt2_values() {
  const float values[] = {1, 2, 3, 4};
  return {reinterpret_cast<const char*>(values), sizeof values};
}

/// The file of a program and its weights.
inline std::string pt2_file(const std::string& program,
                            const std::vector<Pt2Weight>& weights = {{}}) {
  return pt2_archive({{"models/model.json", program},
                      {"data/weights/model_weights_config.json", pt2_weights(weights)},
                      {"data/weights/weight_0", pt2_values()},
                      {"data/constants/model_constants_config.json", R"({"config":{}})"},
                      {"byteorder", "little"}});
}

}  // namespace lathe::testing
