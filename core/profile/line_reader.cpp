// The few functions of libdw that are needed, declared here: its headers need not be installed.
// ref: elfutils' libdwfl.h and libdw.h.
#include "lathe/core/profile/line_reader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

namespace lathe::profile {

namespace {

// Opaque types and constants of libdwfl.
struct Dwfl;
struct DwflModule;
struct DwflLine;
struct DwarfLine;
struct DwarfFiles;
struct DwarfDie {
  void* fields[4];
};
struct DwarfAttribute {
  unsigned code, form;
  void* fields[2];
};
using Address = uint64_t;
using FindElf = int (*)(DwflModule*, void**, const char*, Address, char**, void**);
using FindDebugInfo = int (*)(DwflModule*, void**, const char*, Address, const char*, const char*,
                              uint32_t, char**);
struct Callbacks {
  FindElf find_elf;
  FindDebugInfo find_debuginfo;
  void* section_address;
  char** debuginfo_path;
};

// Numbers of DWARF 5.
constexpr int kInlinedSubroutine = 0x1d;
constexpr unsigned kCallFile = 0x58, kCallLine = 0x59;

/// A header of this library or of C++'s: what it defines inline stands between a program and us.
bool is_header_of_library(std::string_view file) {
  if (file.find("/c++/") != std::string_view::npos) return true;
  return file.ends_with(".h") && file.find("/lathe/") != std::string_view::npos;
}

/// Separate debug files are not looked for: the search may ask a server.
int find_nothing(DwflModule*, void**, const char*, Address, const char*, const char*, uint32_t,
                 char**) {
  return -1;
}

class Library {
 public:
  Library() {
    handle_ = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) return;
    callbacks_.find_elf = reinterpret_cast<FindElf>(dlsym(handle_, "dwfl_linux_proc_find_elf"));
    callbacks_.find_debuginfo = find_nothing;
    find(begin_, "dwfl_begin");
    find(report_begin_, "dwfl_report_begin_add");
    find(report_, "dwfl_linux_proc_report");
    find(report_end_, "dwfl_report_end");
    find(module_of_, "dwfl_addrmodule");
    find(name_of_, "dwfl_module_addrname");
    find(line_of_, "dwfl_module_getsrc");
    find(text_of_, "dwfl_lineinfo");
    find(next_unit_, "dwfl_module_nextcu");
    find(has_, "dwarf_haspc");
    find(line_of_unit_, "dwarf_getsrc_die");
    find(number_of_, "dwarf_lineno");
    find(file_of_, "dwarf_linesrc");
    find(unit_of_, "dwfl_module_addrdie");
    find(scopes_of_, "dwarf_getscopes");
    find(scopes_around_, "dwarf_getscopes_die");
    find(tag_of_, "dwarf_tag");
    find(attribute_of_, "dwarf_attr");
    find(value_of_, "dwarf_formudata");
    find(files_of_, "dwarf_getsrcfiles");
    find(file_at_, "dwarf_filesrc");
    if (callbacks_.find_elf == nullptr || !complete_) return;
    dwfl_ = begin_(&callbacks_);
    is_ready_ = dwfl_ != nullptr && report_modules();
  }

  bool is_ready() const { return is_ready_; }

  SourceLine find_line(Address address) {
    DwflModule* module = module_of_(dwfl_, address);
    if (module == nullptr && report_modules()) module = module_of_(dwfl_, address);  // dlopened
    SourceLine out;
    if (module == nullptr) return out;
    if (const char* const name = name_of_(module, address)) out.function = name;
    if (DwflLine* const line = line_of_(module, address)) {
      const char* const file = text_of_(line, nullptr, &out.line, nullptr, nullptr, nullptr);
      if (file != nullptr) out.file = file;
    } else {
      search_units(module, address, out);
    }
    if (is_header_of_library(out.file)) leave_inlined(module, address, out);
    return out;
  }

  static constexpr const char* kName = "libdw.so.1";

 private:
  /// What line_of_ finds through a table that clang does not write: the unit of an address.
  void search_units(DwflModule* module, Address address, SourceLine& out) {
    Address bias = 0;
    for (DwarfDie* unit = next_unit_(module, nullptr, &bias); unit != nullptr;
         unit = next_unit_(module, unit, &bias)) {
      if (has_(unit, address - bias) != 1) continue;
      DwarfLine* const line = line_of_unit_(unit, address - bias);
      if (line == nullptr || number_of_(line, &out.line) != 0) return;
      if (const char* const file = file_of_(line, nullptr, nullptr)) out.file = file;
      return;
    }
  }

