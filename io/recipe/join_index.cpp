#include "io/recipe/join_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "io/byte_codec.h"
#include "io/dataset/brace_pattern.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/excluded_samples.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index.h"
#include "io/sha.h"
#include "io/shared_folder.h"

namespace energon {

// --- The index ---

namespace {

static_assert(std::endian::native == std::endian::little,
              "join indices are little-endian and are read and written as they are");

constexpr std::string_view kMagic = "JIDX0001";
constexpr std::uint64_t kHeaderBytes = 16;  // magic, number of columns
constexpr std::size_t kPlaceNumbers = 3;    // shard, byte offset, byte size
constexpr std::int64_t kMissing = -1;       // value of all three where there is no sample

std::uint64_t row_bytes(std::size_t columns) {
  return columns * kPlaceNumbers * sizeof(std::int64_t);
}

}  // namespace

JoinIndex::JoinIndex(const std::string& path, std::size_t columns)
    : file_(path), columns_(columns) {
  const auto fail = [&](const std::string& problem) {
    throw Error(ErrorCode::kCorruptData, problem, {.path = path});
  };
  std::array<char, kHeaderBytes> header{};
  if (file_.size() < kHeaderBytes) {
    fail(fmt::format("not a join index: its {} bytes are fewer than a header", file_.size()));
  }
  file_.read_at(0, std::as_writable_bytes(std::span(header)));
  ByteReader reader({header.data(), header.size()}, "the join index");
  if (reader.raw(kMagic.size()) != kMagic) {
    fail("not a join index: expected magic JIDX0001");
  }
  const std::int64_t stored_columns = reader.i64();
  if (stored_columns <= 0 || static_cast<std::uint64_t>(stored_columns) != columns) {
    fail(fmt::format("the join index has {} datasets, but the join has {}", stored_columns,
                     columns));
  }
  const std::uint64_t content = file_.size() - kHeaderBytes;
  if (content % row_bytes(columns) != 0) {
    fail(
        fmt::format("the join index has {} bytes, which is not a whole number of rows; it is "
                    "truncated",
                    file_.size()));
  }
  rows_ = static_cast<std::int64_t>(content / row_bytes(columns));
}

void JoinIndex::fail(std::int64_t row, std::size_t column, const std::string& problem) const {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("row {} of the join index, dataset {}: {}; run energon prepare on the "
                  "metadataset",
                  row, column, problem),
      {.path = file_.path(),
       .byte_offset = kHeaderBytes + static_cast<std::uint64_t>(row) * row_bytes(columns_)});
}

JoinRow JoinIndex::decode(std::int64_t i, std::span<const std::int64_t> numbers) const {
  JoinRow row(columns_);
  for (std::size_t c = 0; c < columns_; ++c) {
    const auto place = numbers.subspan(c * kPlaceNumbers, kPlaceNumbers);
    const auto [shard, offset, size] = std::tuple(place[0], place[1], place[2]);
    if (shard == kMissing && offset == kMissing && size == kMissing) {
      if (c == 0) {
        fail(i, c, "the sample is missing, which is not allowed in the first dataset");
      }
      continue;
    }
    constexpr std::int64_t kBlockBytes = 512;
    if (shard < 0 || offset < 0 || size <= 0 || offset % kBlockBytes != 0 ||
        offset > INT64_MAX - size) {
      fail(i, c,
           fmt::format("shard {}, offset {} and size {} are not a valid sample", shard, offset,
                       size));
    }
    row[c] = JoinPlace{.shard = shard,
                       .bytes = {.offset = static_cast<std::uint64_t>(offset),
                                 .size = static_cast<std::uint64_t>(size)}};
  }
  return row;
}

JoinRow JoinIndex::row(std::int64_t i) const {
  if (i < 0 || i >= rows_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("row {} is out of range: the join index has {} rows", i, rows_),
                {.path = file_.path()});
  }
  std::vector<std::int64_t> numbers(columns_ * kPlaceNumbers);
  file_.read_at(kHeaderBytes + static_cast<std::uint64_t>(i) * row_bytes(columns_),
                std::as_writable_bytes(std::span(numbers)));
  return decode(i, numbers);
}

void JoinIndex::for_each_row(const std::function<void(std::int64_t, const JoinRow&)>& visit) const {
  constexpr std::int64_t kRowsAtOnce = 4096;
  const std::size_t row_numbers = columns_ * kPlaceNumbers;
  std::vector<std::int64_t> numbers;
  for (std::int64_t first = 0; first < rows_; first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows_ - first);
    numbers.resize(static_cast<std::size_t>(count) * row_numbers);
    file_.read_at(kHeaderBytes + static_cast<std::uint64_t>(first) * row_bytes(columns_),
                  std::as_writable_bytes(std::span(numbers)));
    for (std::int64_t i = 0; i < count; ++i) {
      visit(first + i,
            decode(first + i, std::span(numbers).subspan(static_cast<std::size_t>(i) * row_numbers,
                                                         row_numbers)));
    }
  }
}

