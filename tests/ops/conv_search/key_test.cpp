// Keys and engines: every field counts, and every text reads back.
#include "lathe/ops/conv/search/conv_key.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fake_library.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

struct Change {
  const char* what;
  std::function<void(ConvKey&)> apply;
};

std::function<void(ConvKey&)> on_machine(const std::function<void(ConvMachine&)>& apply) {
  return [apply](ConvKey& key) { change_machine(key, apply); };
}

// One change per field and element. A field that is not here would be noticed by the size below.
const std::vector<Change>& changes() {
  static const std::vector<Change> table = [] {
    std::vector<Change> all = {
        {"pass", [](ConvKey& k) { k.pass = ConvPass::kForward; }},
        {"pass 2", [](ConvKey& k) { k.pass = ConvPass::kBackwardInput; }},
        {"fusion", [](ConvKey& k) { k.fusion = ConvFusion::kNormRelu; }},
        {"fusion 2", [](ConvKey& k) { k.fusion = ConvFusion::kAddReluTwoNorms; }},
        {"mode", [](ConvKey& k) { k.mode = ConvMode::kHeuristic; }},
        {"deterministic", [](ConvKey& k) { k.mode = ConvMode::kDeterministic; }},
        {"compute", [](ConvKey& k) { k.compute = kF16; }},
        {"groups", [](ConvKey& k) { k.groups = 2; }},
        {"tf32", [](ConvKey& k) { k.tf32 = true; }},
        {"workspace", [](ConvKey& k) { k.workspace_limit_bytes -= 1; }},
        {"device", on_machine([](ConvMachine& m) { m.device = "NVIDIA H100"; })},
        {"major", on_machine([](ConvMachine& m) { m.major = 8; })},
        {"minor", on_machine([](ConvMachine& m) { m.minor = 9; })},
        {"multiprocessors", on_machine([](ConvMachine& m) { m.multiprocessors = 114; })},
        {"library", on_machine([](ConvMachine& m) { m.library = "cudnn 9.18.0"; })},
        {"runtime", on_machine([](ConvMachine& m) { m.runtime = "12.9"; })},
        {"driver", on_machine([](ConvMachine& m) { m.driver = "13.1"; })},
    };
    struct Named {
      const char* name;
      ConvTensor ConvKey::*tensor;
    };
    for (const Named& t : {Named{"x", &ConvKey::x},
                           {"w", &ConvKey::w},
                           {"y", &ConvKey::y},
                           {"bias", &ConvKey::bias}}) {
      const auto tensor = t.tensor;
      all.push_back({t.name, [tensor](ConvKey& k) { (k.*tensor).dtype = kBF16; }});
      all.push_back({t.name, [tensor](ConvKey& k) { (k.*tensor).alignment = 8; }});
      for (size_t i = 0; i < 4; ++i) {
        all.push_back({t.name, [=](ConvKey& k) { ++(k.*tensor).dims[i]; }});
        all.push_back({t.name, [=](ConvKey& k) { ++(k.*tensor).strides[i]; }});
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      all.push_back({"stride", [i](ConvKey& k) { ++k.stride[i]; }});
      all.push_back({"pad", [i](ConvKey& k) { ++k.pad[i]; }});
      all.push_back({"dilation", [i](ConvKey& k) { ++k.dilation[i]; }});
    }
    return all;
  }();
  return table;
}

TEST_CASE("key: a change of any field makes another key, with another text") {
  const ConvKey key = example_key();
  std::set<ConvKey> keys{key};
  std::set<std::string> texts{concat(key)};
  for (const Change& change : changes()) {
    INFO(change.what);
    ConvKey other = key;
    change.apply(other);
    CHECK(other != key);
    CHECK(keys.insert(other).second);
    CHECK(texts.insert(concat(other)).second);
    CHECK(parse_conv_key(concat(other)) == other);
  }
  CHECK(keys.size() == changes().size() + 1);
}

TEST_CASE("key: copies share the machine, and keys made apart are equal all the same") {
  const ConvKey key = example_key(), copy = key, apart = example_key();
  CHECK(&*copy.machine == &*key.machine);
  CHECK(&*apart.machine != &*key.machine);
  CHECK(apart == key);
  CHECK((apart <=> key) == 0);
  CHECK(SharedMachine(ConvMachine{}) == SharedMachine());
  CHECK(*SharedMachine() == ConvMachine{});
}

TEST_CASE("key: equal keys have equal hashes; those of a program's convolutions differ") {
  const ConvKeyHash hash;
  CHECK(hash(example_key()) == hash(example_key()));
  std::set<size_t> hashes{hash(example_key())};
  size_t keys = 1;
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardInput})
    for (const int64_t channels : {3, 64, 128, 256, 512, 1024, 2048})
      for (const int64_t side : {7, 8, 14, 16, 28, 32, 56, 112, 224})
        for (const int64_t alignment : {4, 16}) {
          ConvKey key = example_key();
          key.pass = pass;
          key.x.dims = {128, channels, side, side};
          key.x.alignment = alignment;
          hashes.insert(hash(key));
          ++keys;
        }
  CHECK(hashes.size() == keys);
}

