// Stands in for core/gpu/cuda_libraries.cpp, which knows libraries that this program does not need.
#include "lathe/core/gpu/cuda_libraries.h"

lathe::LibraryLoader& lathe::cuda::library_loader() { return system_loader(); }
