#include "io/index/checksum_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/byte_codec.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::string_view kWhat = "the checksum file";
constexpr std::string_view kMagic = "EGNXXH3\n";
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kHeaderBytes = 32;  // magic, version, tar size, sample count
constexpr std::uint64_t kDigestBytes = 8;
constexpr std::uint64_t kTrailerBytes = 8;  // digest of everything before it

[[noreturn]] void fail(ErrorCode code, const std::string& problem, const std::string& path) {
  throw Error(code, problem, {.path = path});
}

std::uint64_t size_of_file(std::int64_t sample_count) {
  return kHeaderBytes + kDigestBytes * static_cast<std::uint64_t>(sample_count) + kTrailerBytes;
}

// A file of another size is wrong anyway, so never read much more than the expected size.
void check_size_for(const FileSource& file, std::int64_t sample_count) {
  check_size(file, size_of_file(sample_count) + (std::uint64_t{1} << 20));
}

void check_content(ByteView content, std::uint64_t tar_size, std::int64_t sample_count,
                   const std::string& path) {
  if (content.size() < kHeaderBytes + kTrailerBytes || !as_text(content).starts_with(kMagic)) {
    fail(ErrorCode::kCorruptData, "not a checksum file: it is too short or has the wrong magic",
         path);
  }
  const ByteView checked = content.first(content.size() - kTrailerBytes);
  ByteReader trailer(as_text(content.subspan(checked.size())), kWhat);
  if (xxh3_64(checked) != trailer.u64()) {
    fail(
        ErrorCode::kCorruptData,
        "the checksum file is damaged: its own digest does not match; prepare again with checksums",
        path);
  }
  ByteReader header(as_text(checked), kWhat);
  header.raw(kMagic.size());
  if (const std::uint64_t version = header.u64(); version != kVersion) {
    fail(ErrorCode::kUnsupported,
         fmt::format("the checksum file has version {}, but this library reads version {}", version,
                     kVersion),
         path);
  }
  const std::uint64_t found_size = header.u64();
  const std::uint64_t found_count = header.u64();
  if (found_size != tar_size || found_count != static_cast<std::uint64_t>(sample_count) ||
      content.size() != size_of_file(sample_count)) {
    fail(ErrorCode::kCorruptData,
         fmt::format("the checksums belong to a tar of {} bytes with {} samples, but the tar has "
                     "{} bytes and {} samples; it was changed after it was prepared",
                     found_size, found_count, tar_size, sample_count),
         path);
  }
}

}  // namespace

ChecksumFile::ChecksumFile(SharedBytes content, std::uint64_t tar_size, std::int64_t sample_count,
                           const std::string& path)
    : content_(std::move(content)) {
  check_content(content_.view, tar_size, sample_count, path);
  static_assert(kHeaderBytes % alignof(std::uint64_t) == 0);
  digests_ = {reinterpret_cast<const std::uint64_t*>(content_.view.data() + kHeaderBytes),
              static_cast<std::size_t>(sample_count)};
}

ChecksumFile ChecksumFile::load(const std::string& checksum_path, std::uint64_t tar_size,
                                std::int64_t sample_count) {
  const FileSource file(checksum_path);
  check_size_for(file, sample_count);
  return {read_whole(file), tar_size, sample_count, checksum_path};
}

std::uint64_t ChecksumFile::file_digest() const { return xxh3_64(content_.view); }

bool ChecksumFile::matches(std::int64_t i, ByteView range_bytes) const {
  return xxh3_64(range_bytes) == digest(i);
}

std::string checksum_path(std::string_view index_path) {
  return std::string(index_path.substr(0, index_path.size() - std::string_view(".idx").size())) +
         ".xxh3";
}

std::string encode_checksums(std::uint64_t tar_size, std::span<const std::uint64_t> digests) {
  ByteWriter out;
  out.raw(kMagic);
  out.u64(kVersion);
  out.u64(tar_size);
  out.u64(digests.size());
  out.raw(as_text(std::as_bytes(digests)));
  out.u64(xxh3_64(as_bytes(out.bytes())));
  return out.take();
}

void write_checksums(const std::string& checksum_path, std::uint64_t tar_size,
                     std::span<const std::uint64_t> digests, unsigned mode) {
  write_file_atomically(checksum_path, as_bytes(encode_checksums(tar_size, digests)), mode);
}

std::vector<std::uint64_t> compute_checksums(const FileSource& tar, const TarIndex& index) {
  constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
  std::vector<std::byte> block;
  std::vector<std::uint64_t> digests;
  digests.reserve(static_cast<std::size_t>(index.sample_count()));
  for (std::int64_t i = 0; i < index.sample_count(); ++i) {
    const ByteRange range = index.range(i);
    Xxh3Stream stream;
    for (std::uint64_t offset = range.offset; offset < range.end(); offset += block.size()) {
      block.resize(std::min(kBlockBytes, range.end() - offset));
      tar.read_at(offset, block);
      stream.update(block);
    }
    digests.push_back(stream.digest());
  }
  return digests;
}

}  // namespace energon