  /// From a function of a header to the call that it was inlined into, and on from there until a
  /// line is none of a library's header. Without such a line `out` stays as it is.
  void leave_inlined(DwflModule* module, Address address, SourceLine& out) {
    Address bias = 0;
    DwarfDie* unit = unit_of_(module, address, &bias);
    for (DwarfDie* next = nullptr; unit == nullptr;) {
      next = next_unit_(module, next, &bias);
      if (next == nullptr) return;
      if (has_(next, address - bias) == 1) unit = next;
    }
    DwarfDie* found = nullptr;
    if (scopes_of_(unit, address - bias, &found) <= 0) return;
    DwarfDie innermost = found[0];
    std::free(found);
    const int count = scopes_around_(&innermost, &found);
    if (count <= 0) return;
    for (int i = 0; i < count; ++i) {
      if (tag_of_(&found[i]) == kInlinedSubroutine && read_call(unit, found[i], out)) break;
    }
    std::free(found);
  }

  /// The line of the call of an inlined function. → true if it is no header of a library
  bool read_call(DwarfDie* unit, DwarfDie& inlined, SourceLine& out) {
    Address file = 0, line = 0;
    DwarfFiles* files = nullptr;
    size_t count = 0;
    if (!read(inlined, kCallFile, file) || !read(inlined, kCallLine, line)) return false;
    if (files_of_(unit, &files, &count) != 0 || file >= count) return false;
    const char* const name = file_at_(files, file, nullptr, nullptr);
    if (name == nullptr || is_header_of_library(name)) return false;
    out.file = name;
    out.line = static_cast<int>(line);
    return true;
  }

  bool read(DwarfDie& die, unsigned what, Address& value) {
    DwarfAttribute attribute{};
    return attribute_of_(&die, what, &attribute) != nullptr && value_of_(&attribute, &value) == 0;
  }

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    complete_ = complete_ && function != nullptr;
  }

  bool report_modules() {
    report_begin_(dwfl_);
    const bool read = report_(dwfl_, getpid()) == 0;
    return report_end_(dwfl_, nullptr, nullptr) == 0 && read;
  }

  void* handle_ = nullptr;
  bool complete_ = true, is_ready_ = false;
  Callbacks callbacks_{};
  Dwfl* dwfl_ = nullptr;
  Dwfl* (*begin_)(const Callbacks*) = nullptr;
  void (*report_begin_)(Dwfl*) = nullptr;
  int (*report_)(Dwfl*, pid_t) = nullptr;
  int (*report_end_)(Dwfl*, void*, void*) = nullptr;
  DwflModule* (*module_of_)(Dwfl*, Address) = nullptr;
  const char* (*name_of_)(DwflModule*, Address) = nullptr;
  DwflLine* (*line_of_)(DwflModule*, Address) = nullptr;
  const char* (*text_of_)(DwflLine*, Address*, int*, int*, Address*, Address*) = nullptr;
  DwarfDie* (*next_unit_)(DwflModule*, DwarfDie*, Address*) = nullptr;
  int (*has_)(DwarfDie*, Address) = nullptr;
  DwarfLine* (*line_of_unit_)(DwarfDie*, Address) = nullptr;
  int (*number_of_)(DwarfLine*, int*) = nullptr;
  const char* (*file_of_)(DwarfLine*, Address*, Address*) = nullptr;
  DwarfDie* (*unit_of_)(DwflModule*, Address, Address*) = nullptr;
  int (*scopes_of_)(DwarfDie*, Address, DwarfDie**) = nullptr;
  int (*scopes_around_)(DwarfDie*, DwarfDie**) = nullptr;
  int (*tag_of_)(DwarfDie*) = nullptr;
  DwarfAttribute* (*attribute_of_)(DwarfDie*, unsigned, DwarfAttribute*) = nullptr;
  int (*value_of_)(DwarfAttribute*, Address*) = nullptr;
  int (*files_of_)(DwarfDie*, DwarfFiles**, size_t*) = nullptr;
  const char* (*file_at_)(DwarfFiles*, size_t, Address*, Address*) = nullptr;
};

std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}

/// Never closed: its own destructors could run after users of this library.
Library& library() {
  static Library& instance = *new Library;
  return instance;
}

}  // namespace

SourceLine line_of(uintptr_t address) {
  const std::lock_guard lock(mutex());
  return library().is_ready() ? library().find_line(address) : SourceLine{};
}

std::string line_library() {
  const std::lock_guard lock(mutex());
  return library().is_ready() ? Library::kName : "";
}

}  // namespace lathe::profile
