#include "io/index/sample_rows.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace energon {
namespace {

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// The columns are those of the tables in sample_index_writer.cpp; behind the columns of an index is
// the number of the row.
class ShardEncoder {
 public:
  ShardEncoder(std::int64_t tar_file_id, const RowCounts& before)
      : rows_{.tar_file_id = tar_file_id}, before_(before) {}

  void add(const ScannedSample& sample) {
    const std::int64_t number = rows_.counts.samples++;
    const std::int64_t row = before_.samples + rows_.counts.samples;  // SQLite counts from 1
    put(rows_.tar_file_id, std::string_view(sample.key), number, as_signed(sample.offset),
        as_signed(sample.size));
    encoder_.finish_row(row, rows_.samples);
    put(rows_.tar_file_id, number, row);
    encoder_.finish_key(rows_.samples_by_place);
    add_parts(number, sample.parts);
  }

  void add_keys(const std::vector<ScannedSample>& samples) {
    std::vector<std::uint32_t> order(samples.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    const auto is_before = [&](std::uint32_t a, std::uint32_t b) {
      return samples[a].key < samples[b].key;
    };
    if (!std::is_sorted(order.begin(), order.end(), is_before)) {
      std::sort(order.begin(), order.end(), is_before);
    }
    rows_.sorted_keys.reserve(order.size());
    for (const std::uint32_t i : order) {
      rows_.keys += samples[i].key;
      rows_.sorted_keys.push_back(
          {.size = static_cast<std::uint32_t>(samples[i].key.size()), .sample_index = i});
    }
  }

  SampleRows take() { return std::move(rows_); }

 private:
  template <class... Columns>
  void put(const Columns&... columns) {
    (encoder_.add(columns), ...);
  }

  void add_parts(std::int64_t sample, const std::vector<ScannedPart>& parts) {
    const std::int64_t first_row = before_.parts + rows_.counts.parts + 1;
    rows_.counts.parts += static_cast<std::int64_t>(parts.size());
    by_name_.clear();
    for (const ScannedPart& part : parts) {
      const std::int64_t row = first_row + static_cast<std::int64_t>(by_name_.size());
      by_name_.push_back(by_name_.size());
      put(rows_.tar_file_id, sample, std::string_view(part.name), as_signed(part.content_offset),
          as_signed(part.size));
      encoder_.finish_row(row, rows_.parts);
      put(rows_.tar_file_id, sample, as_signed(part.content_offset), row);
      encoder_.finish_key(rows_.parts_by_place);
    }
    std::sort(by_name_.begin(), by_name_.end(),
              [&](std::size_t a, std::size_t b) { return parts[a].name < parts[b].name; });
    for (const std::size_t i : by_name_) {
      const ScannedPart& part = parts[i];
      put(rows_.tar_file_id, sample, std::string_view(part.name), as_signed(part.content_offset),
          as_signed(part.size), first_row + static_cast<std::int64_t>(i));
      encoder_.finish_key(rows_.parts_by_name);
    }
  }

  SampleRows rows_;
  const RowCounts before_;
  RowEncoder encoder_;
  std::vector<std::size_t> by_name_;  // the parts of a sample
};

}  // namespace

RowCounts count_rows(const ShardScan& scan) {
  RowCounts counts{.samples = static_cast<std::int64_t>(scan.samples.size())};
  for (const ScannedSample& sample : scan.samples) {
    counts.parts += static_cast<std::int64_t>(sample.parts.size());
  }
  return counts;
}

SampleRows encode_rows(const ShardScan& scan, std::int64_t tar_file_id, const RowCounts& before) {
  ShardEncoder encoder(tar_file_id, before);
  for (const ScannedSample& sample : scan.samples) {
    encoder.add(sample);
  }
  encoder.add_keys(scan.samples);
  return encoder.take();
}

}  // namespace energon
