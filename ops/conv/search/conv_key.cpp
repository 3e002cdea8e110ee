// The hash of a key, and its text written and read. Contracts: conv_key.h.
#include "lathe/ops/conv/search/conv_key.h"

#include <utility>

#include "lathe/core/error.h"
#include "lathe/ops/conv/search/conv_text.h"
#include "lathe/ops/plans/word_hash.h"

namespace lathe {

namespace {

constexpr std::string_view kPasses[] = {"forward", "backward_input", "backward_weight"};
// With the convolution, in one kernel: what each ConvFusion is called, and a bias.
constexpr std::string_view kFused[] = {"none",      "statistics",    "norm_relu",
                                       "relu_norm", "add_relu_norm", "add_relu_two_norms",
                                       "bias_relu", "add_bias_relu", "bias"};
static_assert(std::size(kFused) == kConvFusions + 1);
constexpr std::string_view kModes[] = {"heuristic", "benchmark", "deterministic"};
constexpr std::string_view kSwitch[] = {"no", "yes"};
constexpr std::string_view kDigits = "0123456789abcdef";

template <size_t N>
void append_sizes(std::string& out, const std::array<int64_t, N>& sizes) {
  char before = '[';
  for (const int64_t size : sizes) {
    out += before;
    append_text(out, size);
    before = ',';
  }
  out += ']';
}

// "NVIDIA H200" in quotes. Characters that would end the quotes or the line, or that are not ASCII,
// are written \xHH.
void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

template <size_t N>
std::array<int64_t, N> read_sizes(WordReader& in) {
  std::array<int64_t, N> sizes;
  const char* before = "[";
  for (int64_t& size : sizes) {
    in.expect(before);
    size = in.number();
    before = ",";
  }
  in.expect("]");
  return sizes;
}

DType read_dtype(WordReader& in, std::string_view ends) {
  try {
    return dtype_from_name(in.until(ends));
  } catch (const ValueError&) {
    in.fail_here("a dtype before this place");
  }
}

ConvTensor read_tensor(WordReader& in) {
  if (in.skip("-")) return {};
  ConvTensor tensor;
  tensor.dtype = read_dtype(in, "[");
  tensor.dims = read_sizes<4>(in);
  in.expect("/");
  tensor.strides = read_sizes<4>(in);
  in.expect("@");
  tensor.alignment = in.number();
  return tensor;
}

int read_digit(WordReader& in) {
  for (size_t digit = 0; digit < kDigits.size(); ++digit) {
    if (in.skip(kDigits.substr(digit, 1))) return static_cast<int>(digit);
  }
  in.fail_here("a hexadecimal digit");
}

std::string read_quoted(WordReader& in) {
  std::string text;
  in.expect("\"");
  for (;;) {
    text += in.until("\"\\");
    if (in.skip("\"")) return text;
    in.expect("\\x");
    const int high = read_digit(in);
    text += static_cast<char>(16 * high + read_digit(in));
  }
}

int read_int(WordReader& in) { return static_cast<int>(in.number()); }

void add(WordHash& hash, const ConvTensor& t) {
  if (!t.exists()) return;
  hash.add(static_cast<uint64_t>(t.dtype) << 32 | static_cast<uint64_t>(t.alignment));
  for (const int64_t size : t.dims) hash.add(size);
  hash.add(t.strides[1]);
}

}  // namespace

SharedMachine::SharedMachine(ConvMachine machine) {
  if (machine != ConvMachine{}) machine_ = std::make_shared<const ConvMachine>(std::move(machine));
}

const ConvMachine& SharedMachine::operator*() const {
  static const ConvMachine none;
  return machine_ == nullptr ? none : *machine_;
}

size_t ConvKeyHash::operator()(const ConvKey& key) const noexcept {
  WordHash hash(static_cast<uint64_t>(key.pass) << 8 | static_cast<uint64_t>(key.mode) << 1 |
                static_cast<uint64_t>(key.tf32));
  add(hash, key.x);
  add(hash, key.w);
  add(hash, key.y);
  add(hash, key.bias);
  hash.add(static_cast<int64_t>(key.fusion));
  for (size_t i = 0; i < 2; ++i) {
    hash.add(key.stride[i]);
    hash.add(key.pad[i]);
    hash.add(key.dilation[i]);
  }
  hash.add(key.workspace_limit_bytes);
  return hash.value();
}

void append_text(std::string& out, ConvPass pass) { out += kPasses[static_cast<size_t>(pass)]; }
void append_text(std::string& out, ConvFusion fusion) {
  out += kFused[static_cast<size_t>(fusion)];
}
void append_text(std::string& out, ConvMode mode) { out += kModes[static_cast<size_t>(mode)]; }

void append_text(std::string& out, const ConvTensor& tensor) {
  if (tensor == ConvTensor{}) {
    out += '-';
    return;
  }
  append_text(out, tensor.dtype);
  append_sizes(out, tensor.dims);
  out += '/';
  append_sizes(out, tensor.strides);
  out += concat("@", tensor.alignment);
}

void append_text(std::string& out, const ConvKey& key) {
  // With a new field of ConvKey or ConvMachine this does not compile until the text has it too.
  const auto& [pass, mode, x, w, y, bias, fusion, compute, stride, pad, dilation, groups, tf32,
               workspace, machine] = key;
  const auto& [device, major, minor, multiprocessors, library, runtime, driver] = *machine;
  const auto fused = bias != ConvTensor{} ? size_t{kConvFusions} : static_cast<size_t>(fusion);
  out += concat(pass, " ", kFused[fused], " ", mode, " x=", x, " w=", w, " y=", y, " bias=", bias,
                " residual=- compute=", compute);
  const auto sizes = [&](std::string_view name, const std::array<int64_t, 2>& values) {
    out += name;
    append_sizes(out, values);
  };
  sizes(" stride=", stride);
  sizes(" pad=", pad);
  sizes(" dilation=", dilation);
  out += concat(" groups=", groups, " tf32=", kSwitch[tf32], " workspace=", workspace);
  out += " device=";
  append_quoted(out, device);
  out += concat(" sm=", major, ".", minor, " multiprocessors=", multiprocessors, " library=");
  append_quoted(out, library);
  out += " runtime=";
  append_quoted(out, runtime);
  out += " driver=";
  append_quoted(out, driver);
}

ConvKey parse_conv_key(std::string_view text) {
  WordReader in("convolution key", text);
  ConvKey key;
  key.pass = in.one_of<ConvPass>(kPasses, " ");
  in.expect(" ");
  const int fused = in.one_of<int>(kFused, " ");
  // That it fits the bias shows below.
  if (fused < kConvFusions) key.fusion = static_cast<ConvFusion>(fused);
  in.expect(" ");
  key.mode = in.one_of<ConvMode>(kModes, " ");
  const auto after = [&](std::string_view name) -> WordReader& {
    in.expect(name);
    return in;
  };
  key.x = read_tensor(after(" x="));
  key.w = read_tensor(after(" w="));
  key.y = read_tensor(after(" y="));
  key.bias = read_tensor(after(" bias="));
  key.compute = read_dtype(after(" residual=- compute="), " ");
  key.stride = read_sizes<2>(after(" stride="));
  key.pad = read_sizes<2>(after(" pad="));
  key.dilation = read_sizes<2>(after(" dilation="));
  key.groups = after(" groups=").number();
  key.tf32 = after(" tf32=").one_of<int>(kSwitch, " ") != 0;
  key.workspace_limit_bytes = after(" workspace=").number();
  ConvMachine machine;
  machine.device = read_quoted(after(" device="));
  machine.major = read_int(after(" sm="));
  machine.minor = read_int(after("."));
  machine.multiprocessors = read_int(after(" multiprocessors="));
  machine.library = read_quoted(after(" library="));
  machine.runtime = read_quoted(after(" runtime="));
  machine.driver = read_quoted(after(" driver="));
  key.machine = SharedMachine(std::move(machine));
  // Trailing text, "float32", "007" and "\x41" can be read, but no key writes them.
  LATHE_CHECK(DataError, concat(key) == text, "convolution key: not in its exact form: \"", text,
              "\"");
  return key;
}

}  // namespace lathe
