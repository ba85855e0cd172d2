# The project's dependencies, and why it needs them. All come from Debian 12 packages (tools/install_dependencies.sh).
find_package(LibArchive REQUIRED)                                # tar, the reference reader; indexing
find_package(ZLIB REQUIRED)                                      # gzip with its checksum, which libarchive skips
find_package(yaml-cpp REQUIRED)                                  # split.yaml, metadataset.yaml
find_package(nlohmann_json REQUIRED)                             # .info.json, state files, dump
find_package(fmt REQUIRED)                                       # messages
find_package(Boost 1.74 REQUIRED CONFIG)                         # Interprocess: mappings
find_package(PkgConfig REQUIRED)
pkg_check_modules(SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)      # index.sqlite
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)     # digests
pkg_check_modules(NETTLE REQUIRED IMPORTED_TARGET nettle)        # SHA-1 of seeds, SHA-256 of join indices, base64
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)         # .tar.zst
find_package(Threads REQUIRED)
# For energon::media.
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)           # vector instructions, chosen when a program runs
include(energon_codecs)                                          # images, sound, video, tokens: each optional
if(ENERGON_BUILD_CLI OR ENERGON_BUILD_BENCH)
  find_package(CLI11 REQUIRED)                                   # flags
endif()
if(ENERGON_BUILD_CLI)
  find_package(PNG REQUIRED)                                     # heat maps
endif()
include(energon_torch)                                           # energon::torch only: zero-copy tensors
