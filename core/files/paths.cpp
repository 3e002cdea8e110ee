// std::filesystem with the reasons of its failures. Contract: paths.h.
#include "lathe/core/files/paths.h"

#include <algorithm>
#include <system_error>

#include "lathe/core/error.h"

namespace lathe {

namespace fs = std::filesystem;

namespace {

// A path ends at its first NUL in the message, too, so that the reason can be read.
[[noreturn]] void fail_to(const char* verb, const fs::path& path, const std::error_code& reason) {
  fail<FileError>({nullptr, 0}, path.c_str(), ": cannot ", verb, ": ", reason.message());
}

/// The type that fs::status or fs::symlink_status gives. "Not found" is one.
template <class Look>
fs::file_type type_by(Look look, const fs::path& path) {
  std::error_code reason;
  // The system would look at the part before a NUL.
  if (path.native().find('\0') != std::string::npos)
    fail_to("look at", path, std::make_error_code(std::errc::invalid_argument));
  const fs::file_type type = look(path, reason).type();
  if (type == fs::file_type::none) fail_to("look at", path, reason);
  return type;
}

/// Links are not followed.
fs::file_type own_type(const fs::path& path) {
  return type_by([](const fs::path& p, auto& reason) { return fs::symlink_status(p, reason); },
                 path);
}

/// As path_kind(), but never kNowhere.
PathKind kind_of_target(const fs::path& path) {
  const PathKind kind = path_kind(path);
  if (kind != PathKind::kNowhere) return kind;
  std::error_code unreadable;  // then the message names no target
  const fs::path target = fs::read_symlink(path, unreadable);
  fail<FileError>({nullptr, 0}, path.string(), ": is a symbolic link to ", target.string(),
                  ", which is not there");
}

}  // namespace

PathKind path_kind(const fs::path& path) {
  switch (type_by([](const fs::path& p, auto& reason) { return fs::status(p, reason); }, path)) {
    case fs::file_type::regular: return PathKind::kFile;
    case fs::file_type::directory: return PathKind::kFolder;
    case fs::file_type::not_found: break;
    default: return PathKind::kOther;
  }
  return own_type(path) == fs::file_type::symlink ? PathKind::kNowhere : PathKind::kNothing;
}

bool is_there(const fs::path& path) { return kind_of_target(path) != PathKind::kNothing; }
bool is_file(const fs::path& path) { return kind_of_target(path) == PathKind::kFile; }
bool is_folder(const fs::path& path) { return kind_of_target(path) == PathKind::kFolder; }

bool is_folder_entry(const fs::path& entry) {
  return !(entry.has_extension() && path_kind(entry) == PathKind::kNowhere) && is_folder(entry);
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  for (const fs::path& path : {a, b}) {
    const PathKind kind = path_kind(path);
    if (kind == PathKind::kNothing || kind == PathKind::kNowhere) return false;
  }
  std::error_code reason;
  const bool is_same = fs::equivalent(a, b, reason);
  if (reason) fail_to("compare", a, reason);
  return is_same;
}

fs::path end_of_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path at = path;
  for (int links = 0; own_type(at) == fs::file_type::symlink; ++links) {
    if (links == kMostLinks)
      fail_to("follow", path, std::make_error_code(std::errc::too_many_symbolic_link_levels));
    std::error_code reason;
    const fs::path target = fs::read_symlink(at, reason);
    if (reason) fail_to("follow", at, reason);
    at = at.parent_path() / target;  // an absolute target replaces the path
  }
  return at;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code reason;
  for (fs::directory_iterator at(folder, reason), end; !reason && at != end; at.increment(reason))
    names.push_back(at->path().filename().string());
  if (reason) fail_to("list", folder, reason);
  std::ranges::sort(names);
  return names;
}

std::string text_of(const fs::filesystem_error& error) {
  return error.path1().string() + ": " + error.code().message();
}

void make_folders(const fs::path& folder) {
  std::error_code reason;
  fs::create_directories(folder, reason);
  if (reason) fail_to("make the folder", folder, reason);
}

void remove_path(const fs::path& path) {
  std::error_code reason;
  fs::remove(path, reason);
  if (reason) fail_to("remove", path, reason);
}

}  // namespace lathe
