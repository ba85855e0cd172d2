# With ENERGON_PORTABLE the package can be made a wheel for machines that have none of the libraries (python/make_wheel.sh): what is
# linked is small, and what is loaded at run time comes along.
option(ENERGON_PORTABLE "Link what a wheel for other machines can bring" OFF)

# Before the libraries are looked for. Debian's shared libarchive brings libxml2 and with it 36 MB of ICU, for formats that are not read
# here; of the static one only tar, zip, gzip and zstd are linked.
macro(energon_choose_portable_libraries)
  find_library(LibArchive_LIBRARY NAMES libarchive.a REQUIRED)
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # -O3 is a tenth larger
endmacro()

# After that: what the static libarchive uses, and the library that links SentencePiece, which is loaded when it is needed.
function(energon_use_portable_libraries package_destination)
  set_property(TARGET LibArchive::LibArchive APPEND PROPERTY INTERFACE_LINK_LIBRARIES PkgConfig::NETTLE PkgConfig::ZSTD ZLIB::ZLIB)
  foreach(name lzma bz2)
    find_library(ENERGON_${name}_FILE ${name} REQUIRED)
    set_property(TARGET LibArchive::LibArchive APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${ENERGON_${name}_FILE})
  endforeach()
  foreach(target _core energon)
    target_link_options(${target} PRIVATE -Wl,--as-needed -Wl,--gc-sections)
  endforeach()
  target_compile_options(energon PRIVATE -Os)  # the program's own code only, which is not in the module
  set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
  set_target_properties(energon PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  if(TARGET energon_sentencepiece)
    install(TARGETS energon_sentencepiece LIBRARY DESTINATION ${package_destination}/lib COMPONENT python)
  endif()
endfunction()
