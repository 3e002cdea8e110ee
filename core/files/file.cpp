// The system calls behind file.h, each with its fault point, and the steps of an atomic write.
#include "lathe/core/files/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/files/temporary_files.h"
#include "lathe/core/files/write_signals.h"

namespace lathe {

namespace {

// A path ends at its first NUL in the message, too, so that the reason can be read.
[[noreturn]] void fail_with_errno(const char* verb, const std::string& path) {
  const int reason = errno;
  fail<FileError>({nullptr, 0}, path.c_str(), ": cannot ", verb, ": ",
                  std::generic_category().message(reason));
}

// The system calls, each behind its fault point. `failed` sets errno for an injected fault.
bool failed(FaultPoint& point, int reason) {
  if (!point.hit()) return false;
  errno = reason;
  return true;
}

int open_file(const std::string& path, int flags) {
  if (failed(file_faults().open, EACCES)) return -1;
  if (path.find('\0') != std::string::npos) {  // the system would take the part before it
    errno = EINVAL;
    return -1;
  }
  return ::open(path.c_str(), flags | O_CLOEXEC, 0666);
}

bool sync_file(int descriptor) {
  return !failed(file_faults().sync, EIO) && ::fsync(descriptor) == 0;
}

bool rename_file(const std::string& from, const std::string& to) {
  return !failed(file_faults().rename, EACCES) && std::rename(from.c_str(), to.c_str()) == 0;
}

// Repeats `call(at, count)` until `bytes` are done or the file ends. Returns the bytes done, or -1
// with the error in errno. One call moves at most 1 GiB: the system's limit is just below 2 GiB.
template <class Call>
int64_t transfer(int64_t bytes, FaultPoint& fault, int reason, Call call) {
  int64_t done = 0;
  while (done < bytes) {
    if (failed(fault, reason)) return -1;
    int64_t count = std::min<int64_t>(bytes - done, 1 << 30);
    if (file_faults().partial.hit()) count = 1;
    const bool interrupted = failed(file_faults().interrupted, EINTR);
    const ssize_t moved = interrupted ? -1 : call(done, static_cast<size_t>(count));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return -1;
    if (moved == 0) break;
    done += moved;
  }
  return done;
}

// Closes the file at the end of a scope.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

Descriptor open_directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return {open_file(directory, O_RDONLY | O_DIRECTORY)};
}

// Locks a new temporary file against sweep_temporary_files(), as far as the file system has locks.
// False if a sweep was quicker: it holds the lock, or has removed the file already.
bool claim(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat info {};
  return ::fstat(descriptor, &info) != 0 || info.st_nlink > 0;
}

void sync_directory(const Descriptor& directory, const std::string& path) {
  if (!sync_file(directory.value) && errno != EINVAL)  // EINVAL: directories have no sync there
    fail_with_errno("sync its directory", path);
}

}  // namespace

FileFaults& file_faults() {
  static constinit FileFaults faults;
  return faults;
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer. Regular files ignore the flag.
  Descriptor opened{open_file(path_, O_RDONLY | O_NONBLOCK)};
  if (opened.value < 0) fail_with_errno("open", path_);
  struct stat info;
  if (::fstat(opened.value, &info) != 0) fail_with_errno("examine", path_);
  if (!S_ISREG(info.st_mode)) {
    fail<FileError>({nullptr, 0}, path_, ": cannot read: not a regular file");
  }
  size_ = info.st_size;
  descriptor_ = std::exchange(opened.value, -1);
}

InputFile::~InputFile() { ::close(descriptor_); }

int64_t InputFile::current_size() const {
  struct stat info;
  if (::fstat(descriptor_, &info) != 0) fail_with_errno("examine", path_);
  return info.st_size;
}

void InputFile::read(void* to, int64_t bytes, int64_t offset) const {
  const int64_t done = transfer(bytes, file_faults().read, EIO, [&](int64_t at, size_t count) {
    return ::pread(descriptor_, static_cast<char*>(to) + at, count, offset + at);
  });
  if (done < 0) fail_with_errno("read", path_);
  if (done < bytes) {
    fail<FileError>({nullptr, 0}, path_, ": expected ", bytes, " bytes from byte ", offset,
                    ", but it ends at byte ", offset + done);
  }
}

