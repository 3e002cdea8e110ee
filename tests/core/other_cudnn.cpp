// Preloaded into a program, this answers for cuDNN: version 9.5.1 (core_other_cudnn, cli_usage).
extern "C" __attribute__((visibility("default"))) int cudnnGetProperty(int which, int* value) {
  constexpr int kVersion[] = {9, 5, 1};
  *value = kVersion[which];
  return 0;
}
