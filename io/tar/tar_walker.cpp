#include "io/tar/tar_walker.h"

#include <algorithm>

#include <fmt/format.h>

namespace energon {
namespace {

constexpr std::size_t kSparseContinuesInHeader = 482;  // flag byte in a GNU sparse header
constexpr std::size_t kSparseContinuesInMap = 504;     // flag byte in a continuation block

void check_global_records(ByteView body, std::uint64_t offset) {
  PaxRecords records(body, offset);
  while (const std::optional<PaxRecord> record = records.next()) {
    if (record->key == "path" || record->key == "size" || record->key == "linkpath" ||
        record->key.starts_with("GNU.sparse.")) {
      throw corrupt_tar(record->offset,
                        fmt::format("a global pax header sets '{}', which would apply to every "
                                    "member",
                                    printable(record->key)));
    }
  }
}

MemberType type_of(char type_flag) {
  switch (type_flag) {
    case '1':
      return MemberType::kHardLink;
    case '2':
      return MemberType::kSymbolicLink;
    case '3':
    case '4':
    case '6':
      return MemberType::kOther;
    case '5':
    case 'D':  // GNU incremental: a directory whose data lists its files
      return MemberType::kDirectory;
    default:  // POSIX: unknown types are read as regular files
      return MemberType::kRegular;
  }
}

// While members are small, the next header is near, and a larger window saves system calls; between
// large members, only one page is useful.
constexpr std::size_t kSparseWindowBytes = std::size_t{4} << 10;
constexpr std::size_t kDenseWindowBytes = std::size_t{32} << 10;

}  // namespace

std::optional<TarMember> TarWalk::next() {
  if (const std::optional<TarMember> member = next_plain()) {
    return member;
  }
  std::uint64_t position = offset_;       // committed only on success, so that errors are sticky
  std::uint64_t header_offset = offset_;  // first block of the member
  Extension extension;
  while (const std::optional<TarHeader> header = read_header(position)) {
    is_plain_ = false;
    if (!read_extension(*header, position, extension)) {
      TarMember member = make_member(*header, position, extension);
      member.header_offset = header_offset;
      offset_ = member.data_offset + padded_to_blocks(member.size);
      return member;
    }
    position += kTarBlockBytes + padded_to_blocks(header->size);
    if (!extension.any()) {
      header_offset = position;  // a global header or a volume label is not part of a member
    }
  }
  if (extension.any()) {
    throw corrupt_tar(header_offset, "the archive ends between an extension header and its member");
  }
  if (position < end_ && !met_zero_block_) {
    check_end(position);
    met_zero_block_ = true;
  }
  offset_ = position;
  return std::nullopt;
}

// The usual case: a plain header whose data ends within the bytes. Nullopt otherwise.
std::optional<TarMember> TarWalk::next_plain() {
  if (end_ - offset_ < kTarBlockBytes) {
    return std::nullopt;
  }
  const std::uint64_t data_offset = offset_ + kTarBlockBytes;
  const std::optional<TarHeader> header =
      parse_plain_header(TarBlock(bytes_at(offset_, kTarBlockBytes)));
  if (!header || padded_to_blocks(header->size) > end_ - data_offset) {
    return std::nullopt;
  }
  TarMember member{.name = header->name,
                   .type = type_of(header->type_flag),
                   .type_flag = header->type_flag,
                   .header_offset = offset_,
                   .data_offset = data_offset,
                   .size = header->size};
  set_name(*header, Extension{}, member);
  offset_ = data_offset + padded_to_blocks(member.size);
  return member;
}

// Nullopt at the end of the bytes and at a zero block.
std::optional<TarHeader> TarWalk::read_header(std::uint64_t offset) {
  if (offset == end_) {
    return std::nullopt;
  }
  if (end_ - offset < kTarBlockBytes) {
    throw corrupt_tar(offset, fmt::format("truncated: expected a tar header of {} bytes, found {}",
                                          kTarBlockBytes, end_ - offset));
  }
  const TarBlock block(bytes_at(offset, kTarBlockBytes));
  if (is_zero_block(block)) {
    return std::nullopt;
  }
  return parse_tar_header(block, offset);
}

// Returns false for a member's own header.
bool TarWalk::read_extension(const TarHeader& header, std::uint64_t offset, Extension& extension) {
  const std::uint64_t body_offset = offset + kTarBlockBytes;
  switch (header.type_flag) {
    case 'x':
    case 'X':  // Solaris
      if (extension.has_pax) {
        throw corrupt_tar(offset, "two pax headers for one member");
      }
      extension.has_pax = true;
      read_pax(extension_body(header, offset, extension), body_offset, extension);
      return true;
    case 'L':
      if (extension.has_long_name) {
        throw corrupt_tar(offset, "two GNU long names for one member");
      }
      extension.has_long_name = true;
      read_long_name(extension_body(header, offset, extension), body_offset, extension);
      return true;
    case 'K':
      if (extension.has_long_link) {
        throw corrupt_tar(offset, "two GNU long link names for one member");
      }
      extension.has_long_link = true;
      extension_body(header, offset, extension);  // for its checks; link targets are not followed
      return true;
    case 'g':
    case 'A':  // Solaris access list
    case 'V':  // GNU volume label
      read_between_members(header, offset, extension);
      return true;
    case 'M':
    case 'N':
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("members of type '{}' (GNU multi-volume or old long names) are not "
                              "supported; repack the shard",
                              header.type_flag),
                  {.byte_offset = offset});
    default:
      return false;
  }
}

