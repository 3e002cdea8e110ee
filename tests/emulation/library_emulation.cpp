// The loader of the emulated GPU: its "files" are the emulated cuDNN, cuBLASLt and NCCL, which
// the program holds. LATHE_EMULATED_LIBRARIES names those that are installed, with spaces between; all
// of them if it is not set.
#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "lathe/core/format.h"
#include "lathe/core/gpu/cuda_libraries.h"

namespace lathe::cuda {

namespace {

// Made when first asked for: a test asks for devices before main.
using Table = std::map<std::string, void*>;

// A line of a table. A macro, because only it makes a string and an address of one word.
#define LATHE_EMULATED(function) \
  { #function, reinterpret_cast < void*>(&function) }

// The loaders of other files ask by number: 0 major, 1 minor, 2 patch.
int cudnn_property(int which, int* value) {
  constexpr int kVersion[] = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};
  *value = kVersion[which];
  return 0;
}
int cublas_property(int which, int* value) {
  constexpr int kVersion[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
  *value = kVersion[which];
  return 0;
}

const Table& cudnn_table() {
  static const Table table = {
      {"cudnnGetProperty", reinterpret_cast<void*>(&cudnn_property)},
      LATHE_EMULATED(cudnnGetVersion),
      LATHE_EMULATED(cudnnGetErrorString),
      LATHE_EMULATED(cudnnGetLastErrorString),
      LATHE_EMULATED(cudnnCreate),
      LATHE_EMULATED(cudnnSetStream),
      LATHE_EMULATED(cudnnBackendCreateDescriptor),
      LATHE_EMULATED(cudnnBackendDestroyDescriptor),
      LATHE_EMULATED(cudnnBackendSetAttribute),
      LATHE_EMULATED(cudnnBackendGetAttribute),
      LATHE_EMULATED(cudnnBackendFinalize),
      LATHE_EMULATED(cudnnBackendExecute),
  };
  return table;
}

const Table& cublas_table() {
  static const Table table = {
      {"cublasLtGetProperty", reinterpret_cast<void*>(&cublas_property)},
      LATHE_EMULATED(cublasLtGetStatusString),
      LATHE_EMULATED(cublasLtCreate),
      LATHE_EMULATED(cublasLtMatmulDescCreate),
      LATHE_EMULATED(cublasLtMatmulDescDestroy),
      LATHE_EMULATED(cublasLtMatmulDescSetAttribute),
      LATHE_EMULATED(cublasLtMatrixLayoutCreate),
      LATHE_EMULATED(cublasLtMatrixLayoutDestroy),
      LATHE_EMULATED(cublasLtMatrixLayoutSetAttribute),
      LATHE_EMULATED(cublasLtMatmulPreferenceCreate),
      LATHE_EMULATED(cublasLtMatmulPreferenceDestroy),
      LATHE_EMULATED(cublasLtMatmulPreferenceSetAttribute),
      LATHE_EMULATED(cublasLtMatmulAlgoGetHeuristic),
      LATHE_EMULATED(cublasLtMatmul),
  };
  return table;
}

const Table& nccl_table() {
  static const Table table = {
      LATHE_EMULATED(ncclGetUniqueId),    LATHE_EMULATED(ncclCommInitRankConfig),
      LATHE_EMULATED(ncclCommFinalize),   LATHE_EMULATED(ncclCommDestroy),
      LATHE_EMULATED(ncclCommAbort),      LATHE_EMULATED(ncclCommGetAsyncError),
      LATHE_EMULATED(ncclGetErrorString), LATHE_EMULATED(ncclGetLastError),
      LATHE_EMULATED(ncclAllReduce),      LATHE_EMULATED(ncclBroadcast),
      LATHE_EMULATED(ncclAllGather),      LATHE_EMULATED(ncclReduceScatter),
  };
  return table;
}

/// Null: there is no such file.
const Table* table_of(const std::string& file) {
  if (file == concat("libcudnn.so.", CUDNN_MAJOR)) return &cudnn_table();
  if (file == concat("libcublasLt.so.", CUBLAS_VER_MAJOR)) return &cublas_table();
  if (file == concat("libnccl.so.", NCCL_MAJOR)) return &nccl_table();
  return nullptr;
}

bool is_installed(const std::string& file) {
  const char* const list = std::getenv("LATHE_EMULATED_LIBRARIES");
  if (list == nullptr) return true;
  std::istringstream words(list);
  for (std::string word; words >> word;) {
    if (word == file) return true;
  }
  return false;
}

class EmulatedLoader final : public LibraryLoader {
 public:
  void* find_loaded(const std::string&) override { return nullptr; }
  void* open(const std::string& file, std::string& problem) override {
    if (file.front() == '/') return nullptr;
    const Table* const table = table_of(file);
    if (table != nullptr && is_installed(file)) return const_cast<Table*>(table);
    problem = concat(file, ": cannot open shared object file: No such file or directory");
    return nullptr;
  }
  void* find(void* library, const char* function) override {
    const Table& table = *static_cast<const Table*>(library);
    const auto found = table.find(function);
    return found == table.end() ? nullptr : found->second;
  }
  std::string path_of(void* library) override {
    if (library == &nccl_table()) return "/emulated/nccl";
    return library == &cudnn_table() ? "/emulated/cudnn" : "/emulated/cublasLt";
  }
};

}  // namespace

LibraryLoader& emulated_loader() {
  static EmulatedLoader the_loader;
  return the_loader;
}

}  // namespace lathe::cuda
