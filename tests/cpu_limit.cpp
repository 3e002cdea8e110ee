// A program with this in it runs as on an older processor where ONEDNN_MAX_CPU_ISA says so. oneDNN
// obeys that variable by itself. Here GCC's questions about the processor obey it too: which
// version of LATHE_CLONES the loader picks, and __builtin_cpu_supports.
//
// Both read tables of libgcc, once __cpu_indicator_init has filled them. The linker puts the
// function below in its place (--wrap); it takes away what the limit forbids. So the library is
// tested as it is: neither changed nor compiled again.
//
// The loader asks before the program can call libc, hence system calls without it.
#include <fcntl.h>
#include <sys/syscall.h>

// Layout and numbers are part of GCC's ABI; tests/ops/cpu_limit_test.cpp compares them with what
// the compiler makes of __builtin_cpu_supports.
struct CpuModel {
  unsigned vendor, type, subtype, features;
};
extern "C" {
extern CpuModel __cpu_model;         // features 0 to 31
extern unsigned __cpu_features2[3];  // features 32 to 127
int __real___cpu_indicator_init();   // the function that --wrap replaces
int __wrap___cpu_indicator_init();
}

namespace {

constexpr unsigned bit(int number) { return 1u << number; }

constexpr unsigned kToSse42 = bit(9) - 1;  // cmov, mmx, popcnt, sse to sse4.2
constexpr unsigned kToAvx2 =               // and avx, avx2, fma, bmi, bmi2
    kToSse42 | bit(9) | bit(10) | bit(14) | bit(16) | bit(17);
constexpr unsigned kToAvx512 =  // and avx512f, vl, bw, dq, cd
    kToAvx2 | bit(15) | bit(20) | bit(21) | bit(22) | bit(23);
constexpr unsigned kX86 = bit(95 - 64);  // the numbers 95 to 98 are x86-64 and its levels 2 to 4
constexpr unsigned kLevel2 = bit(96 - 96), kLevel3 = bit(97 - 96), kLevel4 = bit(98 - 96);

struct Limit {
  const char* name;
  unsigned features, levels;
};
constexpr Limit kLimits[] = {{"SSE41", kToSse42, kLevel2},
                             {"AVX2", kToAvx2, kLevel2 | kLevel3},
                             {"AVX512_CORE", kToAvx512, kLevel2 | kLevel3 | kLevel4}};

long system_call(long number, long a, long b, long c) {
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(number), "D"(a), "S"(b), "d"(c)
               : "rcx", "r11", "memory");
  return result;
}

// The bytes of the environment, one after another.
class Environment {
 public:
  Environment() {
    static const char path[] = "/proc/self/environ";
    file_ = system_call(SYS_open, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC, 0);
  }
  ~Environment() {
    if (file_ >= 0) system_call(SYS_close, file_, 0, 0);
  }

  // -1 at the end.
  int next() {
    static char buffer[4096];
    if (at_ == size_) {
      at_ = 0;
      size_ = system_call(SYS_read, file_, reinterpret_cast<long>(buffer), sizeof buffer);
      if (size_ <= 0) return -1;
    }
    return static_cast<unsigned char>(buffer[at_++]);
  }

 private:
  long file_, at_ = 0, size_ = 0;
};

// Null if the environment asks for none, or for one that is not in the table.
const Limit* asked_limit() {
  static const char name[] = "ONEDNN_MAX_CPU_ISA=";
  Environment environment;
  for (int c = 0; c != -1;) {  // c: the last byte that was read; 0 ends a variable
    int i = 0;
    while ((c = environment.next()) > 0 && c == name[i]) ++i;
    const bool found = name[i] == 0;
    unsigned candidates = bit(3) - 1;  // rows of the table that agree with the value so far
    for (i = 0; c > 0; ++i, c = environment.next()) {
      for (int row = 0; found && row < 3; ++row)
        if ((candidates & bit(row)) != 0 && kLimits[row].name[i] != c) candidates &= ~bit(row);
    }
    for (int row = 0; found && row < 3; ++row)
      if ((candidates & bit(row)) != 0 && kLimits[row].name[i] == 0) return &kLimits[row];
  }
  return nullptr;
}

}  // namespace

int __wrap___cpu_indicator_init() {
  const int result = __real___cpu_indicator_init();
  static bool known = false;
  static const Limit* limit;
  if (!known) limit = asked_limit();
  known = true;
  if (limit != nullptr) {
    __cpu_model.features &= limit->features;
    __cpu_features2[0] = 0;
    __cpu_features2[1] &= kX86;
    __cpu_features2[2] &= limit->levels;
  }
  return result;
}

// For a program without clones, of which the loader asks nothing.
[[gnu::constructor]] static void limit_before_main() { __wrap___cpu_indicator_init(); }