void TarWalk::read_between_members(const TarHeader& header, std::uint64_t offset,
                                   const Extension& extension) {
  if (extension.any()) {
    throw corrupt_tar(offset, fmt::format("a block of type '{}' between an extension header and "
                                          "its member",
                                          header.type_flag));
  }
  Extension of_nobody;
  const ByteView body = extension_body(header, offset, of_nobody);
  if (header.type_flag == 'g') {
    check_global_records(body, offset + kTarBlockBytes);
  } else if (header.type_flag == 'V' && !body.empty()) {
    throw corrupt_tar(offset, "a volume label with data");
  }
}

ByteView TarWalk::extension_body(const TarHeader& header, std::uint64_t offset,
                                 Extension& extension) {
  if (header.size > kMaxExtensionBytes - extension.total_bytes) {
    throw corrupt_tar(
        offset,
        fmt::format("an extension header of {} bytes exceeds the limit of {} for one member",
                    header.size, kMaxExtensionBytes));
  }
  extension.total_bytes += header.size;
  const std::uint64_t body_offset = offset + kTarBlockBytes;
  if (padded_to_blocks(header.size) > end_ - body_offset) {
    throw corrupt_tar(offset,
                      fmt::format("truncated: expected an extension header of {} bytes, found {}",
                                  header.size, end_ - body_offset));
  }
  return bytes_at(body_offset, header.size);
}

void TarWalk::read_pax(ByteView body, std::uint64_t offset, Extension& extension) {
  PaxRecords records(body, offset);
  while (const std::optional<PaxRecord> record = records.next()) {
    apply_pax_record(*record, extension);
  }
}

void TarWalk::apply_pax_record(const PaxRecord& record, Extension& extension) {
  const bool is_sparse_name = record.key == "GNU.sparse.name";
  if (record.key == "path" || is_sparse_name) {
    if (record.value.empty() || record.value.find('\0') != std::string_view::npos) {
      throw corrupt_tar(record.offset, fmt::format("the pax {} '{}' is empty or contains a NUL",
                                                   record.key, printable(record.value)));
    }
    if (extension.has_long_name) {
      throw corrupt_tar(record.offset, "both a GNU long name and a pax path for one member");
    }
    // The sparse name is the real one; "path" is only a placeholder for readers without sparse
    // support.
    if (is_sparse_name || !extension.has_sparse_name) {
      name_ = record.value;
      extension.has_name = true;
    }
    extension.has_sparse_name |= is_sparse_name;
  } else if (record.key == "size") {
    extension.size = parse_pax_size(record);
  }
  extension.sparse |= record.key.starts_with("GNU.sparse.") || record.key == "SCHILY.realsize" ||
                      record.key == "SUN.holesdata";
}