TEST_CASE("key: the text is the documented one and reads back") {
  const ConvKey key = example_key();
  CHECK(concat(key) ==
        "backward_weight none benchmark x=f16[128,64,32,32]/[65536,1,2048,64]@16 "
        "w=f16[64,64,3,3]/[576,1,192,64]@16 y=f16[128,64,32,32]/[65536,1,2048,64]@16 bias=- "
        "residual=- compute=f32 stride=[1,1] pad=[1,1] dilation=[1,1] groups=1 tf32=no "
        "workspace=1073741824 device=\"NVIDIA H200\" sm=9.0 multiprocessors=132 "
        "library=\"cudnn 9.19.0\" runtime=\"13.0\" driver=\"13.0\"");
  CHECK(parse_conv_key(concat(key)) == key);
  CHECK(parse_conv_key(concat(ConvKey{})) == ConvKey{});

  ConvKey biased = key;
  biased.pass = ConvPass::kForward;
  biased.bias = {.dtype = kF16, .dims = {1, 64, 1, 1}, .strides = {64, 1, 64, 64}, .alignment = 16};
  const std::string text = concat(biased);
  CHECK(text.starts_with("forward bias benchmark x="));
  CHECK(text.find(" bias=f16[1,64,1,1]/[64,1,64,64]@16 residual=- compute=f32 ") != text.npos);
  CHECK(parse_conv_key(text) == biased);
}

TEST_CASE("key: extreme numbers and any bytes in names read back") {
  ConvKey key = example_key();
  key.x.dims = {INT64_MAX, INT64_MIN, 0, -1};
  key.workspace_limit_bytes = INT64_MIN;
  change_machine(key, [](ConvMachine& m) { m.major = -1; });
  key.bias.alignment = 16;
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string name;
    for (auto n = random() % 12; n > 0; --n) name += static_cast<char>(random());
    change_machine(key, [&](ConvMachine& m) {
      m.device = name;
      m.driver = name + "\"";
    });
    const std::string text = concat(key);
    CHECK(parse_conv_key(text) == key);
    for (const char c : text) CHECK((c >= ' ' && c < 0x7f));
  }
}

TEST_CASE("key: a text that is not exactly a key's is refused, and nothing else happens") {
  const std::string text = concat(example_key());
  for (size_t size = 0; size < text.size(); ++size)
    CHECK_THROWS_AS(parse_conv_key(text.substr(0, size)), DataError);
  for (const char* tail : {" ", "x", "\n"}) CHECK_THROWS_AS(parse_conv_key(text + tail), DataError);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(text.find(from), from.size(), to);
  };
  for (const std::string& changed :
       {with("f16", "float16"), with("groups=1", "groups=01"), with("groups=1", "groups=+1"),
        with("H200", "\\x48200"), with("H200", "\\xZZ"), with("H200", "\\n"),
        with("tf32=no", "tf32=maybe"), with("groups=1", "groups=99999999999999999999"),
        with("sm=9.0", "sm=4294967305.0"), with("bias=-", "bias=f32[0,0,0,0]/[0,0,0,0]@0"),
        with("benchmark", "fastest"), with("none", "bias"), with("none", "bias_silu"),
        with("residual=-", "residual=f32[1,2,3,4]/[24,12,4,1]@16")})
    CHECK_THROWS_AS(parse_conv_key(changed), DataError);
  CHECK_THROWS_WITH_AS(parse_conv_key(with("groups", "group")),
                       doctest::Contains("expected \" groups=\" at byte"), DataError);
}

TEST_CASE("engine: texts read back, and only those") {
  for (const ConvEngine& engine : {ConvEngine{}, ConvEngine{7, {}}, ConvEngine{7, {{2, 5}}},
                                   ConvEngine{INT64_MAX, {{2, 5}, {24, -10}, {2, INT64_MIN}}}})
    CHECK(parse_conv_engine(concat(engine)) == engine);
  CHECK(concat(ConvEngine{7, {{2, 5}, {24, 10}}}) == "7:2=5,24=10");
  for (const char* text :
       {"", "x", "7:", "7:2", "7:2=", "7:2=5,", "07", "7:2=5;3=1", "7 ", "7,2=5"})
    CHECK_THROWS_AS(parse_conv_engine(text), DataError);
}

}  // namespace
}  // namespace lathe
