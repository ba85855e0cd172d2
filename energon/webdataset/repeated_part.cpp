#include "energon/webdataset/repeated_part.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

// A name that two of the fields have.
std::optional<std::string_view> repeated_name(const Mapping& fields) {
  constexpr std::size_t kFew = 16;  // below, comparing all pairs is cheaper than sorting
  if (fields.size() <= kFew) {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (fields[i].first == fields[k].first) {
          return fields[i].first;
        }
      }
    }
    return std::nullopt;
  }
  std::vector<std::string_view> names;
  for (const auto& [name, value] : fields) {
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const auto same = std::adjacent_find(names.begin(), names.end());
  return same == names.end() ? std::nullopt : std::optional(*same);
}

}  // namespace

void check_parts_differ(const Mapping& fields, ByteView range, std::uint64_t range_offset) {
  const std::optional<std::string_view> name = repeated_name(fields);
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