void TarWalk::read_long_name(ByteView body, std::uint64_t offset, Extension& extension) {
  const std::string_view all = as_text(body);
  const std::string_view name = all.substr(0, all.find_last_not_of('\0') + 1);
  if (name.empty() || name.find('\0') != std::string_view::npos) {
    throw corrupt_tar(
        offset, fmt::format("the GNU long name '{}' is empty or contains a NUL", printable(name)));
  }
  if (extension.has_name) {
    throw corrupt_tar(offset, "both a pax path and a GNU long name for one member");
  }
  name_ = name;
  extension.has_name = true;
}

TarMember TarWalk::make_member(const TarHeader& header, std::uint64_t offset,
                               const Extension& extension) {
  TarMember member;
  member.type = type_of(header.type_flag);
  member.type_flag = header.type_flag;
  member.sparse = extension.sparse || header.type_flag == 'S';
  member.data_offset = offset + kTarBlockBytes;
  member.size = extension.size.value_or(header.size);
  set_name(header, extension, member);

  const auto fail = [&](std::string_view reason) {
    throw corrupt_tar(offset, fmt::format("member '{}': {}", printable(member.name), reason));
  };
  if (member.type == MemberType::kHardLink && member.size != 0) {
    // Readers disagree on whether those bytes exist.
    fail(fmt::format("a hard link with a size of {} bytes", member.size));
  }
  const bool has_data = member.type == MemberType::kRegular || member.type_flag == 'D';
  if (!has_data) {
    if (extension.size.value_or(0) != 0) {
      fail("a pax size for a member that has no data");
    }
    member.size = 0;  // some writers put the size of a directory's entries there
  } else if (member.type == MemberType::kRegular && member.name.ends_with('/')) {
    if (member.size != 0) {
      fail(fmt::format("its name is that of a directory, its type that of a file of {} bytes",
                       member.size));
    }
    member.type = MemberType::kDirectory;  // v7's encoding of directories
  }
  if (header.type_flag == 'S') {
    member.data_offset = skip_sparse_map(offset);
  }
  const std::uint64_t left = end_ - member.data_offset;
  if (member.size > left || padded_to_blocks(member.size) > left) {
    fail(fmt::format("truncated: expected {} bytes in {} blocks, found {} bytes", member.size,
                     padded_to_blocks(member.size) / kTarBlockBytes, left));
  }
  return member;
}

void TarWalk::set_name(const TarHeader& header, const Extension& extension, TarMember& member) {
  if (!extension.has_name) {
    if (header.prefix.empty() && header.type_flag != 'S') {
      member.name = header.name;
      return;
    }
    name_ = header.prefix;
    if (!header.prefix.empty()) {
      name_ += '/';
    }
    name_ += header.name;
  }
  member.name = name_;
}

// Offset of the data after a GNU sparse header and the blocks that continue its map.
std::uint64_t TarWalk::skip_sparse_map(std::uint64_t offset) {
  ByteView block = bytes_at(offset, kTarBlockBytes);
  bool continues = block[kSparseContinuesInHeader] != std::byte{0};
  while (offset += kTarBlockBytes, continues) {
    if (end_ - offset < kTarBlockBytes) {
      throw corrupt_tar(offset, "truncated in the map of a sparse member");
    }
    block = bytes_at(offset, kTarBlockBytes);
    continues = block[kSparseContinuesInMap] != std::byte{0};
  }
  return offset;
}

void TarWalker::check_end(std::uint64_t offset) {
  if (zero_block_ == ZeroBlock::kIsDamage) {
    throw corrupt_tar(offset,
                      "expected a tar header inside the bytes of a sample, found a block of zeros: "
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
