#include "io/store/cached_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "io/error.h"
#include "io/file.h"

namespace energon {

bool write_cached(const std::string& path, ByteView content) noexcept {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return false;
  }
  if (try_write_all(fd.get(), content) != 0) {
    ::unlink(path.c_str());
    return false;
  }
  return true;
}

std::optional<SharedBytes> read_cached(const std::string& path, std::uint64_t size_bytes) {
  try {
    const FileSource file(path);
    if (file.size() == size_bytes) {
      return read_bytes(file, {.offset = 0, .size = size_bytes});
    }
  } catch (const Error&) {  // the store still has it
  }
  return std::nullopt;
}

}  // namespace energon
