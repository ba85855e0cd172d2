# With ENERGON_PORTABLE, the package can become a wheel for machines without the libraries (python/make_wheel.sh): linked libraries are
# small, and libraries that are loaded at run time are bundled.
option(ENERGON_PORTABLE "Link libraries that a wheel for other machines can bundle" OFF)

# Call it before the libraries are searched. Debian's shared libarchive needs libxml2, and thereby 36 MB of ICU, for formats that are not
# read here. Static linking takes only tar, zip, gzip and zstd.
macro(energon_choose_portable_libraries)
  find_library(LibArchive_LIBRARY NAMES libarchive.a REQUIRED)
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # -O3 is a tenth larger
endmacro()

# Call it after that. Adds the libraries that the static libarchive uses, and the library that links SentencePiece, which is loaded on
# demand.
function(energon_use_portable_libraries package_destination)
  set_property(TARGET LibArchive::LibArchive APPEND PROPERTY INTERFACE_LINK_LIBRARIES PkgConfig::NETTLE PkgConfig::ZSTD ZLIB::ZLIB)
  foreach(name lzma bz2)
    find_library(ENERGON_${name}_FILE ${name} REQUIRED)
    set_property(TARGET LibArchive::LibArchive APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${ENERGON_${name}_FILE})
  endforeach()
  foreach(target _core energon)
    target_link_options(${target} PRIVATE -Wl,--as-needed -Wl,--gc-sections)
  endforeach()
  target_compile_options(energon PRIVATE -Os)  # only the program's own code, which is not in the module
  set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
  set_target_properties(energon PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  if(TARGET energon_sentencepiece)
    install(TARGETS energon_sentencepiece LIBRARY DESTINATION ${package_destination}/lib COMPONENT python)
  endif()
endfunction()
