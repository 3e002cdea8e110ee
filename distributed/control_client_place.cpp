// Where ranks meet: an address that all know, or a file that all see. Contract: control_client.h.
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "lathe/core/files/file.h"
#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/distributed/control_client.h"
#include "lathe/distributed/error.h"

namespace lathe::distributed {

namespace {

constexpr std::string_view kTcp = "tcp://", kFile = "file://";
constexpr size_t kLongestPlace = 4096;  // more than any HOST:PORT

std::string file_of(const GroupOptions& options) { return options.rendezvous.substr(kFile.size()); }
bool is_file(const GroupOptions& options) { return options.rendezvous.starts_with(kFile); }

HostPort tcp_place(const GroupOptions& options) {
  const HostPort place =
      parse_host_port(options.rendezvous.substr(kTcp.size()), "process group: rendezvous");
  LATHE_CHECK(ValueError, place.port > 0, "process group: rendezvous needs a port that all ranks ",
              "know, or a file, got \"", options.rendezvous, "\"");
  return place;
}

}  // namespace

std::string address_of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return name;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::string found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || name != at->ifa_name) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && (family != AF_INET6 || !found.empty())) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char host[NI_MAXHOST] = "";
    getnameinfo(at->ifa_addr, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    found = host;
    if (family == AF_INET) break;
  }
  return found.empty() ? name : found;
}

HostPort place_to_listen(const GroupOptions& options) {
  if (!is_file(options)) return tcp_place(options);
  return {options.address.empty() ? "127.0.0.1" : address_of_interface(options.address), 0};
}

void publish_place(const GroupOptions& options, const HostPort& place) {
  if (!is_file(options)) return;
  write_file_atomic(file_of(options), place.text() + "\n");
}

std::optional<HostPort> find_place(const GroupOptions& options, std::string& problem) {
  if (!is_file(options)) return tcp_place(options);
  const std::string path = file_of(options);
  // Without waiting for the other end of a pipe.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  char text[kLongestPlace];
  ssize_t count = -1;
  if (file.valid() && ::fstat(file.get(), &about) == 0) {
    LATHE_CHECK(ValueError, S_ISREG(about.st_mode), "process group: rendezvous: ", path,
                " is not a regular file");
    count = ::read(file.get(), text, sizeof text);
  }
  problem = count >= 0 || errno == ENOENT ? "rank 0 has not written its address there"
                                          : std::strerror(errno);
  if (count < 0) return std::nullopt;
  const std::string_view all(text, static_cast<size_t>(count));
  const std::string_view line = all.substr(0, all.find('\n'));
  if (line.empty()) return std::nullopt;
  if (line.size() + 1 < all.size()) {
    problem = "it holds more than the line of an address";
    return std::nullopt;
  }
  try {
    const HostPort place = parse_host_port(std::string(line), "process group: rendezvous file");
    if (place.port > 0) return place;
  } catch (const ValueError&) {  // the problem says it
  }
  problem = concat("it holds \"", printable(line.substr(0, 60)), "\" instead of HOST:PORT");
  return std::nullopt;
}

}  // namespace lathe::distributed
