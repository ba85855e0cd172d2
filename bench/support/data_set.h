// The datasets that the benchmarks read: generated once, with the same bytes on every machine.
//
// The content of each part is computed from the number of its sample, so delivered data can be
// checked without reading the tars again.

#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/read/webdataset.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon::bench {

/// Writes the tars for the benchmarks: plain ustar, short names, regular files only.
class UstarWriter {
 public:
  /// Replaces `path`. Throws Error (kIo).
  explicit UstarWriter(const std::string& path);

  /// Appends a file. Requires: `name` has at most 99 bytes. Throws Error (kIo).
  void add(std::string_view name, ByteView content);

  /// Writes the end of the archive. Throws Error (kIo).
  void finish();

 private:
  void write(const char* bytes, std::size_t size);

  const std::string path_;
  std::ofstream file_;
};

struct PartSpec {
  std::string name;
  std::size_t size_bytes = 0;
};

struct DataSetSpec {
  std::string name;
  std::int64_t samples = 0;
  int shards = 1;
  std::vector<PartSpec> parts;
  std::int64_t first = 0;  ///< index of the first sample, so that keys of several sets differ

  std::uint64_t payload_bytes_per_sample() const;
};

/// Samples with one part of 1 MiB, in 8 shards.
DataSetSpec blob_spec(std::int64_t samples);
/// Samples with the parts txt (600 B) and json (200 B), 2,560 B per sample in the tar, in 20
/// shards.
DataSetSpec text_spec(std::int64_t samples);
/// 4,096 tars of 100 samples of 300 B.
DataSetSpec many_tars_spec();
/// 200,000 samples of 300 B, to be divided over several datasets.
DataSetSpec blended_spec();

/// A prepared dataset on disk.
struct DataSet {
  DataSetSpec spec;
  std::string path;
};

/// Writes and prepares the dataset in its own folder below `folder`, unless it exists. Throws
/// Error.
DataSet make_data_set(const std::string& folder, const DataSetSpec& spec);

/// Opens the dataset as a job does.
std::shared_ptr<const Webdataset> open_data_set(const DataSet& data);

/// Makes and opens `count` datasets of 10 tars each; together they have the samples of `spec`.
std::vector<std::shared_ptr<const LeafDataset>> open_data_sets(const std::string& folder,
                                                               const DataSetSpec& spec, int count);

/// Checks the data that loaders deliver.
class Verifier {
 public:
  explicit Verifier(DataSetSpec spec);

  /// Compares every byte of every part of a batch. Throws Error (kInternal), naming the sample, if
  /// one differs.
  void check(const Sample& batch);

  /// Throws Error (kInternal) unless each sample was delivered exactly `times` times.
  void expect_each(int times) const;

  /// Samples in the order of delivery.
  const std::vector<std::int64_t>& order() const { return order_; }

 private:
  void check_part(std::int64_t sample, std::size_t part, ByteView bytes);

  const DataSetSpec spec_;
  std::vector<std::int64_t> order_;
  std::vector<std::byte> expected_;
};

}  // namespace energon::bench
