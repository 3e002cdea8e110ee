// Files of kernels, by descriptors: what was looked at is what is used, whoever renames a folder
// meanwhile. core/file.h follows symbolic links, as users want elsewhere. Contract:
// kernel_folder.h.
#include "lathe/graph/kernel_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "lathe/core/crc32c.h"
#include "lathe/core/format.h"
#include "lathe/core/log.h"
#include "lathe/core/write_signals.h"

namespace lathe::jit {

namespace {

constexpr std::string_view kKernelSuffix = ".kernel";
constexpr size_t kNameDigits = 64, kMostFiles = 1024;
constexpr int64_t kMostKernelBytes = int64_t{64} << 20;

/// An open file or folder.
class Opened {
 public:
  explicit Opened(int descriptor) : value_(descriptor) {}
  ~Opened() {
    const int reason = errno;  // a message may need it
    if (value_ >= 0) ::close(value_);
    errno = reason;
  }
  Opened(Opened&& from) noexcept : value_(std::exchange(from.value_, -1)) {}
  Opened& operator=(Opened&&) = delete;

  explicit operator bool() const { return value_ >= 0; }
  int get() const { return value_; }

 private:
  int value_;
};

std::string last_reason() { return std::generic_category().message(errno); }

/// "" if only the user whose rights the program has may write there.
std::string objection_to(const struct stat& info) {
  if (info.st_uid != ::geteuid()) return concat("it belongs to another user (", info.st_uid, ")");
  const bool is_open_to_others = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  return is_open_to_others ? "others than its owner may write there" : "";
}

void warn_of_folder(const std::string& folder, const std::string& reason) {
  warn_once(folder, concat("kernel cache: ", folder, ": ", reason,
                           "; kernels are compiled again at the next start"));
}

/// The folder, or nothing, with a warning unless there is none.
Opened open_folder(const std::string& folder) {
  Opened opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) {
    if (errno != ENOENT) warn_of_folder(folder, last_reason());
    return opened;
  }
  struct stat info = {};
  const std::string objection =
      ::fstat(opened.get(), &info) == 0 ? objection_to(info) : last_reason();
  if (objection.empty()) return opened;
  warn_of_folder(folder, concat("not used, because code from it is executed: ", objection));
  return Opened(-1);
}

/// False, with a warning, if it cannot be made.
bool make_folder(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::error_code reason;
  const std::filesystem::path above = std::filesystem::path(folder).parent_path();
  if (!above.empty()) std::filesystem::create_directories(above, reason);
  if (reason) {
    warn_of_folder(folder, concat(above.string(), ": ", reason.message()));
    return false;
  }
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return true;
  warn_of_folder(folder, last_reason());
  return false;
}

/// A file's first line. It tells a file that was cut off or changed.
std::string head_of(std::string_view code) {
  return concat("lathe kernel 1, ", code.size(), " bytes, crc32c ",
                crc32c(code.data(), code.size()), "\n");
}

/// The code in a file, or an objection to it. Neither if there is no such file.
std::optional<std::string> read_from(const Opened& folder, const std::string& file,
                                     std::string& objection) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const Opened opened(
      ::openat(folder.get(), file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info = {};
  if (!opened || ::fstat(opened.get(), &info) != 0) {
    if (errno != ENOENT) objection = errno == ELOOP ? "a symbolic link" : last_reason();
    return std::nullopt;
  }
  objection = S_ISREG(info.st_mode) ? objection_to(info) : "not a regular file";
  if (objection.empty() && info.st_size > kMostKernelBytes) objection = "too large";
  if (!objection.empty()) return std::nullopt;
  std::string content(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(opened.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;  // what is missing is seen below
    done += static_cast<size_t>(got);
  }
  const size_t line = std::min(content.find('\n'), content.size());
  std::string code = content.substr(std::min(line + 1, content.size()));
  if (done == content.size() && content == head_of(code) + code) return code;
  objection = "damaged";
  return std::nullopt;
}

bool write_all(const Opened& file, std::string_view text) {
  const WriteSignals signals;
  while (!text.empty()) {
    const ssize_t done = ::write(file.get(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    text.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

/// A new file under a name of its own, which then takes the place of `file`: a link there is
/// replaced, since a rename follows none. False with the reason in errno.
bool write_to(const Opened& folder, const std::string& file, std::string_view code) {
  static std::atomic<uint64_t> counter{0};
  std::string temporary;
  int descriptor = -1;
  // A process that was killed here, or one in another container, may have had the same number.
  for (int attempt = 0; attempt < 100 && descriptor < 0 && (attempt == 0 || errno == EEXIST);
       ++attempt) {
    temporary = concat(file, ".tmp", ::getpid(), ".", counter.fetch_add(1));
    descriptor = ::openat(folder.get(), temporary.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  }
  const Opened made(descriptor);
  if (!made) return false;
  if (write_all(made, head_of(code)) && write_all(made, code) && ::fsync(made.get()) == 0 &&
      ::renameat(folder.get(), temporary.c_str(), folder.get(), file.c_str()) == 0)
    return true;
  const int reason = errno;
  ::unlinkat(folder.get(), temporary.c_str(), 0);
  errno = reason;
  return false;
}

/// True for files of this folder, also for those that a killed process has begun.
bool is_ours(std::string_view file) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return file.find_first_not_of(kDigits) == kNameDigits &&
         file.substr(kNameDigits).starts_with(kKernelSuffix);
}

/// Leaves the newest files and room for one more.
void remove_oldest(const Opened& folder) {
  const int again = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(again < 0 ? nullptr : ::fdopendir(again),
                                                    [](DIR* d) { return ::closedir(d); });
  if (listing == nullptr) return;
  std::vector<std::pair<std::pair<int64_t, int64_t>, std::string>> files;  // by time
  while (const dirent* const entry = ::readdir(listing.get())) {
    struct stat info = {};
    if (!is_ours(entry->d_name) ||
        ::fstatat(folder.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    files.emplace_back(std::pair(info.st_mtim.tv_sec, info.st_mtim.tv_nsec), entry->d_name);
  }
  if (files.size() < kMostFiles) return;
  std::ranges::sort(files);
  files.resize(files.size() - kMostFiles + 1);
  for (const auto& [time, name] : files) ::unlinkat(folder.get(), name.c_str(), 0);
}

}  // namespace

std::optional<std::string> kept_code(const std::string& folder, const std::string& name) {
  const Opened opened = open_folder(folder);
  if (!opened) return std::nullopt;
  std::string objection;
  std::optional<std::string> code = read_from(opened, concat(name, kKernelSuffix), objection);
  if (!objection.empty()) {
    const std::string path = concat(folder, "/", name, kKernelSuffix);
    warn_once(path,
              concat("kernel cache: ", path, ": ", objection, "; its kernel is compiled again"));
  }
  return code;
}

void keep_code(const std::string& folder, const std::string& name, std::string_view code) {
  if (!make_folder(folder)) return;
  const Opened opened = open_folder(folder);
  if (!opened) return;
  remove_oldest(opened);
  if (!write_to(opened, concat(name, kKernelSuffix), code)) warn_of_folder(folder, last_reason());
}

}  // namespace lathe::jit
