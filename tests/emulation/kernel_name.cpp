// See kernel_name.h. Kernels have internal linkage, so only the table of all symbols has them,
// which is not loaded: it is read from the file.
#include "kernel_name.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace lathe::emulation {
namespace {

constexpr const char* kUnknown = "a kernel";

/// `count` of a type from an offset of the file; fewer where it ends.
template <class T>
std::vector<T> read_part(std::ifstream& file, uint64_t offset, size_t count) {
  std::vector<T> out(count);
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(count * sizeof(T)));
  out.resize(static_cast<size_t>(file.gcount()) / sizeof(T));
  return out;
}

/// The characters from an offset of the file to the next zero.
std::string read_text(std::ifstream& file, uint64_t offset) {
  std::string text;
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  std::getline(file, text, '\0');
  return text;
}

/// The mangled name at one of two addresses; "": none. With debugging information a program has
/// hundreds of megabytes, so only its table of symbols is read.
std::string find_symbol(const char* path, uint64_t from_base, uint64_t absolute) {
  std::ifstream file(path, std::ios::binary);
  const auto head = read_part<Elf64_Ehdr>(file, 0, 1);
  if (head.empty()) return "";
  const auto sections = read_part<Elf64_Shdr>(file, head[0].e_shoff, head[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto symbols =
        read_part<Elf64_Sym>(file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    for (const Elf64_Sym& symbol : symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      if (symbol.st_value != from_base && symbol.st_value != absolute) continue;
      return read_text(file, sections[section.sh_link].sh_offset + symbol.st_name);
    }
  }
  return "";
}

std::string found_name(void (*address)()) {
  Dl_info place{};
  auto* const at = reinterpret_cast<char*>(address);
  if (dladdr(at, &place) == 0 || place.dli_fname == nullptr) return kUnknown;
  const auto from_base = static_cast<uint64_t>(at - static_cast<char*>(place.dli_fbase));
  const auto absolute = reinterpret_cast<uint64_t>(at);  // of a program that is loaded at 0
  std::string name = find_symbol(place.dli_fname, from_base, absolute);
  if (name.empty()) {  // started by a path of elsewhere
    name = find_symbol("/proc/self/exe", from_base, absolute);
  }
  if (name.empty()) return kUnknown;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return plain ? plain.get() : name;
}

}  // namespace

std::string kernel_name(void (*address)()) {
  // A table takes milliseconds to read, and a test asks for the same kernels in every step.
  static std::mutex mutex;
  static std::map<void (*)(), std::string> names;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = names.try_emplace(address);
  if (is_new) place->second = found_name(address);
  return place->second;
}

}  // namespace lathe::emulation
