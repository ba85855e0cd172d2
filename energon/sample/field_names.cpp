#include "energon/sample/field_names.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

[[noreturn]] void fail_twice(std::string_view name, std::string_view owner) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field '{}' comes twice in {}: give each field a name of its own",
                          printable(name), owner));
}

}  // namespace

std::optional<std::string_view> find_twice(const Mapping& fields) {
  constexpr std::size_t kFew = 16;  // then comparing all with all costs less than sorting
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
  names.reserve(fields.size());
  for (const auto& [name, value] : fields) {
    names.push_back(name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() ? std::nullopt : std::optional(*twice);
}

void check_field_names(const Mapping& fields, std::string_view owner) {
  if (const auto name = find_twice(fields)) {
    fail_twice(*name, owner);
  }
}

void check_made(const Sample& sample) {
  const auto owner = [&sample] {
    if (sample.keys.empty()) {
      return std::string("a sample without a key");
    }
    return fmt::format("{} '{}'", sample.keys.size() == 1 ? "sample" : "the batch of",
                       printable(sample.keys.front()));
  };
  for (const SampleSource& source : sample.sources) {
    if (!source.shard) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a source of {} has no shard: keep the sources of the sample, or "
                              "leave them empty",
                              owner()));
    }
  }
  if (const auto name = find_twice(sample.fields)) {
    fail_twice(*name, owner());
  }
}

}  // namespace energon