void JoinIndex::check(std::span<const TarSizes> tar_sizes) const {
  if (tar_sizes.size() != columns_) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} datasets have sizes, but the join has {}", tar_sizes.size(), columns_));
  }
  std::optional<JoinPlace> before;
  for_each_row([&](std::int64_t i, const JoinRow& row) {
    if (before && row[0] &&
        std::pair(row[0]->shard, row[0]->bytes.offset) <=
            std::pair(before->shard, before->bytes.offset)) {
      fail(i, 0, "its sample does not follow that of the previous row");
    }
    before = row[0];
    for (std::size_t c = 0; c < columns_; ++c) {
      if (!row[c]) {
        continue;
      }
      const auto shard = static_cast<std::size_t>(row[c]->shard);
      if (shard >= tar_sizes[c].size() || !tar_sizes[c][shard]) {
        fail(i, c,
             fmt::format("shard {} is not one of the {} in the split part, or is excluded", shard,
                         tar_sizes[c].size()));
      }
      if (row[c]->bytes.end() > *tar_sizes[c][shard]) {
        fail(i, c,
             fmt::format("the sample ends at byte {}, but the shard at {}", row[c]->bytes.end(),
                         *tar_sizes[c][shard]));
      }
    }
  });
}

struct JoinIndexWriter::File {
  explicit File(const std::string& path) : out(path) {}

  NewFile out;
};

JoinIndexWriter::JoinIndexWriter(const std::string& path, std::size_t columns)
    : columns_(columns), file_(std::make_unique<File>(path)) {
  const auto stored_columns = static_cast<std::int64_t>(columns);
  file_->out.append(as_bytes(kMagic));
  file_->out.append(std::as_bytes(std::span(&stored_columns, 1)));
}

JoinIndexWriter::~JoinIndexWriter() = default;

void JoinIndexWriter::add(const JoinRow& row) {
  if (row.size() != columns_) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the row has {} places, but the join has {} datasets", row.size(), columns_));
  }
  for (const auto& place : row) {
    const std::array<std::int64_t, kPlaceNumbers> numbers =
        place ? std::array{place->shard, static_cast<std::int64_t>(place->bytes.offset),
                           static_cast<std::int64_t>(place->bytes.size)}
              : std::array{kMissing, kMissing, kMissing};
    file_->out.append(std::as_bytes(std::span(numbers)));
  }
}

void JoinIndexWriter::finish() { file_->out.replace(); }

std::string join_index_name(std::span<const JoinNameField> columns) {
  constexpr std::string_view kNul("\0", 1);
  Sha256 hash;
  const auto add = [&](std::string_view text) { hash.update(as_bytes(text)); };
  for (const JoinNameField& column : columns) {
    add(kNul);
    add("uuid=");
    add(column.uuid);
    add(kNul);
    add("excludes=");
    for (const std::string& exclude :
         std::set<std::string>(column.excludes.begin(), column.excludes.end())) {
      add(exclude);
      add(kNul);
    }
    add(kNul);
    add("nonmatch=");
    add(to_string(column.nonmatch));
    add(kNul);
    if (column.split) {
      add("split=");
      add(*column.split);
      add(kNul);
    }
  }
  return fmt::format("join_index_{}.bin", hash.finish());
}

// --- The datasets of a join ---

namespace {

[[noreturn]] void fail_unprepared(const std::string& path, std::string_view file) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the dataset cannot be joined: .nv-meta/{} is missing; run: energon "
                          "prepare --force-overwrite {}",
                          file, printable(path)),
              {.path = path});
}

std::string read_uuid(const std::string& path) {
  constexpr std::uint64_t kLimitBytes = 1024;
  const std::string uuid_path = path + "/.nv-meta/index.uuid";
  if (!path_exists(uuid_path)) {
    fail_unprepared(path, "index.uuid");
  }
  return read_file(uuid_path, kLimitBytes);
}

std::vector<std::string> expand_all(const std::vector<std::string>& patterns) {
  std::vector<std::string> result;
  for (const std::string& pattern : patterns) {
    for (std::string& name : expand_braces(pattern)) {
      result.push_back(std::move(name));
    }
  }
  return result;
}

