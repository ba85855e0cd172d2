#include "io/index/sample_index_writer.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/index/btree_builder.h"
#include "io/index/btree_file.h"
#include "io/index/btree_reader.h"
#include "io/index/earlier_index.h"
#include "io/index/index_schema.h"
#include "io/index/key_sorter.h"
#include "io/index/row_encoder.h"
#include "io/index/sample_rows.h"

namespace energon {

namespace {

Error other_count(const EarlierIndex& earlier, std::int64_t count, std::int64_t expected) {
  return Error(ErrorCode::kCorruptData,
               fmt::format("index database: {} rows where {} are expected", count, expected),
               {.path = earlier.file().path()});
}

// Finds keys that come more than once among keys that come in order, equal ones by row.
class KeyRepeats {
 public:
  struct Named {
    std::string key;
    std::int64_t first_row = 0;
  };

  // At most `most_named` of them are named: those with the smallest rows.
  explicit KeyRepeats(std::size_t most_named) : most_named_(most_named) {}

  bool is_new(std::string_view key, std::int64_t row) {
    if (first_row_ && key == last_key_) {
      ++count_;
      named_.emplace(row, Named{.key = last_key_, .first_row = *first_row_});
      if (named_.size() > most_named_) {
        named_.erase(std::prev(named_.end()));
      }
      return false;
    }
    last_key_ = key;
    first_row_ = row;
    return true;
  }

  std::int64_t count() const { return count_; }

  // By the row of the repetition.
  std::map<std::int64_t, Named> take_named() { return std::move(named_); }

 private:
  const std::size_t most_named_;
  std::int64_t count_ = 0;
  std::map<std::int64_t, Named> named_;
  std::string last_key_;
  std::optional<std::int64_t> first_row_;  // of last_key_
};

// The keys of an earlier index, one at a time, counted.
class EarlierKeysInStep {
 public:
  explicit EarlierKeysInStep(const EarlierIndex& index) : keys_(index) { step(); }

  // Empty at the end.
  const std::optional<EarlierKeys::Key>& key() const { return key_; }
  std::int64_t count() const { return count_; }

  void step() {
    key_ = keys_.next();
    count_ += key_ ? 1 : 0;
  }

 private:
  EarlierKeys keys_;
  std::optional<EarlierKeys::Key> key_;
  std::int64_t count_ = 0;
};

}  // namespace

struct SampleIndexWriter::Trees {
  Trees(const std::string& path, std::uint64_t sort_bytes)
      : Trees(path, create_index_schema(path), sort_bytes) {}

  Trees(const std::string& path, const IndexRoots& roots, std::uint64_t sort_bytes)
      : file(path),
        samples(file, BtreeBuilder::Kind::kTable, roots.samples),
        samples_by_key(file, BtreeBuilder::Kind::kIndex, roots.samples_by_key),
        samples_by_place(file, BtreeBuilder::Kind::kIndex, roots.samples_by_place),
        parts(file, BtreeBuilder::Kind::kTable, roots.parts),
        parts_by_place(file, BtreeBuilder::Kind::kIndex, roots.parts_by_place),
        parts_by_name(file, BtreeBuilder::Kind::kIndex, roots.parts_by_name),
        keys(path + ".keys", sort_bytes) {}

