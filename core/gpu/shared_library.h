// SharedLibrary: a library that is opened when it is first called, and not when the program starts.
// So a program starts, and starts quickly, where the library is not. For NVIDIA's:
// cuda_libraries.h.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace lathe::cuda {

/// dlopen and dlsym. The emulated GPU has a loader of its own, and so have tests. Thread-safe.
class LibraryLoader {
 public:
  virtual ~LibraryLoader() = default;

  /// The library that this process holds under the name already, or null. Loads nothing.
  virtual void* find_loaded(const std::string& file) = 0;
  /// Loads a file, which a path or a name says; the system looks for a name. Null if it cannot be
  /// loaded: then `problem` says why, or stays as it is where the path leads to no file.
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
  std::string file;                // "libcudnn.so.9": its soname, which holds the major version
  std::string folder = {};         // where the build found it, an absolute path; "" if nowhere
  Version built = {};              // that the build was compiled with
  const char* property = nullptr;  // "cudnnGetProperty": tells the version
  std::string advice = {};         // "install libcudnn9-cuda-13, or nvidia-cudnn-cu13 with pip"
};

/// What open() tries, in this order: the file in each absolute folder of $LD_LIBRARY_PATH; in
/// source.folder; in the wheels (nvidia/*/lib) of the Python environments $CUDNN_PYTHON_PREFIX,
/// $VIRTUAL_ENV and $CONDA_PREFIX; and its name alone, which the system looks for in its folders.
/// The current folder is none of them. The variables do not count in a program with the rights of
/// another user.
std::vector<std::string> places_of(const LibrarySource& source);

/// An address that becomes a pointer to a function where it is stored as one.
struct FunctionAddress {
  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }
  void* address;
};

/// Thread-safe. What the process holds already, because the program itself links it, is used.
/// Otherwise the first file of places_of() that can be loaded is. The library is looked for once,
/// is never closed, and its functions are seen by nobody else.
class SharedLibrary {
 public:
  explicit SharedLibrary(LibrarySource source, LibraryLoader& loader = system_loader());

  /// Does nothing after the first time but throw again what that threw.
  /// throws: NoCudaError with the system's reason:
  ///   cuDNN cannot be loaded: libcudnn.so.9: cannot open shared object file: …; install …
  void open();
  /// A function; opens the library.
  /// throws: NoCudaError, also where it has none of that name: the message says function and file.
  FunctionAddress find(const char* function);

  const LibrarySource& source() const { return source_; }
  bool is_open() const;
  std::string path() const;     // of the file; "" before open() and if unknown
  std::string version() const;  // "9.19.0", as source().property says it; "" before open()
  /// The message of the last NoCudaError, or "".
  std::string problem() const;

 private:
  void look_for_it();

  const LibrarySource source_;
  LibraryLoader& loader_;
  mutable std::mutex mutex_;  // guards what follows
  bool was_looked_for_ = false;
  void* handle_ = nullptr;
  std::string path_, problem_;
};

std::string text_of(LibrarySource::Version version);

}  // namespace lathe::cuda

// A line of a table of functions: struct Functions { SharedLibrary& library; LATHE_FUNCTION(f); …};
// The member has the name and the type of the C function, and is found when the table is made. A
// macro, because only it makes a name, a type and a string of one word.
#define LATHE_FUNCTION(function) decltype(&::function) function = library.find(#function)
