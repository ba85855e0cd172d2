#include "io/recipe/join_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/sha.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "join indices are little-endian and are read and written as they are");

constexpr std::string_view kMagic = "JIDX0001";
constexpr std::uint64_t kHeaderBytes = 16;  // magic, number of columns
constexpr std::size_t kPlaceNumbers = 3;    // shard, byte offset, byte size
constexpr std::int64_t kMissing = -1;       // all three, where there is no sample

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
    fail(fmt::format("not a join index: it has {} bytes, fewer than its header", file_.size()));
  }
  file_.read_at(0, std::as_writable_bytes(std::span(header)));
  if (!std::string_view(header.data(), header.size()).starts_with(kMagic)) {
    fail("not a join index: it does not begin with JIDX0001");
  }
  std::int64_t stored_columns = 0;
  std::memcpy(&stored_columns, header.data() + kMagic.size(), sizeof(stored_columns));
  if (stored_columns <= 0 || static_cast<std::uint64_t>(stored_columns) != columns) {
    fail(fmt::format("the join index is of {} datasets, the join has {}", stored_columns, columns));
  }
  const std::uint64_t content = file_.size() - kHeaderBytes;
  if (content % row_bytes(columns) != 0) {
    fail(
        fmt::format("the join index has {} bytes, which is no whole number of rows; it is "
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
        fail(i, c, "the sample is missing, which it cannot be in the first dataset");
      }
      continue;
    }
    constexpr std::int64_t kBlockBytes = 512;
    if (shard < 0 || offset < 0 || size <= 0 || offset % kBlockBytes != 0 ||
        offset > INT64_MAX - size) {
      fail(i, c,
           fmt::format("shard {}, offset {} and size {} cannot be a sample", shard, offset, size));
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
                fmt::format("there is no row {}, the join index has {}", i, rows_),
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
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("sizes of {} datasets for a join of {}", tar_sizes.size(), columns_));
  }
  std::optional<JoinPlace> before;
  for_each_row([&](std::int64_t i, const JoinRow& row) {
    if (before && row[0] &&
        std::pair(row[0]->shard, row[0]->bytes.offset) <=
            std::pair(before->shard, before->bytes.offset)) {
      fail(i, 0, "its sample does not come after that of the row before");
    }
    before = row[0];
    for (std::size_t c = 0; c < columns_; ++c) {
      if (!row[c]) {
        continue;
      }
      const auto shard = static_cast<std::size_t>(row[c]->shard);
      if (shard >= tar_sizes[c].size() || !tar_sizes[c][shard]) {
        fail(i, c,
             fmt::format("shard {} is none of the {} of the split part, or is excluded", shard,
                         tar_sizes[c].size()));
      }
      if (row[c]->bytes.end() > *tar_sizes[c][shard]) {
        fail(i, c,
             fmt::format("the sample ends at byte {}, the shard at {}", row[c]->bytes.end(),
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
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a row of {} places for a join of {}", row.size(), columns_));
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

}  // namespace energon
