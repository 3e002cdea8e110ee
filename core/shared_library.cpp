// Looking for a library, opening it and asking its version.
#include "lathe/core/shared_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

namespace {

class SystemLoader final : public LibraryLoader {
 public:
  // NOW: a library that lacks something fails here, before it computes. LOCAL: the program's own
  // library of another version must not be mixed with this one.
  static constexpr int kMode = RTLD_NOW | RTLD_LOCAL;

  void* find_loaded(const std::string& file) override {
    return dlopen(file.c_str(), kMode | RTLD_NOLOAD);
  }
  void* open(const std::string& file, std::string& problem) override {
    if (file.front() == '/' && access(file.c_str(), F_OK) != 0) return nullptr;
    void* const library = dlopen(file.c_str(), kMode);
    if (library == nullptr) problem = dlerror();
    return library;
  }
  void* find(void* library, const char* function) override { return dlsym(library, function); }
  std::string path_of(void* library) override {
    link_map* map = nullptr;
    return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
  }
};

std::string_view variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

/// The absolute paths of a list of folders; "" and "." would be the current folder.
std::vector<std::string> absolute_folders(std::string_view list) {
  std::vector<std::string> folders;
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(":;"), list.size());
    if (list.front() == '/') folders.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return folders;
}

/// The files that match a pattern of the shell.
std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return files;
}

}  // namespace

LibraryLoader& system_loader() {
  static SystemLoader the_loader;
  return the_loader;
}

std::string version_text(LibrarySource::Version version) {
  return concat(version.major, ".", version.minor, ".", version.patch);
}

std::vector<std::string> places_of(const LibrarySource& source) {
  std::vector<std::string> places;
  for (const std::string& folder : absolute_folders(variable("LD_LIBRARY_PATH"))) {
    places.push_back(folder + "/" + source.file);
  }
  if (source.folder.starts_with('/')) places.push_back(source.folder + "/" + source.file);
  for (const char* name : {"CUDNN_PYTHON_PREFIX", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
    for (const std::string& prefix : absolute_folders(variable(name))) {
      const std::vector<std::string> wheels =
          matches(prefix + "/lib*/python3*/*-packages/nvidia/*/lib/" + source.file);
      places.insert(places.end(), wheels.begin(), wheels.end());
    }
  }
  places.push_back(source.file);
  return places;
}

SharedLibrary::SharedLibrary(LibrarySource source, LibraryLoader& loader)
    : source_(std::move(source)), loader_(loader) {}

/// If a file is there but cannot be loaded, that reason is kept: it says more than "not found".
void SharedLibrary::look_for_it() {
  was_looked_for_ = true;
  handle_ = loader_.find_loaded(source_.file);
  std::string reason;
  for (const std::string& place : places_of(source_)) {
    if (handle_ != nullptr) break;
    std::string problem;
    handle_ = loader_.open(place, problem);
    if (reason.empty()) reason = problem;
  }
  if (handle_ != nullptr) {
    path_ = loader_.path_of(handle_);
  } else {
    problem_ = concat(source_.name, " cannot be loaded: ", reason, "; ", source_.advice);
  }
}

void SharedLibrary::fail() const {
  if (source_.of_gpu) LATHE_FAIL(NoCudaError, problem_);
  LATHE_FAIL(Error, problem_);
}

void SharedLibrary::open() {
  const std::lock_guard lock(mutex_);
  if (!was_looked_for_) look_for_it();
  if (handle_ == nullptr) fail();
}

FunctionAddress SharedLibrary::find_optional(const char* function) {
  open();
  return {loader_.find(handle_, function)};
}

FunctionAddress SharedLibrary::find(const char* function) {
  const FunctionAddress found = find_optional(function);
  if (found.address != nullptr) return found;
  const std::string loaded = version();
  const std::lock_guard lock(mutex_);
  problem_ = concat(source_.name, " ", loaded, " is loaded (", path_, "), but it has no function ",
                    function, ", which ", version_text(source_.built), " has; ", source_.advice);
  fail();
}

bool SharedLibrary::is_open() const {
  const std::lock_guard lock(mutex_);
  return handle_ != nullptr;
}

std::string SharedLibrary::path() const {
  const std::lock_guard lock(mutex_);
  return path_;
}

std::string SharedLibrary::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

// The property functions of all libraries take the same argument, a libraryPropertyType: 0 is the
// major version, 1 the minor one, 2 the patch.
std::string SharedLibrary::version() const {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr || source_.property == nullptr) return "";
  int (*const property)(int, int*) = FunctionAddress{loader_.find(handle_, source_.property)};
  if (property == nullptr) return "";
  LibrarySource::Version loaded;
  property(0, &loaded.major);
  property(1, &loaded.minor);
  property(2, &loaded.patch);
  return version_text(loaded);
}

}  // namespace lathe
