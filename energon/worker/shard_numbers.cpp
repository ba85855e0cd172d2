#include "energon/worker/shard_numbers.h"

#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::size_t kMostShards = 16'384;

constexpr std::size_t kLeastShardBytes = 12;  // three empty texts

}  // namespace

std::uint32_t ShardNumbers::number(const std::shared_ptr<const SourceShard>& shard) {
  const auto [found, is_new] =
      numbers_.try_emplace(shard.get(), static_cast<std::uint32_t>(shards_.size()));
  if (is_new) {
    shards_.push_back(shard);
  }
  return found->second;
}

void ShardNumbers::encode_new(std::span<const SampleSource> sources, ByteWriter& writer) {
  if (shards_.size() >= kMostShards) {
    numbers_.clear();
    shards_.clear();
    last_ = nullptr;
  }
  const std::size_t first = shards_.size();
  for (const SampleSource& source : sources) {
    if (!source.shard) {
      throw Error(ErrorCode::kInvalidArgument, "a source of the batch has no shard");
    }
    if (source.shard.get() != last_) {
      last_number_ = number(source.shard);
      last_ = source.shard.get();
    }
  }
  writer.u32(static_cast<std::uint32_t>(first));
  writer.u32(static_cast<std::uint32_t>(shards_.size() - first));
  for (std::size_t i = first; i < shards_.size(); ++i) {
    writer.text(shards_[i]->dataset_path);
    writer.text(shards_[i]->shard_name);
    writer.text(shards_[i]->subflavors);
  }
}

std::uint32_t ShardNumbers::of(const SampleSource& source) const {
  if (source.shard.get() != last_) {
    last_number_ = numbers_.at(source.shard.get());
    last_ = source.shard.get();
  }
  return last_number_;
}

void NumberedShards::decode_new(ByteReader& reader) {
  const std::uint32_t first = reader.u32();
  if (first == 0) {
    shards_.clear();
  }
  if (first != shards_.size()) {
    reader.fail(fmt::format("shards begin at number {}, {} are known", first, shards_.size()));
  }
  for (std::uint32_t left = reader.count(kLeastShardBytes); left > 0; --left) {
    SourceShard shard;
    shard.dataset_path = reader.text();
    shard.shard_name = reader.text();
    shard.subflavors = reader.text();
    shards_.push_back(std::make_shared<const SourceShard>(std::move(shard)));
  }
}

const std::shared_ptr<const SourceShard>& NumberedShards::at(std::uint32_t number,
                                                             ByteReader& reader) const {
  if (number >= shards_.size()) {
    reader.fail("source names an unknown tar");
  }
  return shards_[number];
}

}  // namespace energon
