# find_package(energon) from an install tree, with energon::torch by COMPONENTS torch; pkg-config; cpack -G DEB. docs/install.md.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(libraries GLOBAL PROPERTY ENERGON_LIBRARIES)
set(headers_dir ${CMAKE_INSTALL_INCLUDEDIR}/energon-cpp)
foreach(library IN LISTS libraries)
  set(export energonTargets)
  if(library STREQUAL energon_torch)
    set(export energonTorchTargets)
  endif()
  install(TARGETS ${library} EXPORT ${export}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${headers_dir})
endforeach()

if(ENERGON_BUILD_CLI)
  install(TARGETS energon RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/energon)
install(EXPORT energonTargets NAMESPACE energon:: DESTINATION ${config_dir})
if(TARGET energon_torch)
  install(EXPORT energonTorchTargets NAMESPACE energon:: DESTINATION ${config_dir})
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/energon_torch.cmake DESTINATION ${config_dir})
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/energonConfig.cmake.in
  ${PROJECT_BINARY_DIR}/energonConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/energonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/energonConfig.cmake ${PROJECT_BINARY_DIR}/energonConfigVersion.cmake
  DESTINATION ${config_dir})

# pkg-config --cflags --libs energon: our libraries are static and depend on each other, the others are shared. The file derives its prefix from its
# own location.
file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(pc_libraries "")
foreach(library IN LISTS libraries)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "STATIC_LIBRARY" AND NOT library STREQUAL energon_torch)
    string(APPEND pc_libraries " -l${library}")
  endif()
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/energon.pc.in ${PROJECT_BINARY_DIR}/energon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/energon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_PACKAGE_NAME energon-cpp)
  set(CPACK_PACKAGE_VENDOR "energon-cpp")
  set(CPACK_PACKAGE_CONTACT "the energon-cpp authors")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # runtime dependencies of the program
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libarchive-dev, libboost-dev, libxxhash-dev, zlib1g-dev, libzstd-dev, libsqlite3-dev, nettle-dev, \
libyaml-cpp-dev, nlohmann-json3-dev, libfmt-dev, libjpeg-dev, libpng-dev, libwebp-dev, libgif-dev, libtiff-dev, libsentencepiece-dev, libsentencepiece0, libavformat-dev, libavcodec-dev, \
libavutil-dev, libswscale-dev, libhwy-dev, pkg-config")  # what building with the libraries needs
  include(CPack)
endif()