std::string read_file(const std::string& path, int64_t limit_bytes) {
  const Descriptor file{open_file(path, O_RDONLY)};
  if (file.value < 0) fail_with_errno("open", path);
  struct stat info;
  if (::fstat(file.value, &info) != 0) fail_with_errno("examine", path);
  std::string content;
  // One byte more than the file has, so that the end is seen. A pipe has no size: its room grows
  // with what comes.
  const int64_t expected = S_ISREG(info.st_mode) ? info.st_size : 4095;
  int64_t room = std::min<int64_t>(expected, limit_bytes) + 1;
  for (;;) {
    const size_t before = content.size();
    content.resize(before + static_cast<size_t>(room));
    const int64_t done = transfer(room, file_faults().read, EIO, [&](int64_t at, size_t count) {
      return ::read(file.value, content.data() + before + at, count);
    });
    if (done < 0) fail_with_errno("read", path);
    content.resize(before + static_cast<size_t>(done));
    const auto size = static_cast<int64_t>(content.size());
    if (size > limit_bytes) {
      fail<FileError>({nullptr, 0}, path, ": is larger than the limit of ",
                      readable_bytes(static_cast<uint64_t>(limit_bytes)));
    }
    if (done < room) return content;
    room = std::min(size, limit_bytes - size) + 1;
  }
}

AtomicFile::AtomicFile(const std::string& path) : path_(end_of_links(path).string()) {
  struct stat info;
  const bool exists = ::stat(path_.c_str(), &info) == 0;
  if (!exists && errno != ENOENT && errno != ENOTDIR) fail_with_errno("examine", path);
  if (exists && !S_ISREG(info.st_mode)) {
    fail<FileError>({nullptr, 0}, path, ": cannot replace: not a regular file");
  }
  static std::atomic<uint64_t> counter{0};
  // A process that was killed here may have left a file of this name: in a container all processes
  // have the same few numbers.
  for (int attempt = 0; attempt < 100 && descriptor_ < 0 && (attempt == 0 || errno == EEXIST);
       ++attempt) {
    temporary_ = concat(path_, ".tmp", ::getpid(), ".", counter.fetch_add(1));
    descriptor_ = open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL);
    if (descriptor_ >= 0 && !claim(descriptor_)) {
      ::close(std::exchange(descriptor_, -1));
      errno = EEXIST;
    }
  }
  if (descriptor_ < 0) fail_with_errno("create", path);  // the name that the caller knows
  remember_temporary_file(this, temporary_);
  if (exists) static_cast<void>(::fchmod(descriptor_, info.st_mode & 07777));  // fails: not ours
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  const int reason = errno;  // the caller's message needs it
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    forget_temporary_file(this);
  }
  temporary_.clear();
  errno = reason;
}

void AtomicFile::write(const void* data, size_t bytes) {
  LATHE_CHECK(StateError, descriptor_ >= 0, path_, ": write after commit or an error");
  const WriteSignals signals;
  const int64_t done = transfer(
      static_cast<int64_t>(bytes), file_faults().write, ENOSPC, [&](int64_t at, size_t count) {
        return ::write(descriptor_, static_cast<const char*>(data) + at, count);
      });
  if (done != static_cast<int64_t>(bytes)) {
    discard();  // what was written is incomplete and must not be committed
    fail_with_errno("write", path_);
  }
}

void AtomicFile::sync() {
  LATHE_CHECK(StateError, descriptor_ >= 0, path_, ": sync after commit or an error");
  if (!sync_file(descriptor_)) {
    discard();
    fail_with_errno("write", path_);
  }
}

void AtomicFile::commit() {
  LATHE_CHECK(StateError, descriptor_ >= 0, path_, ": commit after commit or an error");
  // The directory is opened before the rename, so that only its sync can fail afterwards.
  const Descriptor directory = open_directory_of(path_);
  if (directory.value < 0) {
    discard();
    fail_with_errno("open its directory", path_);
  }
  // The lock of claim() is held until the file has its name.
  const Descriptor lock{::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0)};
  if (!sync_file(descriptor_) || ::close(std::exchange(descriptor_, -1)) != 0) {
    discard();
    fail_with_errno("write", path_);
  }
  if (!rename_file(temporary_, path_)) {
    discard();
    fail_with_errno("replace", path_);
  }
  forget_temporary_file(this);
  temporary_.clear();  // it is the target now
  sync_directory(directory, path_);
}

void sync_directory_of(const std::string& path) {
  const Descriptor directory = open_directory_of(path);
  if (directory.value < 0) fail_with_errno("open its directory", path);
  sync_directory(directory, path);
}

void write_file_atomic(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace lathe
