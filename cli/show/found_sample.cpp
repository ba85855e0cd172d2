#include "cli/show/found_sample.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/show/output.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon::cli {

using FoundJson = nlohmann::ordered_json;

FoundJson source_json(const SampleSource& source) {
  return {{"shard", source.shard->shard_name}, {"index", source.index_in_shard}};
}

FoundJson found_json(const FoundSample& found) {
  FoundJson json = {{"key", found.sample.keys.at(0)}};
  json["dataset"] = source_of(found.sample, 0).shard->dataset_path;
  json.update(source_json(source_of(found.sample, 0)));
  json["bytes"] = {{"offset", found.bytes.offset}, {"size", found.bytes.size}};
  json["parts"] = FoundJson::array();
  for (const FoundPart& part : found.parts) {
    json["parts"].push_back(
        {{"name", part.name}, {"offset", part.content.offset}, {"size", part.content.size}});
    if (part.media) {
      json["parts"].back()["media"] = FoundJson::parse(to_media_json(*part.media));
    }
  }
  json["digest"] = to_hex(digest(found.sample));
  return json;
}

void print_found(const FoundSample& found, bool is_of_several) {
  const SampleSource& source = source_of(found.sample, 0);
  output().print("key:    {}\n", printable(found.sample.keys.at(0)));
  if (is_of_several) {
    output().print("data:   {}\n", printable(source.shard->dataset_path));
  }
  output().print("shard:  {} (sample {})\n", printable(source.shard->shard_name),
                 source.index_in_shard);
  output().print("bytes:  [{}, {})\n", found.bytes.offset, found.bytes.end());
  output().print("digest: {}\n", to_hex(digest(found.sample)));
  output().write("parts:\n");
  for (const FoundPart& part : found.parts) {
    output().print("  {}: {} at byte {}{}\n", printable(part.name),
                   plural(static_cast<std::int64_t>(part.content.size), "byte"),
                   part.content.offset,
                   part.media ? "  " + printable(to_media_json(*part.media)) : "");
  }
}

}  // namespace energon::cli
