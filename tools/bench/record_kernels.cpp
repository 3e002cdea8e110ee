// Writes down every kernel, copy and fill that a program runs on a GPU, for kernel_times.py. The
// CUDA driver loads it into a program that it does not know:
//
//     CUDA_INJECTION64_PATH=librecord_kernels.so RECORD_KERNELS=FILE lathe bench step --device cuda
//
// Each line is "start<TAB>nanoseconds<TAB>registers<TAB>shared bytes<TAB>grid<TAB>block<TAB>name",
// in the order in which the records arrive. ref: NVIDIA CUPTI, Activity API.
#include <cupti.h>
#include <cxxabi.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;
std::mutex writing;
std::FILE* file = nullptr;

std::string readable(const char* name) {
  if (name == nullptr) return "?";
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string out = status == 0 ? text : name;
  std::free(text);
  return out;
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void write(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* k = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    std::fprintf(file, "%" PRIu64 "\t%" PRIu64 "\t%u\t%d\t%dx%dx%d\t%dx%dx%d\t%s\n", k->start,
                 k->end - k->start, k->registersPerThread,
                 k->staticSharedMemory + k->dynamicSharedMemory, k->gridX, k->gridY, k->gridZ,
                 k->blockX, k->blockY, k->blockZ, readable(k->name).c_str());
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* m = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
    std::fprintf(file, "%" PRIu64 "\t%" PRIu64 "\t0\t0\t-\t-\tmemcpy kind %d\n", m->start,
                 m->end - m->start, m->copyKind);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* m = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    std::fprintf(file, "%" PRIu64 "\t%" PRIu64 "\t0\t0\t-\t-\tmemset\n", m->start,
                 m->end - m->start);
  }
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard lock(writing);
  CUpti_Activity* record = nullptr;
  while (file != nullptr && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    write(record);
  std::free(buffer);
}

void finish() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(writing);
  if (file != nullptr) std::fclose(file);
  file = nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* path = std::getenv("RECORD_KERNELS");
  if (path == nullptr || (file = std::fopen(path, "w")) == nullptr) return 1;
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    cuptiActivityEnable(kind);
  std::atexit(finish);
  return 1;
}
