// Shards: tars, compressed or not, through the scan that builds indices.

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include <fmt/format.h>

#include "io/file.h"
#include "io/tar/shard_scan.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  const UniqueFd file(::memfd_create("shard", MFD_CLOEXEC));
  fuzz::require(file.valid());
  fuzz::require(::write(file.get(), data, size) == static_cast<ssize_t>(size));
  return fuzz::try_to_read([&] {
    const FileSource source(fmt::format("/proc/self/fd/{}", file.get()));
    for (const ScannedSample& sample : scan_shard(source).samples) {
      fuzz::require(sample.offset + sample.size <= size);
    }
  });
}
