#include "io/tar/tar_walker.h"

#include <algorithm>

namespace energon {
namespace {

// While members are small the next header is near, and a larger window saves system calls; between
// large members one page is all that is of use.
constexpr std::size_t kSparseWindowBytes = std::size_t{4} << 10;
constexpr std::size_t kDenseWindowBytes = std::size_t{32} << 10;

}  // namespace

void TarWalker::check_end(std::uint64_t offset) {
  if (zero_block_ == ZeroBlock::kIsDamage) {
    throw corrupt_tar(offset,
                      "a block of zeros where a tar header must be, inside the bytes of a sample: "
                      "the shard was overwritten there, or its index is wrong");
  }
  const ByteView rest = bytes_.subspan(offset - base_);
  const auto stray =
      std::find_if(rest.begin(), rest.end(), [](std::byte byte) { return byte != std::byte{0}; });
  if (stray != rest.end()) {
    throw corrupt_tar(offset + static_cast<std::uint64_t>(stray - rest.begin()),
                      "data after the end of the archive, which is a zero block");
  }
}

ByteView TarFileWalker::bytes_at(std::uint64_t offset, std::size_t size) {
  const std::uint64_t window_end = window_offset_ + window_size_;
  if (offset < window_offset_ || offset + size > window_end) {
    const bool dense = offset >= window_offset_ && offset < window_end + kDenseWindowBytes;
    const std::size_t usual = dense ? kDenseWindowBytes : kSparseWindowBytes;
    const std::size_t wanted =
        std::max<std::size_t>(size, std::min<std::uint64_t>(usual, end() - offset));
    window_size_ = 0;  // if the read fails, nothing is valid
    if (wanted > window_capacity_) {
      window_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
      window_capacity_ = wanted;
    }
    file_.read_at(offset, std::span(window_.get(), wanted));
    window_offset_ = offset;
    window_size_ = wanted;
  }
  return ByteView(window_.get(), window_size_).subspan(offset - window_offset_, size);
}

}  // namespace energon