  BtreeFile file;
  BtreeBuilder samples;
  BtreeBuilder samples_by_key;
  BtreeBuilder samples_by_place;
  BtreeBuilder parts;
  BtreeBuilder parts_by_place;
  BtreeBuilder parts_by_name;
  KeySorter keys;
};

SampleIndexWriter::SampleIndexWriter(std::string path, std::uint64_t sort_bytes)
    : path_(std::move(path)), trees_(std::make_unique<Trees>(path_, sort_bytes)) {}

SampleIndexWriter::~SampleIndexWriter() = default;

void SampleIndexWriter::add(const EarlierIndex& earlier,
                            std::span<const std::int64_t> sample_counts) {
  for (std::size_t i = 0; i < sample_counts.size(); ++i) {
    starts_.push_back({.row = samples_ + 1, .tar_file_id = static_cast<std::int64_t>(i)});
    samples_ += sample_counts[i];
  }
  const auto copy = [&](BtreeBuilder::Kind kind, std::uint32_t root, BtreeBuilder& tree,
                        std::int64_t expected) {
    BtreeReader cells(earlier.file(), kind, root);
    std::int64_t count = 0;
    while (const std::optional<ByteView> cell = cells.next()) {
      tree.add(*cell);
      ++count;
    }
    if (count != expected) {
      throw other_count(earlier, count, expected);
    }
  };
  using enum BtreeBuilder::Kind;
  const IndexRoots& roots = earlier.roots();
  const std::int64_t parts = earlier.counts().parts;
  copy(kTable, roots.samples, trees_->samples, samples_);
  copy(kIndex, roots.samples_by_place, trees_->samples_by_place, samples_);
  copy(kTable, roots.parts, trees_->parts, parts);
  copy(kIndex, roots.parts_by_place, trees_->parts_by_place, parts);
  copy(kIndex, roots.parts_by_name, trees_->parts_by_name, parts);
  earlier_ = &earlier;
}

void SampleIndexWriter::add(const SampleRows& rows) {
  const auto add_all = [](const EncodedCells& cells, BtreeBuilder& tree) {
    cells.for_each([&tree](ByteView cell) { tree.add(cell); });
  };
  add_all(rows.samples, trees_->samples);
  add_all(rows.samples_by_place, trees_->samples_by_place);
  add_all(rows.parts, trees_->parts);
  add_all(rows.parts_by_place, trees_->parts_by_place);
  add_all(rows.parts_by_name, trees_->parts_by_name);
  starts_.push_back({.row = samples_ + 1, .tar_file_id = rows.tar_file_id});
  std::string_view keys = rows.keys;
  for (const SortedKey& key : rows.sorted_keys) {
    trees_->keys.add(keys.substr(0, key.size), samples_ + 1 + key.sample_index);
    keys.remove_prefix(key.size);
  }
  samples_ += rows.counts.samples;
}

RepeatedKeys SampleIndexWriter::finish(std::size_t most_named) {
  RepeatedKeys repeated = add_keys(most_named);
  if (repeated.count == 0) {
    for (BtreeBuilder* const tree :
         {&trees_->samples, &trees_->samples_by_key, &trees_->samples_by_place, &trees_->parts,
          &trees_->parts_by_place, &trees_->parts_by_name}) {
      tree->finish();
    }
    trees_->file.finish();
  }
  trees_.reset();
  return repeated;
}

// Adds the keys to their index: those of the earlier index, which are in order, merged with the
// sorted new ones.
RepeatedKeys SampleIndexWriter::add_keys(std::size_t most_named) {
  KeyRepeats repeats(most_named);
  std::optional<EarlierKeysInStep> earlier;
  if (earlier_ != nullptr) {
    earlier.emplace(*earlier_);
  }
  // Of equal keys, the earlier one has the smaller row.
  const auto add_earlier_up_to = [&](std::optional<std::string_view> key) {
    while (earlier && earlier->key() && (!key || earlier->key()->key <= *key)) {
      if (repeats.is_new(earlier->key()->key, earlier->key()->row)) {
        trees_->samples_by_key.add(earlier->key()->cell);
      }
      earlier->step();
    }
  };
  RowEncoder encoder;
  EncodedCells cell;
  trees_->keys.visit_in_order([&](std::string_view key, std::int64_t row) {
    add_earlier_up_to(key);
    if (repeats.is_new(key, row)) {
      encoder.add(key);
      encoder.add(row);
      cell.clear();
      encoder.finish_key(cell);
      cell.for_each([this](ByteView bytes) { trees_->samples_by_key.add(bytes); });
    }
  });
  add_earlier_up_to(std::nullopt);
  if (earlier && earlier->count() != earlier_->counts().samples) {
    throw other_count(*earlier_, earlier->count(), earlier_->counts().samples);
  }
  RepeatedKeys repeated{.count = repeats.count()};
  for (auto& [row, other] : repeats.take_named()) {
    repeated.named.push_back({.key = std::move(other.key),
                              .first = position_of(other.first_row),
                              .again = position_of(row)});
  }
  return repeated;
}

SamplePosition SampleIndexWriter::position_of(std::int64_t row) const {
  const auto behind =
      std::upper_bound(starts_.begin(), starts_.end(), row,
                       [](std::int64_t wanted, const Start& start) { return wanted < start.row; });
  const Start& start = *std::prev(behind);
  return {.tar_file_id = start.tar_file_id, .sample_index = row - start.row};
}

std::string make_uuid() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw io_error("cannot get random bytes", errno);
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);  // version 4
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);  // variant of RFC 4122
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  }
  return text;
}

}  // namespace energon
