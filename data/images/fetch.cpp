// Downloads: the part file, repeated connections, the final check, and unpacking into a data set.
#include "lathe/data/images/fetch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/file_lock.h"
#include "lathe/core/files/hash.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/files/write_signals.h"
#include "lathe/data/images/http.h"
#include "lathe/data/images/tar.h"
#include "lathe/data/images/verify.h"

namespace lathe::data {
namespace {

namespace fs = std::filesystem;

/// The part file: the bytes so far, locked against other processes.
class PartFile {
 public:
  explicit PartFile(const fs::path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    LATHE_CHECK(FileError, descriptor_ >= 0, path.string(),
                ": cannot be opened: ", std::strerror(errno));
    try {
      LATHE_CHECK(FileError, try_lock(descriptor_, path.string()), path.string(),
                  ": another process is downloading this file");
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
  }
  /// Without a byte there is nothing to go on from.
  ~PartFile() {
    if (size() == 0) remove();
    ::close(descriptor_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  int64_t size() const { return ::lseek(descriptor_, 0, SEEK_END); }

  void resize(int64_t bytes) {
    LATHE_CHECK(FileError, ::ftruncate(descriptor_, bytes) == 0, path_.string(),
                ": cannot be shortened: ", std::strerror(errno));
  }

  void append(const char* bytes, size_t count) {
    ::lseek(descriptor_, 0, SEEK_END);
    while (count > 0) {
      ssize_t done = -1;
      if (file_faults().write.hit()) {
        errno = ENOSPC;
      } else {
        done = ::write(descriptor_, bytes, count);
      }
      if (done < 0 && errno == EINTR) continue;
      LATHE_CHECK(FileError, done >= 0, path_.string(), ": writing failed: ", std::strerror(errno));
      bytes += done;
      count -= static_cast<size_t>(done);
    }
  }

  /// Turns it into the file `target`. Its bytes are on the disk before it gets that name, and the
  /// name is on the disk before this returns, so a power cut leaves either the part file or the
  /// complete target.
  void become(const fs::path& target) {
    const bool faulty = file_faults().sync.hit();
    if (faulty) errno = EIO;
    const bool synced = !faulty && ::fsync(descriptor_) == 0;
    LATHE_CHECK(FileError, synced, path_.string(), ": cannot be synced: ", std::strerror(errno));
    std::error_code error;
    fs::rename(path_, target, error);
    LATHE_CHECK(FileError, !error, path_.string(), ": cannot be renamed to ", target.string(), ": ",
                error.message());
    path_.clear();
    sync_directory_of(target.string());
  }

  void remove() {
    if (!path_.empty()) ::unlink(path_.c_str());
    path_.clear();
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int descriptor_ = -1;
};

HttpResult transfer(const Download& download, PartFile& part, const FetchOptions& options) {
  int64_t size = part.size();
  const HttpRequest request{.url = download.url,
                            .from_byte = static_cast<uint64_t>(size),
                            .connect_timeout_ms = options.connect_timeout_ms,
                            .stall_timeout_s = options.stall_timeout_s,
                            .least_bytes_per_s = options.least_bytes_per_s};
  const HttpHandlers handlers{
      .start =
          [&](uint64_t first_byte) {
            // 0 from a server without ranges. Any other number would leave a gap or rewrite bytes.
            if (first_byte != static_cast<uint64_t>(size)) part.resize(size = 0);
            LATHE_CHECK(DataError, first_byte == static_cast<uint64_t>(size), download.url,
                        ": the server sent byte ", first_byte, " where byte ", request.from_byte,
                        " was asked for");
          },
      .data =
          [&](const char* bytes, size_t count) {
            size += static_cast<int64_t>(count);
            LATHE_CHECK(DataError, size <= download.bytes, download.url, ": sent more than the ",
                        download.bytes, " bytes that the file has");
            part.append(bytes, count);
          },
      .keep_going =
          [&] {
            return !options.progress || options.progress({download.url, size, download.bytes});
          }};
  // One for the whole transfer: libcurl writes to sockets, and the handlers to the part file.
  const WriteSignals signals;
  return http_get(request, handlers);
}

[[noreturn]] void fail_cancelled(const Download& download, int64_t bytes) {
  LATHE_FAIL(FileError, download.url, ": cancelled after ", bytes, " of ", download.bytes,
             " bytes");
}

/// Waits before another connection, longer after each one without progress.
void pause(const Download& download, int64_t bytes, int64_t failures, const FetchOptions& options) {
  using std::chrono::milliseconds;
  constexpr int64_t kMostDoublings = 5;
  constexpr milliseconds kBetweenQuestions{200};  // whether to go on
  milliseconds left(options.pause_ms << std::min(failures, kMostDoublings));
  while (left > milliseconds::zero()) {
    if (options.progress && !options.progress({download.url, bytes, download.bytes}))
      fail_cancelled(download, bytes);
    const milliseconds now = std::min(left, kBetweenQuestions);
    std::this_thread::sleep_for(now);
    left -= now;
  }
}

/// Downloads until the part file has its full size, over as many connections as that takes, as long
/// as they make progress.
void complete(const Download& download, PartFile& part, const FetchOptions& options) {
  constexpr long kRangeNotSatisfiable = 416;
  if (part.size() > download.bytes) part.resize(0);
  const int64_t progress =
      std::max<int64_t>(1, options.least_bytes_per_s * options.stall_timeout_s);
  // A server without ranges begins again each time, so the bytes of one connection are no progress
  // unless they go beyond those of all before.
  int64_t failures = 0, most = part.size();
  bool has_answered = false;
  while (part.size() < download.bytes) {
    const int64_t before = part.size();
    const HttpResult result = transfer(download, part, options);
    const int64_t after = part.size();
    switch (result.end) {
      case HttpEnd::kDone:
        LATHE_CHECK(DataError, after == download.bytes, download.url, ": sent ", after,
                    " bytes of the ", download.bytes, " that the file has");
        return;
      case HttpEnd::kCancelled: fail_cancelled(download, after);
      case HttpEnd::kRefused:
        if (result.status == kRangeNotSatisfiable && before > 0) {
          part.resize(0);
          continue;
        }
        LATHE_FAIL(FileError, download.url, ": the server answered ", result.status);
      case HttpEnd::kUnreachable:
        LATHE_CHECK(FileError, has_answered, download.url, ": cannot be reached: ", result.text);
        break;  // it was there before the connection broke
      case HttpEnd::kBroken: has_answered = true;
    }
    failures = after >= most + progress ? 0 : failures + 1;
    most = std::max(most, after);
    LATHE_CHECK(FileError, failures < options.attempts, download.url,
                ": the connection broke after ", after, " of ", download.bytes,
                " bytes: ", result.text, "; ", failures, " connections in a row brought less than ",
                progress, " new bytes each");
    pause(download, after, failures, options);
  }
}

std::string file_name_of(const std::string& url) { return url.substr(url.rfind('/') + 1); }

/// The files of the set that are missing or differ from the published ones.
std::vector<DatasetFile> files_to_bring(const DatasetSource& source, const fs::path& directory) {
  std::vector<DatasetFile> files;
  const auto reports = verify_dataset(source, directory);
  for (size_t k = 0; k < reports.size(); ++k)
    if (reports[k].state != FileState::kOk) files.push_back(source.files[k]);
  return files;
}

void fetch_archive(const Download& download, const std::vector<DatasetFile>& files,
                   const fs::path& directory, const FetchOptions& options) {
  const fs::path archive = directory / file_name_of(download.url);
  fetch_file(download, archive, options);
  std::vector<TarMember> members;
  members.reserve(files.size());
  for (const auto& file : files)
    members.push_back({download.folder + "/" + file.name, directory / file.name,
                       static_cast<uint64_t>(file.bytes)});
  extract_tar(archive, members, [&] {
    return !options.progress || options.progress({download.url, download.bytes, download.bytes});
  });
  std::error_code ignored;  // one file too many
  fs::remove(archive, ignored);
}

}  // namespace

void fetch_file(const Download& download, const fs::path& target, const FetchOptions& options) {
  if (!target.parent_path().empty()) make_folders(target.parent_path());
  PartFile part(target.string() + ".part");
  bool resumed = part.size() > 0;
  for (;; resumed = false) {
    complete(download, part, options);
    const std::string md5 = md5_hex_of_file(part.path().string());
    if (md5 == download.md5) break;
    if (resumed) {  // an earlier call may have left bytes of another file: try again from the start
      part.resize(0);
      continue;
    }
    part.remove();
    LATHE_FAIL(DataError, download.url, ": MD5 is ", md5, " instead of ", download.md5);
  }
  part.become(target);
}

fs::path fetch_dataset(const DatasetSource& source, const fs::path& root,
                       const FetchOptions& options) {
  fs::path directory = root / source.folders[0];
  make_folders(directory);
  const auto files = files_to_bring(source, directory);
  if (files.empty()) return directory;
  for (const auto& download : source.downloads) {
    if (!download.folder.empty()) {
      fetch_archive(download, files, directory, options);
      continue;
    }
    const std::string name = file_name_of(download.url);
    const bool wanted = std::any_of(files.begin(), files.end(),
                                    [&](const DatasetFile& f) { return name == f.name + ".gz"; });
    if (wanted) fetch_file(download, directory / name, options);
  }
  return directory;
}

bool fetch_available() { return http_available(); }

}  // namespace lathe::data
