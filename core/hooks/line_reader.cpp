// The few functions of libdw that are needed, declared here: its headers need not be installed.
// ref: elfutils' libdwfl.h and libdw.h.
#include "lathe/core/hooks/line_reader.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "lathe/core/shared_library.h"

namespace lathe::profile {

namespace {

// Opaque types and constants of libdwfl.
struct Dwfl;
struct DwflModule;
struct DwflLine;
struct DwarfLine;
struct DwarfFiles;
using Address = uint64_t;
struct DwarfDie {
  void *address, *unit, *abbreviation;
  long padding;
};
struct DwarfAttribute {
  unsigned code, form;
  unsigned char* value;
  void* unit;
};
constexpr int kInlinedSubroutine = 0x1d;  // DW_TAG_inlined_subroutine
constexpr unsigned kCallFile = 0x58, kCallLine = 0x59, kLinkageName = 0x6e;
using FindElf = int (*)(DwflModule*, void**, const char*, Address, char**, void**);
using FindDebugInfo = int (*)(DwflModule*, void**, const char*, Address, const char*, const char*,
                              uint32_t, char**);
struct Callbacks {
  FindElf find_elf;
  FindDebugInfo find_debuginfo;
  void* section_address;
  char** debuginfo_path;
};

/// Separate debug files are not looked for: the search may ask a server.
int find_nothing(DwflModule*, void**, const char*, Address, const char*, const char*, uint32_t,
                 char**) {
  return -1;
}

class Library {
 public:
  Library() {
    std::string problem;  // nobody asks why there are no lines
    handle_ = system_loader().open(kName, problem);
    if (handle_ == nullptr) return;
    find(callbacks_.find_elf, "dwfl_linux_proc_find_elf");
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
    find(scopes_at_, "dwarf_getscopes");
    find(scopes_of_, "dwarf_getscopes_die");
    find(tag_of_, "dwarf_tag");
    find(attribute_of_, "dwarf_attr_integrate");
    find(number_in_, "dwarf_formudata");
    find(text_in_, "dwarf_formstring");
    find(files_of_, "dwarf_getsrcfiles");
    find(name_of_file_, "dwarf_filesrc");
    if (!complete_) return;
    dwfl_ = begin_(&callbacks_);
    is_ready_ = dwfl_ != nullptr && report_modules();
  }

  bool is_ready() const { return is_ready_; }

  std::vector<SourceLine> find_lines(Address address) {
    DwflModule* module = module_of_(dwfl_, address);
    if (module == nullptr && report_modules()) module = module_of_(dwfl_, address);  // dlopened
    SourceLine out;
    if (module == nullptr) return {out};
    if (const char* const name = name_of_(module, address)) out.function = name;
    if (DwflLine* const line = line_of_(module, address)) {
      const char* const file = text_of_(line, nullptr, &out.line, nullptr, nullptr, nullptr);
      if (file != nullptr) out.file = file;
    } else {
      search_units(module, address, out);
    }
    return with_inlined(module, address, std::move(out));
  }

  static constexpr const char* kName = "libdw.so.1";

 private:
  /// The unit of an address, also where the table that clang does not write is missing.
  DwarfDie* unit_at(DwflModule* module, Address address, Address& bias) {
    DwarfDie* unit = unit_of_(module, address, &bias);
    for (DwarfDie* next = nullptr; unit == nullptr;) {
      next = next_unit_(module, next, &bias);
      if (next == nullptr) return nullptr;
      if (has_(next, address - bias) == 1) unit = next;
    }
    return unit;
  }

  /// What line_of_ finds where that table is there.
  void search_units(DwflModule* module, Address address, SourceLine& out) {
    Address bias = 0;
    DwarfDie* const unit = unit_at(module, address, bias);
    DwarfLine* const line = unit == nullptr ? nullptr : line_of_unit_(unit, address - bias);
    if (line == nullptr || number_of_(line, &out.line) != 0) return;
    if (const char* const file = file_of_(line, nullptr, nullptr)) out.file = file;
  }

  using Scopes = std::unique_ptr<DwarfDie[], void (*)(void*)>;

  /// `here`, which has the symbol's name and the innermost line, apart into the inlined calls.
  std::vector<SourceLine> with_inlined(DwflModule* module, Address address, SourceLine here) {
    std::vector<SourceLine> out;
    const std::string symbol = here.function;
    Address bias = 0;
    DwarfDie* const unit = unit_at(module, address, bias);
    if (unit != nullptr && here.line > 0) {
      DwarfDie* found = nullptr;
      const int any = scopes_at_(unit, address - bias, &found);
      const Scopes at(found, std::free);
      DwarfDie* around = nullptr;
      const int count = any > 0 ? scopes_of_(&at[0], &around) : 0;
      const Scopes scopes(around, std::free);
      for (int i = 0; i < count; ++i) {
        if (tag_of_(&scopes[i]) != kInlinedSubroutine) continue;
        SourceLine call = call_of(unit, &scopes[i]);
        here.function = linkage_name_of(&scopes[i]);
        out.push_back(std::exchange(here, std::move(call)));
      }
    }
    here.function = symbol;
    out.push_back(std::move(here));
    return out;
  }

  /// Where an inlined function was called.
  SourceLine call_of(DwarfDie* unit, DwarfDie* inlined) {
    SourceLine out;
    DwarfAttribute attribute;
    Address number = 0;
    if (attribute_of_(inlined, kCallLine, &attribute) != nullptr &&
        number_in_(&attribute, &number) == 0) {
      out.line = static_cast<int>(number);
    }
    DwarfFiles* files = nullptr;
    size_t count = 0;
    if (attribute_of_(inlined, kCallFile, &attribute) == nullptr ||
        number_in_(&attribute, &number) != 0 || files_of_(unit, &files, &count) != 0) {
      return out;
    }
    const char* const file =
        number < count ? name_of_file_(files, number, nullptr, nullptr) : nullptr;
    if (file != nullptr) out.file = file;
    return out;
  }

  /// Mangled. "" for a function of C, and where g++ compiled it for one of internal linkage:
  /// static, in an unnamed namespace, a lambda.
  std::string linkage_name_of(DwarfDie* inlined) {
    DwarfAttribute attribute;
    const char* const name = attribute_of_(inlined, kLinkageName, &attribute) == nullptr
                                 ? nullptr
                                 : text_in_(&attribute);
    return name == nullptr ? "" : name;
  }

  template <class Function>
  void find(Function*& function, const char* name) {
    function = FunctionAddress{system_loader().find(handle_, name)};
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
  int (*scopes_at_)(DwarfDie*, Address, DwarfDie**) = nullptr;
  int (*scopes_of_)(DwarfDie*, DwarfDie**) = nullptr;
  int (*tag_of_)(DwarfDie*) = nullptr;
  DwarfAttribute* (*attribute_of_)(DwarfDie*, unsigned, DwarfAttribute*) = nullptr;
  int (*number_in_)(DwarfAttribute*, Address*) = nullptr;
  const char* (*text_in_)(DwarfAttribute*) = nullptr;
  int (*files_of_)(DwarfDie*, DwarfFiles**, size_t*) = nullptr;
  const char* (*name_of_file_)(DwarfFiles*, size_t, Address*, Address*) = nullptr;
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

std::vector<SourceLine> lines_of(uintptr_t address) {
  const std::lock_guard lock(mutex());
  return library().is_ready() ? library().find_lines(address) : std::vector<SourceLine>(1);
}

std::string line_library() {
  const std::lock_guard lock(mutex());
  return library().is_ready() ? Library::kName : "";
}

}  // namespace lathe::profile
