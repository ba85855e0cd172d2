#include "bench/support/data_set.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>

#include "io/error.h"
#include "io/prepare/prepare.h"

namespace energon::bench {

// --- UstarWriter ---

namespace {

constexpr std::size_t kBlock = 512;
using Block = std::array<char, kBlock>;

void put(Block& block, std::size_t offset, std::string_view value) {
  std::copy(value.begin(), value.end(), block.begin() + static_cast<std::ptrdiff_t>(offset));
}

Block header(std::string_view name, std::size_t size) {
  Block block{};
  put(block, 0, name.substr(0, 99));
  put(block, 100, "0000644");
  put(block, 108, "0001750");
  put(block, 116, "0001750");
  put(block, 124, fmt::format("{:011o}", size));
  put(block, 136, "14000000000");
  put(block, 148, "        ");  // the checksum counts itself as spaces
  block[156] = '0';
  put(block, 257, std::string_view("ustar\00000", 8));
  const int sum = std::accumulate(block.begin(), block.end(), 0, [](int total, char c) {
    return total + static_cast<unsigned char>(c);
  });
  put(block, 148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

}  // namespace

UstarWriter::UstarWriter(const std::string& path)
    : path_(path), file_(path, std::ios::binary | std::ios::trunc) {}

void UstarWriter::write(const char* bytes, std::size_t size) {
  if (!file_.write(bytes, static_cast<std::streamsize>(size))) {
    throw Error(ErrorCode::kIo, "cannot write a shard of the benchmark", {.path = path_});
  }
}

void UstarWriter::add(std::string_view name, ByteView content) {
  const Block head = header(name, content.size());
  write(head.data(), head.size());
  write(reinterpret_cast<const char*>(content.data()), content.size());
  const Block zeros{};
  write(zeros.data(), (kBlock - content.size() % kBlock) % kBlock);
}

void UstarWriter::finish() {
  const Block zeros{};
  write(zeros.data(), kBlock);
  write(zeros.data(), kBlock);
  file_.close();
}

// --- Datasets ---

namespace {

namespace fs = std::filesystem;

class NoProgress final : public ProgressSink {
 public:
  void on_progress(const PrepareProgress&) override {}
};

// SplitMix64: maps a counter to 64 well mixed bits.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

// Letters computed from (sample, part); JSON parts are one JSON object.
void fill_part(const PartSpec& spec, std::int64_t sample, std::size_t part,
               std::span<std::byte> bytes) {
  const std::uint64_t seed = mix(static_cast<std::uint64_t>(sample) * 16 + part);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t letters =
        (mix(seed + at) & 0x0F0F0F0F0F0F0F0FU) + 0x6161616161616161U;  // 'a' to 'p'
    std::memcpy(bytes.data() + at, &letters, std::min<std::size_t>(8, bytes.size() - at));
  }
  constexpr std::string_view kBegin = "{\"text\":\"";
  constexpr std::string_view kEnd = "\"}";
  if (spec.name == "json") {
    std::memcpy(bytes.data(), kBegin.data(), kBegin.size());
    std::memcpy(bytes.data() + bytes.size() - kEnd.size(), kEnd.data(), kEnd.size());
  }
}

std::string key_of(std::int64_t sample) { return fmt::format("{:08}", sample); }

std::int64_t number_of(std::string_view key) {
  std::int64_t number = -1;
  std::from_chars(key.data(), key.data() + key.size(), number);
  return number;
}

void write_shards(const fs::path& folder, const DataSetSpec& spec) {
  std::vector<std::byte> content;
  for (int shard = 0; shard < spec.shards; ++shard) {
    UstarWriter tar((folder / fmt::format("{:06}.tar", shard)).string());
    for (std::int64_t sample = spec.samples * shard / spec.shards;
         sample < spec.samples * (shard + 1) / spec.shards; ++sample) {
      for (std::size_t part = 0; part < spec.parts.size(); ++part) {
        content.resize(spec.parts[part].size_bytes);
        fill_part(spec.parts[part], spec.first + sample, part, content);
        tar.add(key_of(spec.first + sample) + "." + spec.parts[part].name, content);
      }
    }
    tar.finish();
  }
}

}  // namespace

std::uint64_t DataSetSpec::payload_bytes_per_sample() const {
  std::uint64_t sum = 0;
  for (const PartSpec& part : parts) {
    sum += part.size_bytes;
  }
  return sum;
}

DataSetSpec blob_spec(std::int64_t samples) {
  return {
      .name = "blob", .samples = samples, .shards = 8, .parts = {{"bin", std::size_t{1} << 20}}};
}

DataSetSpec text_spec(std::int64_t samples) {
  return {.name = "text", .samples = samples, .shards = 20, .parts = {{"txt", 600}, {"json", 200}}};
}

DataSetSpec many_tars_spec() {
  return {.name = "rotation-300", .samples = 4096 * 100, .shards = 4096, .parts = {{"txt", 300}}};
}

DataSetSpec blended_spec() {
  return {.name = "rotation-blend", .samples = 200'000, .shards = 1, .parts = {{"txt", 300}}};
}

DataSet make_data_set(const std::string& folder, const DataSetSpec& spec) {
  const fs::path path = fs::path(folder) / fmt::format("{}-{}", spec.name, spec.samples);
  if (!fs::exists(path / ".nv-meta" / ".info.json")) {  // written last by prepare()
    fs::remove_all(path);
    fs::create_directories(path);
    write_shards(path, spec);
    NoProgress progress;
    prepare(path.string(), {}, progress);
  }
  return {spec, path.string()};
}

std::shared_ptr<const Webdataset> open_data_set(const DataSet& data) {
  return std::make_shared<const Webdataset>(open_split(data.path));
}

std::vector<std::shared_ptr<const LeafDataset>> open_data_sets(const std::string& folder,
                                                               const DataSetSpec& spec, int count) {
  std::vector<std::shared_ptr<const LeafDataset>> data_sets;
  const std::int64_t samples = spec.samples / count;
  for (int i = 0; i < count; ++i) {
    data_sets.push_back(
        open_data_set(make_data_set(folder, {.name = fmt::format("{}-{}", spec.name, i),
                                             .samples = samples,
                                             .shards = 10,
                                             .parts = spec.parts,
                                             .first = i * samples})));
  }
  return data_sets;
}

Verifier::Verifier(DataSetSpec spec) : spec_(std::move(spec)) {}

void Verifier::check(const Sample& batch) {
  if (batch.fields.size() != spec_.parts.size()) {
    throw Error(ErrorCode::kInternal, fmt::format("a batch has {} fields, expected {}",
                                                  batch.fields.size(), spec_.parts.size()));
  }
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    const std::int64_t sample = number_of(batch.keys[i]);
    for (std::size_t part = 0; part < spec_.parts.size(); ++part) {
      const auto& list = std::get<List>(batch.at(spec_.parts[part].name).base());
      check_part(sample, part, std::get<SharedBytes>(list.at(i).base()).view);
    }
    order_.push_back(sample);
  }
}

void Verifier::check_part(std::int64_t sample, std::size_t part, ByteView bytes) {
  expected_.resize(spec_.parts[part].size_bytes);
  fill_part(spec_.parts[part], sample, part, expected_);
  if (!std::equal(bytes.begin(), bytes.end(), expected_.begin(), expected_.end())) {
    throw Error(ErrorCode::kInternal, fmt::format("part {} of sample {} has wrong bytes",
                                                  spec_.parts[part].name, key_of(sample)));
  }
}

void Verifier::expect_each(int times) const {
  std::vector<int> seen(static_cast<std::size_t>(spec_.samples));
  for (const std::int64_t sample : order_) {
    ++seen.at(static_cast<std::size_t>(sample - spec_.first));
  }
  for (std::size_t sample = 0; sample < seen.size(); ++sample) {
    if (seen[sample] != times) {
      throw Error(ErrorCode::kInternal, fmt::format("sample {} came {} times, expected {}",
                                                    spec_.first + static_cast<std::int64_t>(sample),
                                                    seen[sample], times));
    }
  }
}

}  // namespace energon::bench
