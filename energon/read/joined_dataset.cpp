#include "energon/read/joined_dataset.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

std::string digest_of_file(const std::string& path) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  const FileSource file(path);
  std::vector<std::byte> block(kBlock);
  Xxh3Stream stream;
  for (std::uint64_t offset = 0; offset < file.size(); offset += kBlock) {
    const std::size_t size = std::min<std::uint64_t>(kBlock, file.size() - offset);
    file.read_at(offset, std::span(block).first(size));
    stream.update(std::span(block).first(size));
  }
  return to_hex(stream.digest());
}

}  // namespace

Mapping merge_columns(std::vector<JoinedColumn> columns) {
  Mapping fields;
  for (JoinedColumn& column : columns) {
    if (!column.sample) {
      continue;
    }
    for (auto& [name, value] : column.sample->fields) {
      const auto same =
          std::find_if(fields.begin(), fields.end(),
                       [&name = name](const auto& field) { return field.first == name; });
      if (same == fields.end()) {
        fields.emplace_back(std::move(name), std::move(value));
      } else {
        same->second = std::move(value);
      }
    }
  }
  return fields;
}

JoinedDataset::JoinedDataset(const LeafReference& reference,
                             std::vector<std::shared_ptr<const Webdataset>> columns,
                             JoinFunction function, std::string loaded_by)
    : function_(std::move(function)), loaded_by_(std::move(loaded_by)) {
  const JoinFiles files = locate_join(reference);
  const JoinIndex index = open_join_index(files, reference);
  index_path_ = index.path();
  index_identity_ = FileSource(index_path_).identity();
  shard_counts_ = {index.row_count()};
  std::vector<JoinIndex::TarSizes> sizes;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::unordered_map<std::string, std::int64_t> opened;
    const std::vector<ShardFile>& shards = columns[c]->shards().shards;
    for (std::size_t s = 0; s < shards.size(); ++s) {
      opened.emplace(shards[s].name, static_cast<std::int64_t>(s));
    }
    Column column{.name = reference.columns[c].name, .dataset = columns[c], .shards = {}};
    JoinIndex::TarSizes column_sizes;
    for (const std::string& name : files.sources[c].shards) {
      const auto shard = opened.find(name);
      if (shard == opened.end() || shards[static_cast<std::size_t>(shard->second)].is_broken) {
        // A shard excluded before the join was prepared has no rows. Otherwise it was excluded or
        // broke since then, and its rows are left out, too.
        const bool was_excluded = files.sources[c].is_shard_excluded(column.shards.size());
        column.shards.emplace_back();
        column_sizes.push_back(
            was_excluded ? std::nullopt : std::optional(std::numeric_limits<std::uint64_t>::max()));
      } else {
        column.shards.emplace_back(shard->second);
        column_sizes.emplace_back(shards[static_cast<std::size_t>(shard->second)].tar_size);
      }
    }
    columns_.push_back(std::move(column));
    sizes.push_back(std::move(column_sizes));
  }
  index.check(sizes);
  find_excluded(index);
  digest_ = digest_of_file(index_path_);
}

std::optional<std::int64_t> JoinedDataset::shard_of(std::size_t column, std::int64_t place) const {
  return columns_[column].shards.at(static_cast<std::size_t>(place));
}

// Finds rows with a sample that was left out after the join was prepared, for example by a
// quarantine file.
void JoinedDataset::find_excluded(const JoinIndex& index) {
  using Places = std::set<std::tuple<std::size_t, std::int64_t, std::uint64_t>>;
  Places places;  // column, shard, offset
  Places places_kept;
  bool is_any_shard_missing = false;
  const auto add = [&](std::size_t c, const SampleExclude& exclude, Places& to) {
    const ShardFile& shard =
        columns_[c].dataset->shards().shards[static_cast<std::size_t>(exclude.shard)];
    if (shard.is_broken) {
      return;  // no row refers to this shard
    }
    const TarIndex tar_index = TarIndex::load(shard.index_path, shard.tar_size);
    if (shard.index_digest) {
      check_recorded_index(*shard.index_digest, tar_index, shard.index_path);
    }
    to.insert({c, exclude.shard, tar_index.entries()[static_cast<std::size_t>(exclude.sample)]});
  };
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const ShardSet& set = columns_[c].dataset->shards();
    is_any_shard_missing =
        is_any_shard_missing || set.shards.size() < columns_[c].shards.size() ||
        std::any_of(set.shards.begin(), set.shards.end(), std::mem_fn(&ShardFile::is_broken));
    for (const SampleExclude& exclude : set.excludes) {
      add(c, exclude, places);
    }
    for (const SampleExclude& exclude : set.excludes_in_place) {
      add(c, exclude, places_kept);
    }
  }
  if (places.empty() && places_kept.empty() && !is_any_shard_missing) {
    return;
  }
  index.for_each_row([&](std::int64_t i, const JoinRow& row) {
    bool is_excluded = false;
    bool is_kept = false;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (row[c]) {
        const auto shard = shard_of(c, row[c]->shard);
        is_excluded = is_excluded || !shard || places.contains({c, *shard, row[c]->bytes.offset});
        is_kept = is_kept || (shard && places_kept.contains({c, *shard, row[c]->bytes.offset}));
      }
    }
    if (is_excluded) {
      excluded_.push_back(i);
    } else if (is_kept) {
      excluded_in_place_.push_back(i);
    }
  });
}

