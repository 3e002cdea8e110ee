// nlohmann's JSON, under a namespace of Lathe's own.
//
// Note [Names of header-only libraries]
// Eigen, {fmt}, nlohmann's JSON and dnnl.hpp are compiled into liblathe.a. A program may compile
// the same templates with other options (-mavx, EIGEN_MAX_ALIGN_BYTES) or of another version.
// The linker keeps one of two functions with the same name, and the callers of the other one can
// crash. So each file that includes such a library renames its namespace before that.
#pragma once

#define nlohmann nlohmann_for_lathe
#include <nlohmann/json.hpp>