JoinSource read_source(const JoinColumn& column) {
  const std::string meta = column.path + "/.nv-meta";
  const auto info = read_dataset_info(meta);
  if (!info) {
    fail_unprepared(column.path, ".info.json");
  }
  std::unordered_map<std::string, std::int64_t> ids;
  for (const ShardCount& shard : info->shards) {
    ids.emplace(shard.name, static_cast<std::int64_t>(ids.size()));
  }
  const SplitConfig config = read_split_config(meta, column.split_config);
  select_shards(config, column.split_part, meta);  // throws for unknown and empty parts

  JoinSource source{.dataset_path = column.path,
                    .split_part = column.split_part,
                    .nonmatch = column.nonmatch,
                    .uuid = read_uuid(column.path)};
  const auto part = std::find_if(config.parts.begin(), config.parts.end(), [&](const auto& entry) {
    return entry.name == column.split_part;
  });
  source.shards = expand_all(part->patterns);
  std::set<std::string> seen;
  for (const std::string& name : source.shards) {
    const auto id = ids.find(name);
    if (id == ids.end() || !seen.insert(name).second) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the split part '{}' lists the shard '{}'{}",
                              printable(column.split_part), printable(name),
                              id == ids.end() ? ", which is not in .info.json"
                                              : " twice; such a part cannot be joined"),
                  {.path = meta});
    }
    source.tar_file_ids.push_back(id->second);
    source.sample_counts.push_back(info->shards[static_cast<std::size_t>(id->second)].sample_count);
  }
  source.excludes = expand_all(config.exclude);
  std::sort(source.excludes.begin(), source.excludes.end());
  source.excludes.erase(std::unique(source.excludes.begin(), source.excludes.end()),
                        source.excludes.end());
  return source;
}

}  // namespace

bool JoinSource::is_shard_excluded(std::size_t position) const {
  return std::binary_search(excludes.begin(), excludes.end(), shards[position]);
}

std::vector<std::string> dataset_paths(const LeafReference& join) {
  std::vector<std::string> paths;
  for (const JoinColumn& column : join.columns) {
    paths.push_back(column.path);
  }
  return paths;
}

JoinFiles locate_join(const LeafReference& join) {
  JoinFiles files;
  std::vector<JoinNameField> fields;
  for (const JoinColumn& column : join.columns) {
    JoinSource& source = files.sources.emplace_back();
    read_committed(column.path, [&] { source = read_source(column); });
    JoinNameField field{.uuid = source.uuid, .excludes = {}, .nonmatch = source.nonmatch};
    std::copy_if(source.excludes.begin(), source.excludes.end(), std::back_inserter(field.excludes),
                 [](const std::string& entry) { return entry.find('/') != std::string::npos; });
    if (join.is_split_in_index_name) {
      field.split = fmt::format("{}/{}", column.split_config.value_or(""), column.split_part);
    }
    fields.push_back(std::move(field));
  }
  files.index_path = fmt::format("{}.cache/{}", join.path, join_index_name(fields));
  return files;
}

std::optional<std::int64_t> expected_rows(const JoinFiles& files) {
  const auto skips = [](const JoinSource& source) { return source.nonmatch == Nonmatch::kSkip; };
  if (std::any_of(files.sources.begin() + 1, files.sources.end(), skips)) {
    return std::nullopt;
  }
  const JoinSource& first = files.sources.front();
  std::int64_t rows = 0;
  std::unordered_map<std::string, std::int64_t>
      ids;  // tar file ids of shards that are not excluded
  for (std::size_t i = 0; i < first.shards.size(); ++i) {
    if (!first.is_shard_excluded(i)) {
      rows += first.sample_counts[i];
      ids.emplace(first.shards[i], first.tar_file_ids[i]);
    }
  }
  std::optional<SampleIndex> index;
  for (const std::string& entry : first.excludes) {
    const auto sample = split_exclude_entry(entry, ids);
    if (!sample) {
      continue;
    }
    if (!index) {
      const std::string path = first.dataset_path + "/.nv-meta/index.sqlite";
      if (!path_exists(path)) {
        return std::nullopt;
      }
      index.emplace(path);
    }
    const auto location = index->find_sample(sample->key);
    rows -= location && location->tar_file_id == ids.at(sample->shard) ? 1 : 0;
  }
  return rows;
}

JoinIndex open_join_index(const JoinFiles& files, const LeafReference& join) {
  if (!path_exists(files.index_path)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the join is not prepared, or the metadataset or one of its datasets "
                            "has changed since; run: energon prepare {}",
                            printable(join.path)),
                {.path = files.index_path});
  }
  JoinIndex index(files.index_path, files.sources.size());
  if (const auto rows = expected_rows(files); rows && *rows != index.row_count()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the join index has {} rows, but the split part '{}' of the first "
                            "dataset has {} samples that are not excluded: the index was "
                            "truncated, or the split file was changed; run: energon prepare {}",
                            index.row_count(), printable(files.sources.front().split_part), *rows,
                            printable(join.path)),
                {.path = files.index_path});
  }
  return index;
}

}  // namespace energon
