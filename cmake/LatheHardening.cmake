# What makes a mistake in a parser of files end the program instead of serving whoever made the file: for the command
# and for the sources that read bytes of others. Kernels are left alone. It adds to what a distribution sets already;
# with sanitizers only the standard library's assertions are left.
#   -fstack-protector-strong   a return address that was written over ends the program
#   _FORTIFY_SOURCE            sizes of buffers are checked in libc's functions; needs optimisation
#   _GLIBCXX_ASSERTIONS        indices of vectors, strings and spans are checked
#   relro, now, pie            no address of a function can be written to, or is known in advance

include(CheckCXXSourceCompiles)
include(CheckPIESupported)

check_cxx_compiler_flag(-fstack-protector-strong LATHE_HAS_STACK_PROTECTOR)
check_linker_flag(CXX "LINKER:-z,relro,-z,now" LATHE_HAS_RELRO)
check_pie_supported(LANGUAGES CXX)
# An older libc warns that it takes 3 for 2.
set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_cxx_source_compiles("#include <cstring>\nint main() { return 0; }" LATHE_HAS_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)

# Undefined first: a distribution may define them otherwise.
set(LATHE_HARDENING -U_GLIBCXX_ASSERTIONS -D_GLIBCXX_ASSERTIONS)
if(NOT LATHE_SANITIZE)
  if(LATHE_HAS_STACK_PROTECTOR)
    list(APPEND LATHE_HARDENING -fstack-protector-strong)
  endif()
  set(_level 2)
  if(LATHE_HAS_FORTIFY_3)
    set(_level 3)
  endif()
  set(_optimised "$<CONFIG:Release,RelWithDebInfo,MinSizeRel>")
  list(APPEND LATHE_HARDENING
       "$<${_optimised}:-U_FORTIFY_SOURCE>" "$<${_optimised}:-D_FORTIFY_SOURCE=${_level}>")
endif()

# lathe_harden(target): all of a target that nvcc does not compile.
function(lathe_harden target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE ${LATHE_HARDENING})
  lathe_harden_link(${target})
endfunction()

function(lathe_harden_link target)
  if(LATHE_HAS_RELRO)
    target_link_options(${target} PRIVATE "LINKER:-z,relro,-z,now")
  endif()
endfunction()

# lathe_harden_parsers(target): the library's sources that read bytes which others have written.
function(lathe_harden_parsers target)
  set(parsers
    core/files/file.cpp
    core/formats/byte_source.cpp
    core/formats/deflate_zlib.cpp
    core/formats/json_cursor.cpp
    core/formats/npy.cpp
    core/formats/npy_header.cpp
    core/formats/npz.cpp
    core/formats/pickle.cpp
    core/formats/protobuf_reader.cpp
    core/formats/pth.cpp
    core/formats/safetensors.cpp
    core/formats/safetensors_header.cpp
    core/formats/tensor_bytes.cpp
    core/formats/tensor_file.cpp
    core/formats/zip_reader.cpp
    core/files/mapped_file.cpp
    core/utf8.cpp
    data/images/byte_stream.cpp
    data/images/cifar.cpp
    data/images/fetch.cpp
    data/images/http_curl.cpp
    data/images/idx.cpp
    data/images/image_file.cpp
    data/images/image_folder.cpp
    data/images/byte_stream_zlib.cpp
    data/images/jpeg_turbo.cpp
    data/images/packed_file.cpp
    data/images/png_libpng.cpp
    data/images/record_images.cpp
    data/images/tar.cpp
    data/images/verify.cpp
    data/images/webp_libwebp.cpp
    graph/file.cpp
    graph/onnx/onnx_call.cpp
    graph/onnx/onnx_import.cpp
    graph/onnx/onnx_layers.cpp
    graph/onnx/onnx_parts.cpp
    graph/onnx/onnx_pointwise.cpp
    graph/onnx/onnx_proto.cpp
    graph/onnx/onnx_shapes.cpp
    graph/parse.cpp
    graph/pt2/program.cpp
    graph/pt2/pt2_call.cpp
    graph/pt2/pt2_file.cpp
    graph/pt2/pt2_json.cpp
    graph/pt2/pt2_schema.cpp
    graph/pt2/pt2_steps.cpp
    nn/checkpoint.cpp
    nn/lora_file.cpp
    nn/weights.cpp
    ops/conv/search/conv_cache_file.cpp
  )
  lathe_require_files(${parsers})
  list(TRANSFORM parsers PREPEND "${PROJECT_SOURCE_DIR}/")
  set_property(SOURCE ${parsers} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS ${LATHE_HARDENING})
  if(BUILD_SHARED_LIBS)
    lathe_harden_link(${target})
  endif()
endfunction()
