// The names of this process's temporary files, where a signal handler can read them, and the
// removal of those that others have left. Contract: temporary_files.h.
#include "lathe/core/files/temporary_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lathe/core/files/paths.h"

namespace lathe {

namespace {

/// A thread reads the name of its own slot only: another thread may free that of its slot. The
/// handler takes a name out while it reads it, so that nobody frees it meanwhile. A forked process
/// has its parent's slots, which are not its own.
struct Slot {
  std::atomic<const void*> owner{nullptr};
  std::atomic<char*> path{nullptr};
  std::atomic<pid_t> process{0};  // 0: free
};
static_assert(std::atomic<char*>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

constexpr int kSlots = 64;  // a file beyond them is not removed by a signal, but swept later
Slot g_slots[kSlots];

/// Whether a name is NAME.tmpPID.N, of any NAME if `name` is "".
bool is_temporary(std::string_view file, std::string_view name) {
  const size_t mark = file.rfind(".tmp");
  if (mark == std::string_view::npos || mark == 0) return false;
  if (!name.empty() && file.substr(0, mark) != name) return false;
  const std::string_view numbers = file.substr(mark + 4);
  const size_t point = numbers.find('.');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return point != std::string_view::npos && is_number(numbers.substr(0, point)) &&
         is_number(numbers.substr(point + 1));
}

/// Removes the file unless its writer lives. NFS locks only what is open for writing.
void remove_if_left(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;  // gone, or of another user
  struct stat info {};
  if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode) && ::flock(file, LOCK_EX | LOCK_NB) == 0)
    ::unlink(path.c_str());
  ::close(file);
}

}  // namespace

void remove_temporary_files() noexcept {
  const int reason = errno;
  const pid_t self = ::getpid();
  for (Slot& slot : g_slots) {
    if (slot.process.load() != self) continue;
    if (char* const path = slot.path.exchange(nullptr)) {
      ::unlink(path);
      slot.path.store(path);
    }
  }
  errno = reason;
}

void sweep_temporary_files(const std::filesystem::path& folder, std::string_view name) {
  for (const std::string& file : names_in(folder)) {
    if (is_temporary(file, name)) remove_if_left((folder / file).string());
  }
}

void remember_temporary_file(const void* owner, const std::string& path) noexcept {
  char* const copy = ::strdup(path.c_str());
  if (copy == nullptr) return;
  for (Slot& slot : g_slots) {
    pid_t free = 0;
    if (!slot.process.compare_exchange_strong(free, ::getpid())) continue;
    slot.owner.store(owner);
    slot.path.store(copy);
    return;
  }
  std::free(copy);
}

void forget_temporary_file(const void* owner) noexcept {
  const pid_t self = ::getpid();
  for (Slot& slot : g_slots) {
    if (slot.process.load() != self || slot.owner.load() != owner) continue;
    std::free(slot.path.exchange(nullptr));
    slot.owner.store(nullptr);
    slot.process.store(0);
    return;
  }
}

}  // namespace lathe
