#include "energon/read/webdataset.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/read/webdataset_reader.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

// A state carries these, so they are bounded: with more shards than lines, a line stands for
// several shards by digest.
Config describe_shards(const std::vector<ShardFile>& all) {
  constexpr std::size_t kLines = 1024;
  const std::size_t shards_per_line = std::max<std::size_t>((all.size() + kLines - 1) / kLines, 1);
  Config lines = Config::array();
  for (std::size_t first = 0; first < all.size(); first += shards_per_line) {
    const auto block = std::span(all).subspan(first, std::min(shards_per_line, all.size() - first));
    std::string text;
    for (const ShardFile& shard : block) {
      text += fmt::format("{}: {} samples, {}", printable(shard.name), shard.sample_count,
                          shard.is_broken ? "broken" : fmt::format("{} bytes", shard.tar_size));
    }
    lines.push_back(block.size() == 1
                        ? text
                        : fmt::format("shards {} to {}: digest {}", first, first + block.size() - 1,
                                      to_hex(xxh3_64(as_bytes(text)))));
  }
  return lines;
}

}  // namespace

Webdataset::Webdataset(ShardSet shards, const WebdatasetOptions& options)
    : shards_(std::move(shards)), options_(options) {
  std::int64_t end = 0;
  std::vector<std::int64_t> begins;
  for (const ShardFile& shard : shards_.shards) {
    begins.push_back(end);
    end += shard.sample_count;
    shard_counts_.push_back(shard.sample_count);
    shard_ends_.push_back(end);
    sources_.push_back(std::make_shared<const SourceShard>(
        SourceShard{shards_.dataset_path, shard.name, options_.subflavors}));
  }
  for (const SampleExclude& exclude : shards_.excludes) {
    excluded_.push_back(begins.at(static_cast<std::size_t>(exclude.shard)) + exclude.sample);
  }
  std::sort(excluded_.begin(), excluded_.end());
}

Config Webdataset::config() const {
  Config config = {{"type", "Webdataset"},
                   {"samples", sample_count()},
                   {"shards", describe_shards(shards_.shards)},
                   {"excluded", to_hex(xxh3_64(std::as_bytes(std::span(excluded_))))}};
  if (!shards_.media_filter.empty()) {
    config["media_filter"] = shards_.media_filter;
  }
  if (options_.part_filter) {
    Config& parts = config["parts"] = Config::array();
    for (const std::string& part : *options_.part_filter) {
      parts.push_back(printable(part));
    }
  }
  for (const auto& [name, digest] : fingerprint_.of(shards_.shards)) {
    config[name] = digest;
  }
  return config;
}

bool Webdataset::has_part(std::string_view part) const {
  const auto& parts = options_.part_filter;
  return !parts || std::find(parts->begin(), parts->end(), part) != parts->end();
}

std::unique_ptr<LeafReader> Webdataset::open_reader() const {
  return std::make_unique<WebdatasetReader>(shared_from_this());
}

Webdataset::Position Webdataset::position_of(std::int64_t index) const {
  if (index < 0 || index >= sample_count()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("sample {} does not exist, the split has {} samples", index, sample_count()));
  }
  const auto shard =
      std::upper_bound(shard_ends_.begin(), shard_ends_.end(), index) - shard_ends_.begin();
  return {shard, index - first_of_shard(shard)};
}

}  // namespace energon
