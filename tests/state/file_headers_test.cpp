// The headers of all files that have named fields: a field that is missing, doubled, changed or of
// another version is refused, and the message names the file and the field.
// Binary headers: tests/data/packed_file_test.cpp, tests/data/idx_test.cpp.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/npy.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/json.h"
#include "lathe/graph/file.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/lora.h"
#include "lathe/ops/conv/search/conv_cache_file.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/pt2_files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;

struct Field {
  std::string name, text;
  std::vector<std::pair<std::string, std::string>> wrong = {};  // other texts → what is said
  bool optional = false;                                        // it may be missing
};

struct FileKind {
  std::string name;
  std::vector<Field> fields;
  std::function<std::string(const std::string& texts)> bytes;  // of the fields' texts, with commas
  std::function<void(const std::string& path)> read;
  std::string of_good = {};  // what is said of the right fields
  std::string file = "file";
};

std::string little_endian(uint64_t n, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(n >> (8 * i) & 0xffu);
  return out;
}

std::string safetensors_of(const std::string& header, size_t value_bytes) {
  return little_endian(header.size(), 8) + header + std::string(value_bytes, '\0');
}

FileKind safetensors_file() {
  return {"safetensors",
          {{"dtype", R"("dtype":"F32")", {{R"("dtype":"F8")", "dtype \"F8\" is not one"}}},
           {"shape",
            R"("shape":[2])",
            {{R"("shape":[3])", "do not hold the 12 bytes of f32[3]"},
             {R"("shape":2)", "a number where the format has none"}}},
           {"data_offsets",
            R"("data_offsets":[0,8])",
            {{R"("data_offsets":[0,4])", "data_offsets [0,4] do not hold the 8 bytes"},
             {R"("data_offsets":[0])", "data_offsets has 1 numbers instead of 2"}}}},
          [](const std::string& texts) { return safetensors_of("{\"w\":{" + texts + "}}", 8); },
          [](const std::string& path) { safetensors::read(path); }};
}

FileKind npy_file() {
  return {"npy",
          {{"descr", "'descr': '<f4'", {{"'descr': '<u2'", "dtype \"<u2\" is not one"}}},
           {"fortran_order",
            "'fortran_order': False",
            {{"'fortran_order': 0", "\"fortran_order\" is neither True nor False"}}},
           {"shape",
            "'shape': (2,)",
            {{"'shape': (3,)", "f32[3] takes 12 bytes but 8 follow"},
             {"'shape': 2", "\"shape\" is not a tuple"}}}},
          [](const std::string& texts) {
            const std::string literal = "{" + texts + "}\n";
            return std::string("\x93NUMPY\1\0", 8) + little_endian(literal.size(), 2) + literal +
                   std::string(8, '\0');
          },
          [](const std::string& path) { npy::read(path); }};
}

FileKind checkpoint_file() {
  const std::string parts = "lathe.parts is ";
  return {"checkpoint",
          {{"lathe.checkpoint",
            R"("lathe.checkpoint":"1")",
            {{R"("lathe.checkpoint":"2")", "checkpoint version 2 is newer than this library's 1"},
             {R"("lathe.checkpoint":"0")", "its version is \"0\""},
             {R"("lathe.checkpoint":"1 ")", "its version is \"1 \""},
             {R"("lathe.checkpoint":1)", "a number where the format has none"}}},
           {"lathe.parts",
            R"("lathe.parts":"model,trainer")",
            {{R"("lathe.parts":"model,model")", parts + "\"model,model\""},
             {R"("lathe.parts":",model")", parts + "\",model\""},
             {R"("lathe.parts":"model,")", parts + "\"model,\""}}}},
          [](const std::string& texts) {
            return safetensors_of("{\"__metadata__\":{" + texts + "}}", 0);
          },
          [](const std::string& path) { read_checkpoint(path); },
          "the checkpoint's checksum is gone"};
}

FileKind graph_file() {
  const auto field = [](const std::string& version) {
    return R"("lathe.graph":")" + version + R"(\ninput %x: f32[N,3]\nparam @w: f32[2,3]\n)" +
           R"(%0: f32[N,2] = linear(%x, @w, none)\noutput %0\n")";
  };
  return {"graph",
          {{"lathe.graph",
            field("lathe graph 1"),
            {{field("lathe graph 2"), "expected \"lathe graph 1\""},
             {field("lathe graph 1 "), "expected \"lathe graph 1\""}}}},
          [](const std::string& texts) {
            return safetensors_of(
                "{\"__metadata__\":{" + texts +
                    R"(},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                24);
          },
          [](const std::string& path) { jit::load(path); }};
}

