#include "io/index/part_place.h"

#include <fmt/format.h>

#include "io/error.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

// Whether the block is the header of the part. Also false if the name or the size is stored in
// extension headers before the block.
bool is_header_of(TarBlock block, std::string_view name, const PartLocation& part) {
  try {
    const TarHeader header = parse_tar_header(block, 0);
    if (!header.prefix.empty()) {
      const std::size_t prefix = header.prefix.size();
      if (!name.starts_with(header.prefix) || name.size() == prefix || name[prefix] != '/') {
        return false;
      }
      name.remove_prefix(prefix + 1);
    }
    return header.name == name && header.size == part.content.size;
  } catch (const Error&) {
    return false;
  }
}

// Whether a walk over the part's sample finds the part at its recorded place.
bool is_in_its_sample(const FileSource& file, const SampleIndex& index, std::string_view name,
                      const PartLocation& part) {
  const auto key = split_member_name(name);
  const auto sample = key ? index.find_sample(key->key) : std::nullopt;
  if (!sample || sample->tar_file_id != part.tar_file_id || sample->bytes.offset > file.size() ||
      sample->bytes.size > file.size() - sample->bytes.offset) {
    return false;
  }
  TarFileWalker walker(file, sample->bytes.offset, sample->bytes.end());
  while (const auto member = walker.next()) {
    if (member->type == MemberType::kRegular && member->name == name) {
      return member->data_offset == part.content.offset && member->size == part.content.size;
    }
  }
  return false;
}

}  // namespace

void check_part_range(const PartLocation& part, const FileSource& tar) {
  if (part.content.offset > tar.size() || part.content.size > tar.size() - part.content.offset) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the part ends at byte {}, but the shard at byte {}; the shard was "
                            "changed after it was prepared",
                            part.content.end(), tar.size()),
                {.path = tar.path()});
  }
  if (part.content.offset < kTarBlockBytes) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("index.sqlite places the part at byte {}, which is impossible in a "
                            "tar; prepare the dataset again",
                            part.content.offset),
                {.path = tar.path()});
  }
}

void check_part_place(TarBlock header, std::string_view name, const PartLocation& part,
                      const FileSource& tar, const SampleIndex& index) {
  if (!is_header_of(header, name, part) && !is_in_its_sample(tar, index, name, part)) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("index.sqlite places the part at byte {}, but the tar has no such part "
                            "there; one of the two is damaged",
                            part.content.offset),
                {.path = tar.path(), .byte_offset = part.content.offset});
  }
}

}  // namespace energon
