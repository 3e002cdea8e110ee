// Libraries that are opened when they are first called: where they are looked for, and what is said
// of those that are not there. The libraries 1, 2 and 3 are made of tiny_library.cpp.
#include "lathe/core/shared_library.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "../data/files.h"
#include "lathe/core/error.h"

using namespace lathe;
using namespace lathe::data::testing;
namespace fs = std::filesystem;

namespace {

/// Sets a variable of the environment while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* const before = std::getenv(name);
    if (before != nullptr) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { setenv(name_, before_.c_str(), 1); }

 private:
  const char* const name_;
  std::string before_;
};

/// A copy of the tiny library with this number. Each case has a name of its own: what is loaded
/// stays loaded.
fs::path install_tiny(int number, const fs::path& folder, const std::string& file) {
  fs::create_directories(folder);
  fs::copy_file(concat(LATHE_TINY_LIBRARY, number), folder / file);
  return folder / file;
}

LibrarySource source_of(const std::string& file, const fs::path& folder = {}) {
  return {.name = "Tiny",
          .file = file,
          .folder = folder,
          .built = {1, 0, 0},
          .property = "tiny_property",
          .advice = "install tiny"};
}

int number_of(SharedLibrary& library) {
  int (*const tiny_number)() = library.find("tiny_number");
  return tiny_number();
}

/// Counts what is asked of it, and has one library with one function.
class CountingLoader final : public LibraryLoader {
 public:
  explicit CountingLoader(bool has_library) : has_library_(has_library) {}
  void* find_loaded(const std::string&) override { return nullptr; }
  void* open(const std::string& file, std::string& problem) override {
    if (file.front() != '/') ++opened;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for the other threads to arrive
    if (!has_library_) problem = file + ": not today";
    return has_library_ && file.front() != '/' ? this : nullptr;
  }
  void* find(void*, const char* function) override {
    ++found;
    return std::string(function) == "tiny_number" ? reinterpret_cast<void*>(&number) : nullptr;
  }
  std::string path_of(void*) override { return "/nowhere/libtiny.so"; }
  static int number() { return 3; }

  std::atomic<int> opened = 0, found = 0;

 private:
  const bool has_library_;
};

}  // namespace

TEST_CASE("shared library: opened by the first call, from where the build found it") {
  const TempDir folder;
  const fs::path file = install_tiny(1, folder.path() / "build", "libtiny_build.so.1");
  SharedLibrary library(source_of("libtiny_build.so.1", folder.path() / "build"));
  CHECK(!library.is_open());
  CHECK(library.version() == "");
  CHECK(dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD) == nullptr);
  CHECK(number_of(library) == 1);
  CHECK(library.is_open());
  CHECK(library.path() == file);
  CHECK(library.version() == "1.0.0");
  CHECK(library.problem() == "");
  CHECK(dlsym(RTLD_DEFAULT, "tiny_number") == nullptr);  // its functions are seen by nobody else
}

TEST_CASE("shared library: LD_LIBRARY_PATH comes before the folder of the build") {
  const TempDir folder;
  const std::string file = "libtiny_path.so.1";
  install_tiny(1, folder.path() / "build", file);
  install_tiny(2, folder.path() / "path", file);
  const Variable path("LD_LIBRARY_PATH", "/nowhere::" + (folder.path() / "path").string() + "/:.");
  SharedLibrary library(source_of(file, folder.path() / "build"));
  CHECK(number_of(library) == 2);
}

TEST_CASE("shared library: a wheel of a Python environment serves where nothing else does") {
  const TempDir folder;
  const std::string file = "libtiny_wheel.so.1";
  install_tiny(2, folder.path() / "env/lib/python3.11/site-packages/nvidia/tiny/lib", file);
  for (const char* name : {"CUDNN_PYTHON_PREFIX", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const Variable python(name, folder.path() / "env");
    SharedLibrary library(source_of(file, folder.path() / "build"));
    CHECK(number_of(library) == 2);
  }
}

TEST_CASE("shared library: what the program has loaded itself is used") {
  const TempDir folder;
  const std::string file = "libtiny_first.so.1";  // the soname of tiny library 3
  install_tiny(1, folder.path() / "build", file);
  const fs::path own = install_tiny(3, folder.path() / "own", file);
  REQUIRE(dlopen(own.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr);
  SharedLibrary library(source_of(file, folder.path() / "build"));
  CHECK(number_of(library) == 3);
  CHECK(library.path() == own);
}

TEST_CASE("shared library: the current folder is never looked in") {
  const TempDir folder;
  const std::string file = "libtiny_here.so.1";
  install_tiny(1, folder.path(), file);
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  for (const char* where : {"", ".", "./"}) {
    const Variable path("LD_LIBRARY_PATH", where), python("VIRTUAL_ENV", where);
    SharedLibrary library(source_of(file, where));
    CHECK(message_of<NoCudaError>([&] {
            library.open();
          }).starts_with("Tiny cannot be loaded: " + file));
  }
  fs::current_path(before);
}

TEST_CASE("shared library: one that is nowhere is an error with the reason and what to install") {
  SharedLibrary library(source_of("libtiny_nowhere.so.1", "/nowhere"));
  const std::string message = message_of<NoCudaError>([&] { library.find("tiny_number"); });
  CHECK(message ==
        "Tiny cannot be loaded: libtiny_nowhere.so.1: cannot open shared object file: No such file "
        "or directory; install tiny");
  CHECK(message_of<NoCudaError>([&] { library.open(); }) == message);
  CHECK(library.problem() == message);
  CHECK(!library.is_open());
}

TEST_CASE("shared library: a file that is no library is named, unless another one serves") {
  const TempDir folder;
  const std::string file = "libtiny_broken.so.1";
  write_file(folder / file, "no library");
  const std::string broken = (folder.path() / file).string();
  {
    SharedLibrary library(source_of(file, folder.path()));
    CHECK(message_of<NoCudaError>([&] {
            library.open();
          }).starts_with("Tiny cannot be loaded: " + broken));
  }
  install_tiny(1, folder.path() / "build", file);
  const Variable path("LD_LIBRARY_PATH", folder.path());
  SharedLibrary library(source_of(file, folder.path() / "build"));
  CHECK(number_of(library) == 1);
  CHECK(library.problem() == "");
}

TEST_CASE("shared library: a function that it lacks is an error that names function and file") {
  const TempDir folder;
  const fs::path file = install_tiny(2, folder.path(), "libtiny_poor.so.1");
  SharedLibrary library(source_of("libtiny_poor.so.1", folder.path()));
  const std::string message = message_of<NoCudaError>([&] { library.find("tiny_sum"); });
  CHECK(message == "Tiny 2.0.0 is loaded (" + file.string() +
                       "), but it has no function tiny_sum, which 1.0.0 has; install tiny");
  CHECK(library.problem() == message);
  CHECK(number_of(library) == 2);
}

TEST_CASE("shared library: it is looked for once, found or not, by however many threads") {
  for (const bool has_library : {true, false}) {
    CountingLoader loader(has_library);
    SharedLibrary library(source_of("libtiny_once.so.1"), loader);
    std::atomic<int> numbers = 0, errors = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        try {
          numbers += number_of(library);
        } catch (const NoCudaError&) {
          ++errors;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(loader.opened == 1);
    CHECK(numbers == (has_library ? 8 * 3 : 0));
    CHECK(errors == (has_library ? 0 : 8));
  }
}
