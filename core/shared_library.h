// SharedLibrary: a library that is opened when it is first called, not when the program starts. So
// the program also starts where the library is absent, and starts quickly. NVIDIA's libraries are
// in gpu/cuda_libraries.h, oneDNN is in ops/onednn/onednn_table.h.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace lathe {

/// dlopen and dlsym. The emulated GPU and tests have loaders of their own. Thread-safe.
class LibraryLoader {
 public:
  virtual ~LibraryLoader() = default;

  /// The library that this process already holds under this name, or null. Loads nothing.
  virtual void* find_loaded(const std::string& file) = 0;
  /// Loads a file by its path, or by its name, which the system looks for. Null if it cannot be
  /// loaded: `problem` then says why; it does not change if the path leads to no file.
  virtual void* open(const std::string& file, std::string& problem) = 0;
  /// The address of a function, or null.
  virtual void* find(void* library, const char* function) = 0;
  /// The path of the file that was loaded, "" if unknown.
  virtual std::string path_of(void* library) = 0;
};
LibraryLoader& system_loader();

struct LibrarySource {
  struct Version {
    int major = 0, minor = 0, patch = 0;
  };

  std::string name;                // "cuDNN", for messages
  std::string file;                // "libcudnn.so.9": its soname, which contains the major version
  std::string folder = {};         // where the build found it, an absolute path; "" if nowhere
  Version built = {};              // the version that the build was compiled with
  const char* property = nullptr;  // "cudnnGetProperty": returns the version
  std::string advice = {};         // "install libcudnn9-cuda-13, or nvidia-cudnn-cu13 with pip"
  bool of_gpu = true;              // errors are NoCudaErrors; else plain Errors
};

/// What open() tries, in this order:
/// - the file in each absolute folder of $LD_LIBRARY_PATH
/// - the file in source.folder
/// - the file in the wheels (nvidia/*/lib) of the Python environments $CUDNN_PYTHON_PREFIX,
///   $VIRTUAL_ENV and $CONDA_PREFIX
/// - its name alone, which the system looks for in its own folders
/// Never the current folder. The variables are ignored in a program that runs with the rights of
/// another user.
std::vector<std::string> places_of(const LibrarySource& source);

/// An address that converts to any pointer to a function.
struct FunctionAddress {
  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }
  void* address;
};

/// Thread-safe. Uses the library that the process already holds, if the program itself links it;
/// otherwise the first file of places_of() that can be loaded. It is looked for once and never
/// closed, and its functions are not visible to other libraries.
class SharedLibrary {
 public:
  explicit SharedLibrary(LibrarySource source, LibraryLoader& loader = system_loader());

  /// Opens the library. Later calls do nothing, or throw again what the first one threw.
  /// throws: NoCudaError (or Error, see of_gpu) with the system's reason:
  ///   cuDNN cannot be loaded: libcudnn.so.9: cannot open shared object file: …; install …
  void open();
  /// The address of a function. Opens the library.
  /// throws: as open(), also if it has no such function: the message names function and file.
  FunctionAddress find(const char* function);
  /// The same; null if it has no such function, or none of the libraries that it was linked with.
  FunctionAddress find_optional(const char* function);

  const LibrarySource& source() const { return source_; }
  bool is_open() const;
  std::string path() const;     // of the file; "" before open() and if unknown
  std::string version() const;  // "9.19.0", from source().property; "" before open()
  /// The message of the last error, or "".
  std::string problem() const;

 private:
  void look_for_it();
  [[noreturn]] void fail() const;

  const LibrarySource source_;
  LibraryLoader& loader_;
  mutable std::mutex mutex_;  // guards what follows
  bool was_looked_for_ = false;
  void* handle_ = nullptr;
  std::string path_, problem_;
};

/// "9.19.0".
std::string version_text(LibrarySource::Version version);

}  // namespace lathe

// A line of a table of functions: struct Functions { SharedLibrary& library; LATHE_FUNCTION(f); …};
// The member has the name and the type of the C function, and is found when the table is made. (A
// macro, because one word must give a name, a type and a string.)
#define LATHE_FUNCTION(function) decltype(&::function) function = library.find(#function)
