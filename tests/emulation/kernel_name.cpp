// See kernel_name.h. Kernels have internal linkage, so only the table of all symbols has them,
// which is not loaded: it is read from the file.
#include "kernel_name.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

namespace lathe::emulation {
namespace {

constexpr const char* kUnknown = "a kernel";

std::vector<char> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The mangled name at `address`, which counts from where the file is loaded; null: none.
const char* find_symbol(const std::vector<char>& file, uint64_t address) {
  if (file.size() < sizeof(Elf64_Ehdr)) return nullptr;
  const auto* const head = reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(file.data() + head->e_shoff);
  for (int i = 0; i < head->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* const names = file.data() + sections[sections[i].sh_link].sh_offset;
    const auto* const symbols =
        reinterpret_cast<const Elf64_Sym*>(file.data() + sections[i].sh_offset);
    for (uint64_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
      const bool is_function = ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC;
      if (is_function && symbols[s].st_value == address) return names + symbols[s].st_name;
    }
  }
  return nullptr;
}

}  // namespace

std::string kernel_name(void (*address)()) {
  Dl_info place{};
  auto* const at = reinterpret_cast<char*>(address);
  if (dladdr(at, &place) == 0 || place.dli_fname == nullptr) return kUnknown;
  std::vector<char> file = read_file(place.dli_fname);
  if (file.empty()) file = read_file("/proc/self/exe");  // started by a path of elsewhere
  const auto* const base = static_cast<char*>(place.dli_fbase);
  const char* name = find_symbol(file, static_cast<uint64_t>(at - base));
  if (name == nullptr) name = find_symbol(file, reinterpret_cast<uint64_t>(at));  // loaded at 0
  if (name == nullptr) return kUnknown;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return plain ? plain.get() : name;
}

}  // namespace lathe::emulation
