// PyTorch's files: those that PyTorch made (golden_pth.h, by golden_pth.py), pickles written by
// hand, everything that must be refused.
#include "lathe/core/formats/pth.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "golden_pth.h"
#include "lathe/core/formats/deflate.h"
#include "lathe/core/formats/pickle.h"
#include "lathe/core/formats/zip.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;
using Floats = std::vector<float>;

StateDict parse(std::string_view bytes, const std::string& section = "") {
  return pth::parse(std::as_bytes(std::span(bytes)), "x.pth", {.section = section});
}

std::string error_of(std::string_view bytes, const std::string& section = "") {
  return message_of<DataError>([&] { parse(bytes, section); });
}

/// A file of torch.save's layout with this pickle and one storage "0" of these bytes.
std::string file_with(const std::string& pickle, const std::string& storage,
                      const std::string& byteorder = "",
                      zip::Method method = zip::Method::kStored) {
  const TempDir dir;
  zip::Writer writer(dir / "x.pth");
  const auto add = [&](const char* name, std::string_view content) {
    writer.add(name, std::span(&content, 1), method);
  };
  add("a/data.pkl", pickle);
  if (!byteorder.empty()) add("a/byteorder", byteorder);
  add("a/data/0", storage);
  add("a/version", "3\n");
  writer.commit();
  return data::testing::read_file(dir / "x.pth");
}

// Instructions, as pickletools.py names them.
std::string text(const std::string& value) {
  return std::string("X") + static_cast<char>(value.size()) + std::string(3, '\0') + value;
}
std::string byte(int value) { return std::string("K") + static_cast<char>(value); }
std::string tuple(const std::string& items) { return "(" + items + "t"; }
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string storage(const std::string& type, int count, const std::string& key = "0") {
  return tuple(text("storage") + global("torch", type) + text(key) + text("cpu") + byte(count)) +
         "Q";
}
const std::string kOrderedDict = global("collections", "OrderedDict") + ")R";
std::string tensor_of(const std::string& from, int offset, const std::string& size,
                      const std::string& stride) {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple(from + byte(offset) + tuple(size) + tuple(stride) + "\x89" + kOrderedDict) + "R";
}
std::string pickle_of(const std::string& value) { return "\x80\2" + value + "."; }
std::string dict_of(const std::string& items) { return "}(" + items + "u"; }
/// A state dict of one entry "w".
std::string file_of(const std::string& value, const std::string& bytes = "abcdefgh") {
  return file_with(pickle_of(dict_of(text("w") + value)), bytes);
}

TEST_CASE("pickle: what is no text has none, whatever its number") {
  const std::string_view names[] = {"a b"};
  const auto text_of = [&](const std::string& value) {
    const pickle::Document document(pickle_of(value), names, 1 << 20, "x.pth");
    return std::string(document.text(document.root()));
  };
  CHECK(text_of(text("word")) == "word");
  CHECK(text_of(global("a", "b")) == "a b");
  for (const std::string& value :
       {std::string("K\xff"), std::string("J\xff\xff\xff\x7f"), std::string("J\xff\xff\xff\xff"),
        std::string("\x88"), std::string("N"), tuple(byte(1)), dict_of(byte(1) + byte(2))})
    CHECK(text_of(value).empty());
}

TEST_CASE("pth: every dtype, 0-d and empty tensors as PyTorch saved them") {
  const StateDict state = parse(test::kPthDtypes);
  std::string names;
  for (const auto& [name, t] : state) names += name + ":" + concat(t) + " ";
  CHECK(names ==
        "bool:bool[2]@cpu u8:u8[2]@cpu i8:i8[2]@cpu i16:i16[1]@cpu i32:i32[2]@cpu i64:i64[]@cpu "
        "f16:f16[2]@cpu bf16:bf16[2]@cpu f32:f32[1,3]@cpu f64:f64[1]@cpu none:f32[3,0]@cpu ");
  CHECK(state.at("bool").to_vector<int>() == std::vector{1, 0});
  CHECK(state.at("u8").to_vector<int>() == std::vector{0, 255});
  CHECK(state.at("i8").to_vector<int>() == std::vector{-128, 127});
  CHECK(state.at("i16").to_vector<int>() == std::vector{-32768});
  CHECK(state.at("i32").to_vector<int>() == std::vector{1 << 30, -1});
  CHECK(state.at("i64").item<int64_t>() == int64_t{1} << 60);
  CHECK(state.at("f16").to_vector<float>() == Floats{1.f, 65504.f});
  CHECK(state.at("bf16").to_vector<float>() ==
        tensor({1.0, 3e38}, {.dtype = kBF16}).to_vector<float>());
  CHECK(state.at("f32").to_vector<float>() == Floats{1.5f, -2.f, 0.f});
  CHECK(state.at("f64").to_vector<double>() == std::vector{0.1});
}

