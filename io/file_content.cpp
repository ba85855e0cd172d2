#include "io/file_content.h"

#include <sys/mman.h>

#include <cstddef>

namespace energon {

FileContent FileContent::read(const FileSource& file) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  auto memory = std::make_shared_for_overwrite<std::uint64_t[]>((file.size() + kWord - 1) / kWord);
  const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(memory.get()), file.size());
  file.read_at(0, bytes);
  return FileContent({.view = bytes, .owner = std::move(memory)}, false);
}

FileContent FileContent::map(const FileSource& file) {
  const std::size_t size = file.size();
  if (size < kLeastMapped) {
    return read(file);
  }
  // Whoever maps an index checks all of it next, so its pages are mapped at once.
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.fd(), 0);
  if (address == MAP_FAILED) {
    return read(file);  // a file system without mappings, or vm.max_map_count is reached
  }
  std::shared_ptr<const void> owner(address, [size](void* begin) { ::munmap(begin, size); });
  return FileContent(
      {.view = {static_cast<const std::byte*>(address), size}, .owner = std::move(owner)}, true);
}

}  // namespace energon