Config JoinedDataset::config() const {
  Config columns = Config::array();
  for (const Column& column : columns_) {
    columns.push_back(column.dataset->config());
  }
  Config config = {{"type", "Join"},
                   {"samples", sample_count()},
                   {"index", digest_},
                   {"excluded", to_hex(xxh3_64(std::as_bytes(std::span(excluded_))))},
                   {"columns", std::move(columns)}};
  if (!loaded_by_.empty()) {
    config["loaded_by"] = printable(loaded_by_);
  }
  return config;
}

std::unique_ptr<LeafReader> JoinedDataset::open_reader() const {
  return std::make_unique<JoinedReader>(shared_from_this());
}

JoinedReader::JoinedReader(std::shared_ptr<const JoinedDataset> dataset)
    : dataset_(std::move(dataset)) {
  for (std::size_t c = 0; c < dataset_->column_count(); ++c) {
    readers_.emplace_back(dataset_->shared_column(c));
  }
}

void JoinedReader::share_reads(const std::shared_ptr<ReadHelper>& helper) {
  for (WebdatasetReader& reader : readers_) {
    reader.share_reads(helper);
  }
}

void JoinedReader::share_budgets(const ReadBudgets& budgets) {
  for (WebdatasetReader& reader : readers_) {
    reader.share_budgets(budgets);
  }
}

JoinRow JoinedReader::row(std::int64_t index) const {
  if (!index_) {
    index_.emplace(dataset_->index_path(), dataset_->column_count());
    if (FileSource(dataset_->index_path()).identity() != dataset_->index_identity()) {
      index_.reset();
      throw Error(ErrorCode::kCorruptData,
                  "the join index changed since the dataset was opened; restart the job",
                  {.path = dataset_->index_path()});
    }
  }
  return index_->row(index);
}

void JoinedReader::read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
                        std::vector<Sample>& samples) {
  joining_.clear();
  std::vector<JoinRow> rows;
  rows.reserve(indexes.size());
  for (const std::int64_t index : indexes) {
    rows.push_back(row(index));
  }
  // Column by column, so that neighbors are read together.
  std::vector<std::vector<JoinedColumn>> joined(rows.size());
  for (std::size_t c = 0; c < readers_.size(); ++c) {
    reading_ = c;
    std::vector<std::int64_t> wanted;
    for (const JoinRow& row : rows) {
      if (row[c]) {
        // The shard exists: checked when the index was opened.
        wanted.push_back(
            readers_[c].index_at(dataset_->shard_of(c, row[c]->shard).value(), row[c]->bytes));
      }
    }
    std::vector<Sample> column;
    readers_[c].read(wanted, allocator, column);
    auto next = column.begin();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      joined[i].push_back(
          {.name = dataset_->column_name(c),
           .sample = rows[i][c] ? std::optional(std::move(*next++)) : std::nullopt});
    }
  }
  reading_ = 0;  // later errors concern the whole sample
  std::vector<Sample> result;
  for (std::vector<JoinedColumn>& columns : joined) {
    Sample sample;
    sample.keys = columns.front().sample.value().keys;
    for (JoinedColumn& column : columns) {
      if (!column.sample) {
        continue;
      }
      if (column.sample->keys != sample.keys) {
        throw Error(
            ErrorCode::kCorruptData,
            fmt::format("the join index joins different keys '{}' and '{}'; run energon prepare "
                        "on the metadataset again",
                        printable(sample.keys.front()), printable(column.sample->keys.front())),
            {.path = dataset_->index_path(), .sample_key = std::string(sample.keys.front())});
      }
      for (SampleSource& source : column.sample->sources) {
        sample.sources.push_back(std::move(source));
      }
    }
    joining_ = sample.keys.front();
    sample.fields = dataset_->function() ? dataset_->function()(std::move(columns))
                                         : merge_columns(std::move(columns));
    result.push_back(std::move(sample));
  }
  std::move(result.begin(), result.end(), std::back_inserter(samples));
}

FailedSample JoinedReader::describe(std::int64_t index) {
  const JoinRow places = row(index);
  const std::size_t column = places[reading_] ? reading_ : 0;
  const JoinPlace place = places[column].value();
  const std::int64_t shard = dataset_->shard_of(column, place.shard).value();
  FailedSample sample{.dataset_path = dataset_->column(column).shards().dataset_path,
                      .shard_name = dataset_->column(column).source(shard)->shard_name,
                      .bytes = place.bytes};
  try {
    sample = readers_[column].describe(readers_[column].index_at(shard, place.bytes));
  } catch (const Error&) {
    // Only the place is known.
  }
  if (sample.key.empty()) {
    sample.key = joining_;
  }
  return sample;
}

std::optional<std::int64_t> JoinedReader::broken_file(std::int64_t index) {
  const JoinRow places = row(index);
  for (std::size_t c = 0; c < places.size(); ++c) {
    if (places[c]) {
      const std::int64_t shard = dataset_->shard_of(c, places[c]->shard).value();
      if (!readers_[c].can_open_shard(shard)) {
        reading_ = c;
        return file_number(c, shard);
      }
    }
  }
  return std::nullopt;
}

bool JoinedReader::needs_file(std::int64_t index, std::int64_t file) const {
  const JoinRow places = row(index);
  for (std::size_t c = 0; c < places.size(); ++c) {
    if (places[c] && file_number(c, dataset_->shard_of(c, places[c]->shard).value()) == file) {
      return true;
    }
  }
  return false;
}

}  // namespace energon
