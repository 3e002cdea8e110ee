// A cuDNN of another version, 9.5.1, which computes nothing: core_other_cudnn, cli_info. Compiled
// with LACKS_EXECUTE it also lacks a function.
#define LATHE_EXPORT(function) \
  extern "C" __attribute__((visibility("default"))) int function() { return 1; }

extern "C" __attribute__((visibility("default"))) int cudnnGetProperty(int which, int* value) {
  constexpr int kVersion[] = {9, 5, 1};
  *value = kVersion[which];
  return 0;
}
LATHE_EXPORT(cudnnGetVersion)
LATHE_EXPORT(cudnnGetErrorString)
LATHE_EXPORT(cudnnGetLastErrorString)
LATHE_EXPORT(cudnnCreate)
LATHE_EXPORT(cudnnSetStream)
LATHE_EXPORT(cudnnBackendCreateDescriptor)
LATHE_EXPORT(cudnnBackendDestroyDescriptor)
LATHE_EXPORT(cudnnBackendSetAttribute)
LATHE_EXPORT(cudnnBackendGetAttribute)
LATHE_EXPORT(cudnnBackendFinalize)
#ifndef LACKS_EXECUTE
LATHE_EXPORT(cudnnBackendExecute)
#endif