FileKind conv_cache_file() {
  using Json = nlohmann::ordered_json;
  FileKind out{"convolution cache",
               {},
               [](const std::string& texts) { return "{" + texts + "}\n"; },
               [](const std::string& path) { read_conv_cache(path); }};
  const Json good = Json::parse(conv_cache_text({}));
  for (const auto& [name, value] : good.items()) {
    const std::string key = "\"" + name + "\"";
    Field& field = out.fields.emplace_back(Field{name, key + ":" + value.dump()});
    field.wrong.push_back({key + ":null", key + " is null"});
    if (name == "format") field.wrong.push_back({key + ":\"other\"", "of another format"});
    if (name == "checksum") field.wrong.push_back({key + ":\"crc32c 1\"", "its checksum does not"});
    if (name == "schema") {
      for (const char* version : {"0", "3"})
        field.wrong.push_back({key + ":" + version, concat("of schema ", version)});
    }
  }
  return out;
}

FileKind pt2_file() {
  const std::string program = testing::pt2_small_program();
  const size_t second = program.find(R"(,"schema_version")"), third = program.find(R"(,"torch_)");
  return {"pt2",
          {{"graph_module",
            program.substr(1, second - 1),
            {{R"("graph_module":{})", "the program has no \"graph\""}}},
           {"schema_version",
            program.substr(second + 1, third - second - 1),
            {{R"("schema_version":{"major":9})", "has schema 9"},
             {R"("schema_version":{"minor":1})", "has no \"major\""},
             {R"("schema_version":{"major":"8"})", "is no 64-bit integer"}}}},
          [](const std::string& texts) { return testing::pt2_file("{" + texts + "}"); },
          [](const std::string& path) { jit::load_program(path); }};
}

/// The configuration of an adapter without weights. PEFT's defaults stand for what is missing.
FileKind lora_file() {
  const auto optional = [](const std::string& key, const std::string& good, const std::string& bad,
                           const std::string& refusal) {
    return Field{key,
                 concat("\"", key, "\":", good),
                 {{concat("\"", key, "\":", bad), refusal}},
                 /*optional=*/true};
  };
  const std::string positive = "both must be positive", type = " has a value of the wrong type";
  FileKind out{"LoRA",
               {{"peft_type", R"("peft_type":"LORA")", {{R"("peft_type":"LOHA")", "only LORA"}}},
                optional("r", "8", "0", positive),
                optional("lora_alpha", "8", "-1", positive),
                optional("lora_dropout", "0.1", "1.5", "which is not in [0,1)"),
                optional("use_rslora", "true", "1", "use_rslora" + type),
                optional("use_dora", "false", "true", "uses use_dora, which is not supported"),
                optional("alpha_pattern", "{}", R"({"fc":3})", "uses alpha_pattern"),
                optional("bias", R"("none")", R"("all")", "bias is \"all\""),
                optional("init_lora_weights", "true", R"("pissa")", "is \"pissa\", which changes")},
               [](const std::string& texts) { return "{" + texts + "}"; },
               [](const std::string& path) {
                 const std::string folder = std::filesystem::path(path).parent_path();
                 safetensors::write(folder + "/adapter_model.safetensors", {});
                 nn::Linear model(2, 2);
                 nn::load_lora(model, folder);
               },
               "holds no adapters",
               "adapter_config.json"};
  out.fields[1].wrong.emplace_back(R"("r":1e300)", "r" + type);
  out.fields[2].wrong.emplace_back(R"("lora_alpha":"x")", "lora_alpha" + type);
  return out;
}

TEST_CASE("file headers: a field that is missing, doubled or changed is named") {
  const TempDir folder;
  for (const FileKind& kind : {safetensors_file(), npy_file(), checkpoint_file(), graph_file(),
                               conv_cache_file(), pt2_file(), lora_file()}) {
    CAPTURE(kind.name);
    const std::string path = (folder / kind.file).string();
    // What is said of the file in which the field `at` has the text `text`; without it if empty.
    const auto said = [&](size_t at, const std::string& text) {
      std::string texts;
      for (size_t i = 0; i < kind.fields.size(); ++i) {
        const std::string& one = i == at ? text : kind.fields[i].text;
        if (!one.empty()) texts += (texts.empty() ? "" : ", ") + one;
      }
      data::testing::write_file(path, kind.bytes(texts));
      return message_of<DataError>([&] { kind.read(path); });
    };
    const auto check = [&](size_t at, const std::string& text, const std::string& expected) {
      const std::string message = said(at, text);
      CHECK_MESSAGE(message.find(expected) != std::string::npos, text, " → ", message);
      CHECK_MESSAGE(message.starts_with(path), text, " → ", message);
    };
    REQUIRE(!kind.fields.empty());
    const std::string of_good = said(0, kind.fields[0].text);
    CHECK_MESSAGE(of_good.empty() == kind.of_good.empty(), of_good);
    CHECK_MESSAGE(of_good.find(kind.of_good) != std::string::npos, of_good);
    for (size_t at = 0; at < kind.fields.size(); ++at) {
      const Field& field = kind.fields[at];
      if (field.optional) {
        CHECK(said(at, "") == of_good);
      } else {
        check(at, "", field.name);
      }
      check(at, field.text + ", " + field.text, "\"" + field.name + "\" appears twice");
      for (const auto& [text, expected] : field.wrong) check(at, text, expected);
    }
  }
}

}  // namespace
}  // namespace lathe
