// The SIGBUS handler, and the checks around each read.
#include "lathe/core/files/mapped_file.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <system_error>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constinit thread_local const MappedFile* reading = nullptr;

struct sigaction action_before;
uintptr_t page_bytes = 0;

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((action_before.sa_flags & SA_SIGINFO) != 0) {
    action_before.sa_sigaction(signal, info, context);
  } else if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN) {
    action_before.sa_handler(signal);
  } else {  // no handler: the access is repeated, and now ends the process where it happened
    ::sigaction(SIGBUS, &action_before, nullptr);
    if (info->si_code <= 0) ::raise(signal);  // no access to repeat: a process sent the signal
  }
}

}  // namespace

/// The handler. It calls only what a signal handler may call.
struct BusErrors {
  static void install() {
    static std::once_flag once;
    std::call_once(once, [] {
      page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
      struct sigaction action = {};
      action.sa_sigaction = &BusErrors::handle;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      sigemptyset(&action.sa_mask);
      ::sigaction(SIGBUS, &action, &action_before);
    });
  }

  static void handle(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    const bool of_file = info->si_code == BUS_ADRERR && reading != nullptr &&
                         put_zeros(*reading, static_cast<const std::byte*>(info->si_addr));
    if (!of_file) pass_on(signal, info, context);
    errno = error;
  }

  static bool put_zeros(const MappedFile& file, const std::byte* address) {
    if (address < file.data_ || address >= file.data_ + file.size()) return false;
    const auto at = reinterpret_cast<uintptr_t>(address) & ~(page_bytes - 1);
    const auto end = reinterpret_cast<uintptr_t>(file.data_) + static_cast<uintptr_t>(file.size());
    file.cut_off_.store(true, std::memory_order_release);
    // The bare system call, because mmap() may be a sanitizer's, which would report a write that
    // races with the other readers. They see the old page or zeros; check_present() tells which.
    return ::syscall(SYS_mmap, at, end - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                     -1L, 0L) != -1;
  }
};

MappedFile::Reading::Reading(const MappedFile& file) { reading = &file; }
MappedFile::Reading::~Reading() { reading = nullptr; }

MappedFile::MappedFile(std::string path) : file_(std::move(path)) {
  if (size() == 0) return;
  BusErrors::install();
  void* data =
      ::mmap(nullptr, static_cast<size_t>(size()), PROT_READ, MAP_SHARED, file_.descriptor_, 0);
  if (data == MAP_FAILED) {
    const int reason = errno;
    fail<FileError>({nullptr, 0}, this->path(),
                    ": cannot map: ", std::generic_category().message(reason));
  }
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(file_.size()));
}

void MappedFile::check_range(int64_t offset, int64_t count) const {
  if (offset >= 0 && count >= 0 && offset <= size() && count <= size() - offset) return;
  fail<FileError>({nullptr, 0}, path(), ": expected ", count, " bytes from byte ", offset,
                  ", but it has ", size());
}

void MappedFile::check_present(int64_t offset, int64_t count) const {
  // The last byte must be read last. The fence stops the compiler, and x86 keeps loads in order. (A
  // thread fence would do the same here, but GCC refuses it in TSan builds: -Wtsan.)
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::byte last = *static_cast<const volatile std::byte*>(data_ + offset + count - 1);
  if (last != std::byte{0}) return;
  const int64_t now = file_.current_size();
  if (now < offset + count) {
    fail<FileError>({nullptr, 0}, path(), ": was cut off while it was in use: it has ", now,
                    " bytes instead of ", size());
  }
  if (cut_off_.load(std::memory_order_acquire)) {
    fail<FileError>({nullptr, 0}, path(), ": cannot be read at byte ", offset,
                    " or behind: it was cut off for a time, or its device has an error");
  }
}

}  // namespace lathe
