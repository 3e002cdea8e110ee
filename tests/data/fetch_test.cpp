#include "lathe/data/images/fetch.h"

#include <doctest/doctest.h>

#include <chrono>

#include "files.h"
#include "http_server.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/hash.h"
#include "lathe/data/images/byte_stream.h"
#include "lathe/data/images/verify.h"

namespace lathe::data {
namespace {

using namespace testing;

// Every case of this file that needs the network layer is skipped in a build without it.
auto needs_curl() { return doctest::skip(!fetch_available() || !gzip_available()); }
const char* kWhySkipped = "this build has no libcurl or no zlib";

std::string content() {
  std::string out;
  for (int k = 0; k < 200'000; ++k) out += static_cast<char>(k * 7 + k / 256);
  return out;
}

Download download_of(const std::string& bytes, const std::string& url) {
  return {url, static_cast<int64_t>(bytes.size()), md5_hex(bytes), ""};
}

template <class E>
std::string fetch_error(const Download& download, const TempDir& dir,
                        const FetchOptions& options = {}) {
  return message_of<E>([&] { fetch_file(download, dir / "f", options); });
}

TEST_CASE("fetch: brings a file, creates its directory, reports progress" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir dir;
  const HttpServer server({.content = content()});
  int64_t last = 0;
  fetch_file(download_of(content(), server.url()), dir / "a/b/f",
             {.progress = [&](const FetchProgress& p) {
               CHECK(p.done_bytes >= last);
               CHECK(p.total_bytes == 200'000);
               last = p.done_bytes;
               return true;
             }});
  CHECK(last == 200'000);
  CHECK(read_file(dir / "a/b/f") == content());
  CHECK(names_in(dir / "a/b") == std::vector<std::string>{"f"});
}

TEST_CASE("fetch: goes on where a broken connection stopped" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir dir;
  const HttpServer server({.content = content(), .drop_after = 60'000});
  fetch_file(download_of(content(), server.url()), dir / "f", {.pause_ms = 1});
  CHECK(read_file(dir / "f") == content());
  CHECK(server.requests() == std::vector<int64_t>{0, 60'000, 120'000, 180'000});
}

TEST_CASE("fetch: goes on in the next call, also after a full disk or a cancelled run" *
          needs_curl() * doctest::description(kWhySkipped)) {
  const TempDir dir;
  const HttpServer server({.content = content()});
  const Download download = download_of(content(), server.url());
  {
    const ArmedFault full(file_faults().write, 2);
    CHECK(fetch_error<FileError>(download, dir).find("writing failed: No space left on device") !=
          std::string::npos);
  }
  const auto here = static_cast<int64_t>(std::filesystem::file_size(dir / "f.part"));
  CHECK(here > 0);
  const FetchOptions cancelled{.progress = [](const FetchProgress&) { return false; }};
  CHECK(fetch_error<FileError>(download, dir, cancelled) ==
        server.url() + ": cancelled after " + std::to_string(here) + " of 200000 bytes");
  CHECK(names_in(dir.path()) == std::vector<std::string>{"f.part"});
  fetch_file(download, dir / "f");
  CHECK(read_file(dir / "f") == content());
  CHECK(server.requests().back() == here);
}

TEST_CASE("fetch: file and directory are synced before a download counts" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir dir;
  const HttpServer server({.content = content()});
  const Download download = download_of(content(), server.url());
  {
    const ArmedFault broken(file_faults().sync, 1);
    CHECK(fetch_error<FileError>(download, dir) ==
          (dir / "f.part").string() + ": cannot be synced: Input/output error");
    CHECK(names_in(dir.path()) == std::vector<std::string>{"f.part"});
  }
  const ArmedFault broken(file_faults().sync, 2);
  CHECK(fetch_error<FileError>(download, dir) ==
        (dir / "f").string() + ": cannot sync its directory: Input/output error");
  CHECK(read_file(dir / "f") == content());  // complete, but a power cut may take it back
}

TEST_CASE("fetch: begins again with a server that ignores ranges" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir dir;
  write_file(dir / "f.part", content().substr(0, 50'000));
  const HttpServer server({.content = content(), .ranges = false});
  fetch_file(download_of(content(), server.url()), dir / "f");
  CHECK(read_file(dir / "f") == content());
  CHECK(server.requests() == std::vector<int64_t>{50'000});
}

TEST_CASE("fetch: leftovers of another file are noticed by the checksum and fetched anew" *
          needs_curl() * doctest::description(kWhySkipped)) {
  const HttpServer server({.content = content()});
  for (const size_t size : {100u, 200'000u, 300'000u}) {  // a part, as much, and more than the file
    const TempDir dir;
    write_file(dir / "f.part", std::string(size, 'z'));
    fetch_file(download_of(content(), server.url()), dir / "f");
    CHECK(read_file(dir / "f") == content());
  }
}

TEST_CASE("fetch: other bytes than published are refused and removed" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir dir;
  const HttpServer server({.content = content()});
  Download download = download_of(content(), server.url());
  download.md5 = std::string(32, '0');
  CHECK(fetch_error<DataError>(download, dir) ==
        server.url() + ": MD5 is " + md5_hex(content()) + " instead of " + std::string(32, '0'));
  CHECK(names_in(dir.path()).empty());
  download.bytes = 199'999;
  CHECK(fetch_error<DataError>(download, dir) ==
        server.url() + ": sent more than the 199999 bytes that the file has");
  download.bytes = 200'001;
  CHECK(fetch_error<DataError>(download, dir) ==
        server.url() + ": sent 200000 bytes of the 200001 that the file has");
  CHECK(!std::filesystem::exists(dir / "f"));
}

TEST_CASE("fetch: a server that refuses, breaks, is absent or silent gives one line, soon" *
          needs_curl() * doctest::description(kWhySkipped)) {
  const TempDir dir;
  const auto start = std::chrono::steady_clock::now();
  {
    const HttpServer server({.status = 404});
    CHECK(fetch_error<FileError>(download_of(content(), server.url()), dir) ==
          server.url() + ": the server answered 404");
    CHECK(std::filesystem::is_empty(dir.path()));  // no part file without a byte
  }
  {
    const HttpServer server({.content = content(), .drop_after = 0});
    CHECK(fetch_error<FileError>(download_of(content(), server.url()), dir, {.pause_ms = 1})
              .find(server.url() + ": the connection broke after 0 of 200000 bytes") == 0);
    CHECK(server.requests().size() == 5);
    CHECK(fetch_error<FileError>(download_of(content(), server.url()), dir,
                                 {.least_bytes_per_s = 0, .attempts = 2, .pause_ms = 1})
              .find("; 2 connections in a row brought less than 1 new bytes each") !=
          std::string::npos);
  }
  {
    const HttpServer server({.content = content(), .stall_ms = 60'000});
    CHECK(fetch_error<FileError>(download_of(content(), server.url()), dir,
                                 {.stall_timeout_s = 1, .attempts = 1})
              .find(server.url()) == 0);
  }
  std::string gone;
  { gone = HttpServer({}).url(); }
  CHECK(fetch_error<FileError>(download_of(content(), gone), dir)
            .find(gone + ": cannot be reached: ") == 0);
  CHECK(fetch_error<FileError>(download_of(content(), "file:///etc/hostname"), dir)
            .find("file:///") == 0);
  // Not after the minute for which one of them was silent.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(50));
}

TEST_CASE("fetch: gives up where connections break without progress, and pauses between them" *
          needs_curl() * doctest::description(kWhySkipped)) {
  const TempDir dir;
  // Each connection brings a byte more than the one before, from the start again. Only the first
  // one brings enough that is new.
  const HttpServer server(
      {.content = content(), .ranges = false, .drop_after = 3000, .drop_later = 1});
  const auto start = std::chrono::steady_clock::now();
  const std::string why = fetch_error<FileError>(
      download_of(content(), server.url()), dir,
      {.stall_timeout_s = 2, .least_bytes_per_s = 1000, .attempts = 4, .pause_ms = 20});
  CHECK(why.find(server.url() + ": the connection broke after 3004 of 200000 bytes") == 0);
  CHECK(why.find("; 4 connections in a row brought less than 2000 new bytes each") !=
        std::string::npos);
  CHECK(server.requests().size() == 5);
  const auto pauses = std::chrono::milliseconds(20 + 40 + 80 + 160);
  CHECK(std::chrono::steady_clock::now() - start >= pauses);

  // A pause ends where the download is cancelled.
  std::chrono::steady_clock::time_point broke;
  const auto goes_on = [&](const FetchProgress& p) {
    if (p.done_bytes != 3005) return true;
    if (broke == std::chrono::steady_clock::time_point()) broke = std::chrono::steady_clock::now();
    return std::chrono::steady_clock::now() - broke < std::chrono::milliseconds(100);
  };
  CHECK(fetch_error<FileError>(download_of(content(), server.url()), dir,
                               {.progress = goes_on, .pause_ms = 60'000}) ==
        server.url() + ": cancelled after 3005 of 200000 bytes");
}

TEST_CASE("fetch: a connection that stays too slow counts as broken" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir dir;
  const HttpServer server({.content = content(), .trickle_ms = 20});
  const std::string why =
      fetch_error<FileError>(download_of(content(), server.url()), dir,
                             {.stall_timeout_s = 1, .least_bytes_per_s = 1000, .attempts = 1});
  CHECK(why.find(": the connection broke after ") != std::string::npos);
  CHECK(why.find("Operation too slow") != std::string::npos);
}

TEST_CASE("fetch: follows a redirection, and resumes through it" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir dir;
  write_file(dir / "f.part", content().substr(0, 1000));
  const HttpServer server({.content = content(), .redirect_to = "/there"});
  fetch_file(download_of(content(), server.url("/moved")), dir / "f");
  CHECK(read_file(dir / "f") == content());
}

TEST_CASE("fetch: two downloads of one file do not mix" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir dir;
  const HttpServer server({.content = content()});
  const Download download = download_of(content(), server.url());
  std::string second;
  fetch_file(download, dir / "f", {.progress = [&](const FetchProgress& p) {
               if (p.done_bytes > 0 && second.empty())
                 second = fetch_error<FileError>(download, dir);
               return true;
             }});
  CHECK(second == (dir / "f.part").string() + ": another process is downloading this file");
  CHECK(read_file(dir / "f") == content());
}

DatasetSource tiny_source(const std::string& url, const std::string& archive, const std::string& a,
                          const std::string& b) {
  return {.name = "tiny",
          .title = "Tiny",
          .folders = {"tiny-bin"},
          .downloads = {{url, static_cast<int64_t>(archive.size()), md5_hex(archive), "pack"}},
          .files = {{"a.bin", static_cast<int64_t>(a.size()), md5_hex(a), true},
                    {"b.bin", static_cast<int64_t>(b.size()), md5_hex(b), false}},
          .debian_package = ""};
}

TEST_CASE("fetch: a data set is unpacked, verified, and not fetched twice" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir root;
  const std::string a(70'000, 'a'),
      b = "bbb", archive = gzip(tar({{"pack/a.bin", a}, {"pack/readme", "r"}, {"pack/b.bin", b}}));
  const HttpServer server({.content = archive});
  const DatasetSource source = tiny_source(server.url("/tiny.tar.gz"), archive, a, b);
  CHECK(fetch_dataset(source, root.path()) == root / "tiny-bin");
  CHECK(names_in(root / "tiny-bin") == std::vector<std::string>{"a.bin", "b.bin"});
  CHECK(read_file(root / "tiny-bin/a.bin") == a);
  fetch_dataset(source, root.path());
  CHECK(server.requests().size() == 1);

  write_file(root / "tiny-bin/b.bin", "bxb");  // damaged: fetched again, the good file stays
  const auto before = std::filesystem::last_write_time(root / "tiny-bin/a.bin");
  fetch_dataset(source, root.path());
  CHECK(read_file(root / "tiny-bin/b.bin") == b);
  CHECK(std::filesystem::last_write_time(root / "tiny-bin/a.bin") == before);
}

TEST_CASE("fetch: single files are fetched one by one" * needs_curl() *
          doctest::description(kWhySkipped)) {
  const TempDir root;
  const std::string a = idx({2}, "ab"), packed = gzip(a);
  const HttpServer server({.content = packed});
  const DatasetSource source{
      .name = "one",
      .title = "One",
      .folders = {"one"},
      .downloads = {{server.url("/labels.gz"), static_cast<int64_t>(packed.size()), md5_hex(packed),
                     ""}},
      .files = {{"labels", static_cast<int64_t>(a.size()), md5_hex(a), true}},
      .debian_package = ""};
  const auto directory = fetch_dataset(source, root.path());
  CHECK(names_in(directory) == std::vector<std::string>{"labels.gz"});
  CHECK(verify_dataset(source, directory)[0].state == FileState::kOk);
}

TEST_CASE("verify: says of each file whether it is ok, differs or is missing") {
  const TempDir dir;
  const DatasetSource source = tiny_source("", "", "aaaa", "bbbb");
  const auto state_of = [&](const std::string& bytes, const std::string& name = "a.bin") {
    std::filesystem::remove(dir / "a.bin");
    std::filesystem::remove(dir / "a.bin.gz");
    write_file(dir / name, bytes);
    return verify_dataset(source, dir.path())[0];
  };
  CHECK(state_of("aaaa").state == FileState::kOk);
  if (gzip_available())
    CHECK(state_of(gzip("aaaa"), "a.bin.gz").state == FileState::kOk);  // the content counts
  CHECK(state_of("aaab").detail == "MD5 is " + md5_hex("aaab") + " instead of " + md5_hex("aaaa"));
  CHECK(state_of("aaa").detail == "has 3 bytes instead of 4");
  CHECK(state_of("aaaaa").detail == "has more than the 4 bytes published");
  if (gzip_available())
    CHECK(state_of(gzip("aaaa").substr(0, 20), "a.bin.gz").detail.find("truncated") !=
          std::string::npos);
  CHECK(state_of("aaaa").path == dir / "a.bin");
  const FileReport missing = verify_dataset(source, dir.path())[1];
  CHECK(missing.state == FileState::kMissing);
  CHECK(missing.path.empty());
}

}  // namespace
}  // namespace lathe::data