TEST_CASE(
    "pth: views share their storage with PyTorch's strides, in a dictionary below the file's") {
  const StateDict state = parse(test::kPthViews);
  const Tensor base = state.at("base");
  CHECK(base.shape() == Shape{3, 4});
  CHECK(base.to_vector<float>() == Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(state.at("transposed").strides() == Strides{1, 4});
  CHECK(state.at("transposed").to_vector<float>() == Floats{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(state.at("column").to_vector<float>() == Floats{1, 5, 9});
  CHECK(state.at("tail").to_vector<float>() == Floats{6, 7, 10, 11});
  CHECK(state.at("expanded").to_vector<float>() == Floats(6, 0.f));
  for (const char* name : {"transposed", "column", "tail", "expanded"}) {
    CHECK(state.at(name).shares_storage(base));
  }
  CHECK(state.at("parameter").to_vector<float>() == Floats{1, 1});
  CHECK(state.at("nhwc").is_contiguous(kChannelsLast));
  CHECK(state.at("nhwc").to_vector<float>() == arange(24, {.dtype = kF32}).to_vector<float>());
  CHECK(state.size() == 7);
  CHECK(parse(test::kPthViews, "state_dict").size() == 7);
  CHECK(error_of(test::kPthViews, "ema") ==
        "x.pth: has no dictionary \"ema\"; there is: \"epoch\", \"best\", \"name\", \"flags\", "
        "\"state_dict\"");
  CHECK(error_of(test::kPthViews, "epoch").find("no dictionary \"epoch\"") != std::string::npos);
}

TEST_CASE("pth: pickle protocol 4 says the same as protocol 2") {
  const StateDict state = parse(test::kPthProtocol4), expected = parse(test::kPthViews);
  REQUIRE(state.size() == expected.size());
  for (const auto& [name, t] : expected) {
    CAPTURE(name);
    CHECK(state.at(name).strides() == t.strides());
    CHECK(state.at(name).to_vector<float>() == t.to_vector<float>());
  }
}

TEST_CASE("pth: the arguments of a trainer, saved beside the state dict, are passed over") {
  const StateDict state = parse(test::kPthTrainer), expected = parse(test::kPthModule);
  REQUIRE(state.size() == expected.size());
  for (const auto& [name, t] : expected)
    CHECK(state.at(name).to_vector<float>() == t.to_vector<float>());
  CHECK(error_of(test::kPthTrainer, "args").find("has no dictionary \"args\"") !=
        std::string::npos);
}

TEST_CASE("pth: a module's state dict, whose versions are no entries") {
  const StateDict state = parse(test::kPthModule);
  std::vector<std::string> names;
  for (const auto& [name, t] : state) {
    CHECK(t.to_vector<float>() ==
          Floats(static_cast<size_t>(t.numel()), static_cast<float>(names.size())));
    names.push_back(name);
  }
  CHECK(names == std::vector<std::string>{"0.weight", "1.weight", "1.bias", "1.running_mean",
                                          "1.running_var", "1.num_batches_tracked"});
}

TEST_CASE("pth: what other versions write: big-endian storages, compressed archives") {
  const std::string pickle =
      pickle_of(dict_of(text("w") + tensor_of(storage("ShortStorage", 2), 0, byte(2), byte(1))));
  const std::string values("\0\1\0\2", 4);
  CHECK(parse(file_with(pickle, values, "big")).at("w").to_vector<int>() == std::vector{1, 2});
  CHECK(parse(file_with(pickle, values, "little")).at("w").to_vector<int>() ==
        std::vector{256, 512});
  CHECK(error_of(file_with(pickle, values, "pdp")).find("\"byteorder\" says \"pdp\"") !=
        std::string::npos);
  if (!deflate_available()) return;
  CHECK(parse(file_with(pickle, values, "", zip::Method::kDeflated)).at("w").to_vector<int>() ==
        std::vector{256, 512});
}

struct Refused {
  std::string bytes, because;
};

void check_refused(const std::vector<Refused>& cases) {
  for (const Refused& c : cases) {
    const std::string message = error_of(c.bytes);
    CAPTURE(c.because);
    CHECK_MESSAGE(message.find(c.because) != std::string::npos, message);
    CHECK(message.starts_with("x.pth: "));
  }
}

std::string file_of_instructions(const std::string& instructions) {
  return file_with(pickle_of(instructions), "");
}

// What file_of makes a whole file of.
const std::string kFloats = storage("FloatStorage", 2);
const std::string kGood = tensor_of(kFloats, 0, byte(2), byte(1));

TEST_CASE("pth: code is refused, by its name; only tensors and plain data are read") {
  const auto plain = file_of_instructions;
  check_refused({
      {plain(global("os", "system") + tuple(text("true")) + "R"),
       "byte 2: refers to \"os system\", which is neither a tensor nor plain data: refused"},
      {plain(global("builtins", "eval") + tuple(text("1")) + "R"), "\"builtins eval\""},
      {plain(global("torch._utils", "_rebuild_tensor") + ")R"), "\"torch._utils _rebuild_tensor\""},
      {plain("(ios\nsystem\n"), "the pickle instruction INST (105) is not one"},
      {plain(text("os") + text("system") + "\x93" + tuple(text("true")) + "R"),
       "byte 20: refers to \"os system\""},
      {plain("})\x93"), "a name made of a dictionary and a tuple"},
      {plain("))\x81"), "an object of a tuple with a tuple"},
      {plain(global("os", "stat_result") + ")\x81"), "\"os stat_result\""},
      {plain(global("argparse", "Namespace") + ")\x81Nb"), "attributes that are no dictionary"},
      {plain(global("argparse", "Namespace") + "}b"),
       "an instruction for a dictionary finds a name"},
      {plain(global("argparse", "Namespace") + ")\x81}b"), "holds a call and not a state dict"},
      {plain("}0"), "the pickle instruction POP (48)"},
      {plain("\x03"), "the pickle instruction unknown (3)"},
      {plain("\x80\6"), "pickle protocol 6 is above 5"},
      {std::string(test::kPthModel),
       "refers to \"torch.nn.modules.flatten Flatten\", which is neither a tensor nor plain data: "
       "refused; in PyTorch, save model.state_dict()"},
      {plain("]}b"), "an instruction for a dictionary finds a list"},
      {plain("}Nb"), "attributes that are no dictionary"},
      {plain("N)R"), "a call of None with a tuple"},
      {plain(global("collections", "OrderedDict") + "]\x85R"), "an OrderedDict with arguments"},
  });
}

TEST_CASE("pth: a damaged pickle is refused with the file and what is wrong") {
  const auto plain = file_of_instructions;
  check_refused({
      {std::string(test::kPthLegacy), "is in the format of PyTorch before 1.6"},
      {"", "0 bytes are too few for a zip archive"},
      {plain("X\xff\xff\xff\xff"), "an instruction of 4294967295 more bytes"},
      {plain(std::string("X\5\0\0\0abc", 8)), "an instruction of 5 more bytes, but 4 are left"},
      {plain("s"), "takes more values than there are"},
      {plain("(s"), "takes a mark as a value"},
      {plain("t"), "looks for a mark that was not set"},
      {plain("}(Nu"), "a key without a value"},
      {plain("}q\1"), "memo 1 comes before memo 0"},
      {plain("h\1"), "memo 1 was not set"},
      {plain("NN"), "the pickle ends with 2 values"},
      {plain("}.}"), "2 bytes follow the pickle"},
      {plain("cos\nsystem"), "a name has no end"},
      {plain("\x93"), "takes more values than there are"},
      {plain("\x94"), "there is no value to remember"},
      {plain("\x8c"), "an instruction of 46 more bytes, but 0 are left"},
      {plain(std::string("\x8d\xff\xff\xff\xff\xff\xff\xff\xff", 9)), "more bytes, but 1 are left"},
      {plain("\x95"), "an instruction of 8 more bytes"},
      {plain(std::string("\x8a\x09", 2) + std::string(9, '\1')), "an integer of 9 bytes"},
  });
}

TEST_CASE("pth: everything else is refused with the file, the entry and what is wrong") {
  const auto plain = file_of_instructions;
  REQUIRE(parse(file_of(kGood)).at("w").numel() == 2);
  check_refused({
      {plain("N"), "holds None and not a state dict"},
      {plain(dict_of(text("epoch") + byte(3))),
       "holds no tensors but these values, one of which may be named as the section to read: "
       "\"epoch\""},
      {file_with(pickle_of(dict_of(text("w") + kGood + text("epoch") + byte(3))), "abcdefgh"),
       "entry \"epoch\" is an integer, not a tensor"},
      {file_with(pickle_of(dict_of(text("w") + kGood + text("w") + kGood)), "abcdefgh"),
       "entry \"w\" appears twice"},
      {file_with(pickle_of(dict_of(byte(1) + kGood)), "abcdefgh"), "a key is an integer"},
  });
}

TEST_CASE("pth: the state dict of a checkpoint is read, though a tensor stands beside it") {
  const std::string inner = dict_of(text("w") + kGood);
  const std::string beside = pickle_of(dict_of(text("best") + kGood + text("state_dict") + inner));
  const StateDict state = parse(file_with(beside, "abcdefgh"));
  CHECK(state.size() == 1);
  CHECK(state.contains("w"));
  // The same under a name of a trainer's own, with its other values.
  const std::string net =
      pickle_of(dict_of(text("epoch") + byte(3) + text("net") + inner + text("best") + byte(90)));
  CHECK(parse(file_with(net, "abcdefgh")).contains("w"));
  const std::string two_in_net = dict_of(text("w") + kGood + text("v") + kGood);
  const std::string random = pickle_of(dict_of(text("rng") + kGood + text("net") + two_in_net +
                                               text("log") + dict_of(text("a") + byte(1))));
  CHECK(parse(file_with(random, "abcdefgh")).size() == 2);
  // Several may be meant: the caller chooses.
  const std::string both = file_with(
      pickle_of(dict_of(text("params") + inner + text("params_ema") + two_in_net)), "abcdefgh");
  CHECK(parse(both, "params_ema").size() == 2);
  CHECK(message_of<pth::SectionError>([&] { parse(both); })
            .find("x.pth: holds 2 dictionaries of tensors, of which one must be named as the "
                  "section to read: \"params\", \"params_ema\"") == 0);
  CHECK(message_of<pth::SectionError>([&] {
          parse(both, "ema");
        }).find("has no dictionary \"ema\"; there is: \"params\", \"params_ema\"") !=
        std::string::npos);
  // A tensor of that name is an entry like any other.
  const std::string own = pickle_of(dict_of(text("model") + kGood + text("v") + kGood));
  CHECK(parse(file_with(own, "abcdefgh")).size() == 2);
}

TEST_CASE("pth: a tensor that does not fit its storage is refused with the entry and the numbers") {
  check_refused({
      {file_of(tensor_of("N", 0, byte(2), byte(1))),
       "a tensor whose description is not understood"},
      {file_of(tensor_of("NQ", 0, byte(2), byte(1))),
       "entry \"w\" has a storage whose description is not understood"},
      {file_of(tensor_of(storage("FloatStorage", 2, "7"), 0, byte(2), byte(1))),
       "the archive has no storage \"7\""},
      {file_of(tensor_of(storage("FloatStorage", 3), 0, byte(2), byte(1))),
       "storage \"0\" has 8 bytes, which is not f32[3]"},
      {file_of(tensor_of(kFloats, 0, byte(2) + byte(1), byte(1))), "has 2 sizes but 1 strides"},
      {file_of(tensor_of(kFloats, 0, byte(3), byte(1))),
       "f32[3] with strides [1] from element 0 lies outside its storage of 2 elements"},
      {file_of(tensor_of(kFloats, 1, byte(2), byte(1))), "from element 1 lies outside"},
      {file_of(tensor_of(kFloats, 0, byte(2), byte(2))),
       "with strides [2] from element 0 lies outside"},
      {file_of(tensor_of(kFloats, 0, std::string("J\xff\xff\xff\xff"), byte(1))),
       "has a size that is not a number of 0 or more"},
      {file_of(tensor_of(kFloats, 0, std::string("\x8a\x01\xff", 3), byte(1))),
       "has a size that is not a number of 0 or more"},
      {file_of(tensor_of(kFloats, 0, byte(2), "N")), "has a stride that is not a number"},
      {file_of(tensor_of(
           kFloats, 0,
           byte(1) + byte(1) + byte(1) + byte(1) + byte(1) + byte(1) + byte(1) + byte(1) + byte(1),
           "")),
       "has 9 dimensions"},
      {file_of(tensor_of(kFloats, 0, std::string("\x8a\x08\0\0\0\0\0\0\0\x40", 10) + byte(4),
                         byte(0) + byte(0))),
       "overflows"},
      {file_of(tensor_of(storage("BoolStorage", 8), 0, byte(2), byte(1))),
       "entry \"w\": holds the byte 97 as a bool"},
      {file_with(pickle_of(dict_of(text("w") + kGood + text("v") +
                                   tensor_of(storage("IntStorage", 2), 0, byte(2), byte(1)))),
                 "abcdefgh"),
       "takes storage \"0\" as i32[2], another entry as f32[2]"},
      {file_with(pickle_of(dict_of(text("w") + kGood + text("v") +
                                   tensor_of(storage("FloatStorage", 4), 0, byte(2), byte(1)))),
                 "abcdefgh"),
       "takes storage \"0\" as f32[4], another entry as f32[2]"},
      {file_with(pickle_of(dict_of(text("w") + kGood + text("v") +
                                   tensor_of(storage("FloatStorage", 1), 0, byte(1), byte(1)))),
                 "abcdefgh"),
       "takes storage \"0\" as f32[1], another entry as f32[2]"},
  });
}

TEST_CASE("pth: values that would outgrow the file are refused, whatever they refer to") {
  // A list that holds itself, nested a million deep: neither is followed.
  CHECK(error_of(file_with(pickle_of("]q\1"), "")).find("memo 1 comes before memo 0") !=
        std::string::npos);
  const std::string itself = "]" + std::string("q\0", 2) + std::string("h\0a", 3);
  CHECK(error_of(file_with(pickle_of(itself), "")).find("holds a list") != std::string::npos);
  CHECK(error_of(file_with(pickle_of(kGood), "abcdefgh")).find("holds a single tensor and not") !=
        std::string::npos);
  const std::string message = error_of(file_with(pickle_of(std::string(1'000'000, ']')), ""));
  CHECK_MESSAGE(message.find("take more memory than the limit of") != std::string::npos, message);
  std::string deep = "N";
  for (int i = 0; i < 5000; ++i) deep += "\x85";
  CHECK(error_of(file_with(pickle_of(deep), "")).find("holds a tuple") != std::string::npos);
}

TEST_CASE("pth: what unpacks to far more than it takes is refused before anything is unpacked") {
  const std::string pickle =
      pickle_of(dict_of(text("w") + tensor_of(storage("ByteStorage", 2), 0, byte(2), byte(1))));
  if (deflate_available()) {
    const std::string bomb =
        file_with(pickle, std::string(size_t{80} << 20, '\0'), "", zip::Method::kDeflated);
    REQUIRE(bomb.size() < 100'000);
    const std::string message = error_of(bomb);
    CHECK_MESSAGE(message.find("its deflated entries declare 83886") != std::string::npos, message);
  }
  // Strides of 0 make a tensor of any size from one value.
  const auto expanded = [&](int times) {
    const std::string size = std::string("J") + std::string("\0\0\0\4", 4);  // 64 Mi
    std::string items;
    for (int i = 0; i < times; ++i)
      items += text(std::to_string(i)) + tensor_of(storage("ByteStorage", 2), 0, size, byte(0));
    return file_with(pickle_of(dict_of(items)), "ab");
  };
  CHECK(parse(expanded(1)).at("0").numel() == int64_t{64} << 20);
  const std::string message = error_of(expanded(2));
  CHECK_MESSAGE(message.find("entry \"1\"") != std::string::npos, message);
  CHECK_MESSAGE(message.find("134217728 bytes") != std::string::npos, message);
}

TEST_CASE("pth: thousands of tiny tensors, a storage each, are no attack") {
  constexpr int kTensors = 3000;
  const TempDir dir;
  zip::Writer writer(dir / "x.pth");
  std::string items;
  for (int i = 0; i < kTensors; ++i) {
    const std::string key = std::to_string(i);
    items += text("block." + key) + tensor_of(storage("FloatStorage", 1, key), 0, "", "");
  }
  const std::string pickle = pickle_of(dict_of(items));
  const std::string_view parts[] = {pickle}, value[] = {"abcd"};
  writer.add("a/data.pkl", parts);
  for (int i = 0; i < kTensors; ++i) writer.add("a/data/" + std::to_string(i), value);
  writer.commit();
  CHECK(pth::read(dir / "x.pth").size() == kTensors);
}

TEST_CASE("pth: every truncation and every flipped bit is refused or gives tensors") {
  const std::string_view good = test::kPthModule;
  for (size_t n = 0; n < good.size(); ++n) {
    CAPTURE(n);
    CHECK(error_of(good.substr(0, n)) != "");
  }
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad(good);
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      CAPTURE(at);
      try {
        const StateDict got = parse(bad);  // a date, a flag or padding: the CRCs hold
        CHECK(got.at("1.bias").to_vector<float>() == Floats{2, 2});
      } catch (const DataError&) {
      }
    }
  }
}

}  // namespace
}  // namespace lathe
