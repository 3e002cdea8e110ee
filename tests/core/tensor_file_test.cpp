// What a file of tensors is by its content, and what is said of files that are none.
#include "lathe/core/formats/tensor_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/core/formats/pth.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using namespace std::string_view_literals;
using data::testing::message_of;
using data::testing::TempDir;

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("tensor files: what is no file of weights is named, with what to do") {
  const TempDir dir;
  const std::string path = dir / "w.safetensors";
  const struct {
    std::string_view bytes, said;
  } cases[] = {
      {"", "is empty"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 44807000\n",
       "is a pointer of Git LFS, which stands for the file; `git lfs pull` fetches it"},
      {"\r\n  <!DOCTYPE HTML><html><title>Sign in</title>", "is a web page (HTML)"},
      {"<html lang=en>", "is a web page (HTML)"},
      {"Entry not found\n", "is text, not a file of weights; it begins with \"Entry not found\""},
      {"{\"error\":{\"code\":401}}", "it begins with \"{\\\"error\\\":{\\\"code\\\":401}}\""},
      {"\x89HDF\r\n\x1a\n\0\0\0\0"sv,
       "is an HDF5 file (Keras), which is not read; save the arrays"},
      {"\x1f\x8b\x08\0\0\0\0\0\0"sv, "is compressed with gzip; unpack it first"},
      {"\xff\xd8\xff\xe0\0\x10JFIF"sv, "is an image (JPEG)"},
      {"\x93NUMPY\1\0"sv, "is a single array without a name (.npy)"},
      {"7z\xbc\xaf\x27\x1c\0\4"sv, "is an archive (7z); unpack it first"},
      {"GGUF\3\0\0\0"sv, "is a GGUF file (llama.cpp), which is not read"},
      {"\x7f"
       "ELF\2\1\1\0\0"sv,
       "is in no format of weights that is read here (.safetensors, .npz, .pth)"},
  };
  for (const auto& [bytes, said] : cases) {
    CAPTURE(said);
    write_bytes(path, bytes);
    const std::string message = message_of<DataError>([&] { read_tensor_file(path); });
    CHECK_MESSAGE(message.find(path + ": ") == 0, message);
    CHECK_MESSAGE(message.find(said) != std::string::npos, message);
  }
  // An archive of stored files: one local header and one entry of the directory.
  const std::string_view name = "k.keras/config.json";
  const auto archive = [&] {
    const std::string length{static_cast<char>(name.size()), '\0'};
    std::string out = "PK\3\4" + std::string(22, '\0') + length + std::string(2, '\0');
    out += name;
    const auto begin = static_cast<char>(out.size());
    out += "PK\1\2" + std::string(24, '\0') + length + std::string(16, '\0');
    out += name;
    const auto bytes = static_cast<char>(46 + name.size());
    return out + "PK\5\6" + std::string(4, '\0') + std::string{1, 0, 1, 0, bytes, 0, 0, 0, begin} +
           std::string(5, '\0');
  };
  write_bytes(path, archive());
  const std::string message = message_of<DataError>([&] { read_tensor_file(path); });
  CHECK_MESSAGE(message.find("is a zip archive without arrays (.npz) and without a state dict "
                             "(.pth); it holds \"k.keras/config.json\"") != std::string::npos,
                message);
}

TEST_CASE("tensor files: only PyTorch's have sections") {
  const TempDir dir;
  StateDict state;
  state.add("a", ones({2}));
  for (const char* name : {"w.npz", "w.safetensors"}) {
    write_tensor_file(dir / name, state);
    CHECK(read_tensor_file(dir / name).tensors.size() == 1);
    CHECK(message_of<pth::SectionError>([&] {
            read_tensor_file(dir / name, "ema");
          }).find("a section (\"ema\") is named, but a file in the format ") != std::string::npos);
  }
}

}  // namespace
}  // namespace lathe
