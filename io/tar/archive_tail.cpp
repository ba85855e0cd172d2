#include "io/tar/archive_tail.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/tar/tar_header.h"

namespace energon {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;  // whole blocks

std::optional<std::uint64_t> find_nonzero(const FileSource& file, std::uint64_t offset) {
  std::vector<std::byte> chunk(kChunkBytes);
  for (; offset < file.size(); offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunkBytes, file.size() - offset));
    file.read_at(offset, chunk);
    const auto found = std::find_if(chunk.begin(), chunk.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
    if (found != chunk.end()) {
      return offset + static_cast<std::uint64_t>(found - chunk.begin());
    }
  }
  return std::nullopt;
}

bool is_header(TarBlock block) { return block[0] != std::byte{0} && has_valid_checksum(block); }

// The first tar header at `first` (where the garbage begins) or at a whole block behind it.
std::optional<std::uint64_t> find_header(const FileSource& file, std::uint64_t first) {
  std::array<std::byte, kTarBlockBytes> block{};
  if (first + kTarBlockBytes <= file.size()) {
    file.read_at(first, block);
    if (is_header(block)) {
      return first;
    }
  }
  std::vector<std::byte> chunk(kChunkBytes);
  for (std::uint64_t offset = first / kTarBlockBytes * kTarBlockBytes; offset < file.size();
       offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunkBytes, file.size() - offset));
    file.read_at(offset, chunk);
    for (std::size_t i = 0; i + kTarBlockBytes <= chunk.size(); i += kTarBlockBytes) {
      if (is_header(TarBlock(std::span(chunk).subspan(i, kTarBlockBytes)))) {
        return offset + i;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

ArchiveTail check_archive_tail(const FileSource& file, std::uint64_t end_offset) {
  if (end_offset >= file.size()) {
    return ArchiveTail::kNoEnd;
  }
  const std::optional<std::uint64_t> garbage = find_nonzero(file, end_offset);
  if (!garbage) {
    return ArchiveTail::kComplete;
  }
  const ErrorContext where{.path = file.path(), .byte_offset = *garbage};
  if (*garbage < end_offset + 2 * kTarBlockBytes) {
    throw Error(ErrorCode::kCorruptData,
                "data after a single zero block: the shard was overwritten there, or its end is "
                "damaged",
                where);
  }
  if (const std::optional<std::uint64_t> header = find_header(file, *garbage)) {
    throw Error(ErrorCode::kCorruptData,
                "another archive follows the end of this one; tars cannot be joined with cat: "
                "repack them into one",
                {.path = file.path(), .byte_offset = *header});
  }
  return ArchiveTail::kGarbage;
}

std::string describe(ArchiveTail tail, std::uint64_t end_offset) {
  return tail == ArchiveTail::kNoEnd
             ? fmt::format(
                   "no end-of-archive block: the file ends with a member, at byte {}; it "
                   "may have been cut there",
                   end_offset)
             : fmt::format("data behind the end of the archive, which is at byte {}, is ignored",
                           end_offset);
}

}  // namespace energon
