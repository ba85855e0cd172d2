#include "io/prepare/first_samples.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"
#include "io/prepare/choose_shards.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

bool contains_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<FirstSample> walk_samples(const FileSource& tar, const std::string& shard,
                                      std::size_t max_samples) {
  std::vector<FirstSample> samples;
  TarFileWalker walker(tar);
  while (const auto member = walker.next()) {
    const auto name =
        member->type == MemberType::kRegular ? split_member_name(member->name) : std::nullopt;
    if (!name) {
      continue;
    }
    if (samples.empty() || samples.back().key != name->key) {
      if (samples.size() == max_samples) {
        break;
      }
      samples.push_back({.shard = shard, .key = std::string(name->key)});
    }
    samples.back().parts.push_back({.name = std::string(name->part), .size_bytes = member->size});
  }
  return samples;
}

std::string listed_names(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  std::transform(names.begin(), names.end(), std::back_inserter(texts),
                 [](const std::string& name) { return printable(name); });
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::vector<FirstSample> first_samples(const std::string& folder,
                                       const FirstSamplesOptions& options) {
  const std::string shard = choose_shards(folder, options.exclude_regexes).names.front();
  const std::string path = folder + "/" + shard;
  const FileSource tar(ensure_expanded(path, options.cache_dir));
  try {
    return read_copy(path, tar.path(),
                     [&] { return walk_samples(tar, shard, options.max_samples); });
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

std::vector<std::string> part_names_of(const std::vector<FirstSample>& samples) {
  std::vector<std::string> names;
  for (const FirstSample& sample : samples) {
    for (const FirstPart& part : sample.parts) {
      if (!contains_name(names, part.name)) {
        names.push_back(part.name);
      }
    }
  }
  return names;
}

std::vector<std::string> check_parts_occur(const FieldMap& map,
                                           const std::vector<std::string>& part_names) {
  std::vector<std::string> warnings;
  for (const FieldMap::Field& field : map.fields) {
    std::vector<std::string> missing;
    for (const FieldPath& path : field.expression.alternatives) {
      if (!contains_name(part_names, path.part) && !contains_name(missing, path.part)) {
        missing.push_back(path.part);
      }
    }
    const auto& alternatives = field.expression.alternatives;
    if (std::all_of(alternatives.begin(), alternatives.end(),
                    [&](const FieldPath& path) { return contains_name(missing, path.part); })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the field '{}' is to be made of '{}', but the first samples have no "
                              "such part; their parts are: {}",
                              printable(field.name), printable(to_text(field.expression)),
                              listed_names(part_names)));
    }
    if (!missing.empty()) {
      warnings.push_back(fmt::format("of the parts for the field '{}', the first samples lack: {}",
                                     printable(field.name), listed_names(missing)));
    }
  }
  return warnings;
}

}  // namespace energon
