# find_package(energon) from an install tree; find_package(energon COMPONENTS torch) adds energon::torch.
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

install(TARGETS energon RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

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
