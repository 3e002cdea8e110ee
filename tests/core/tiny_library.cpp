// A library that shared_library_test.cpp loads, from several folders: it tells its number.
extern "C" __attribute__((visibility("default"))) int tiny_number() { return TINY_NUMBER; }
extern "C" __attribute__((visibility("default"))) int tiny_property(int which, int* value) {
  *value = which == 0 ? TINY_NUMBER : 0;
  return 0;
}
