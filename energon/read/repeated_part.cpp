#include "energon/read/repeated_part.h"

#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
void check_parts_differ(const Mapping& fields, ByteView range, std::uint64_t range_offset) {
  const std::optional<std::string_view> name = find_twice(fields);
  if (!name) {
    return;
  }
  std::uint64_t last = range_offset;
  TarWalker walker(range, range_offset);
  while (const auto member = walker.next()) {
    const auto split =
        member->type == MemberType::kRegular ? split_member_name(member->name) : std::nullopt;
    if (split && split->part == *name) {
      last = member->header_offset;
    }
  }
  throw Error(ErrorCode::kCorruptData,
              fmt::format("part '{}' comes twice in one sample; repack the shard, or leave the "
                          "sample out (--on-error skip)",
                          printable(*name)),
              {.byte_offset = last});
}

}  // namespace energon
