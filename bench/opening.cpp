// How long does it take to open a dataset?
//
// Many shards, many samples, many datasets: a folder of 10,000 small tars, prepared and not; a
// folder of 1,000 tars whose indexes list 10 million samples (or, on request, 100 million); and a
// recipe that blends 200 datasets, up to its first batch. Everything is in the page cache, so the
// time is that of the library and the system calls.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/loader_runs.h"
#include "bench/support/program.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/shard_record.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/tar_index.h"
#include "io/prepare/prepare.h"
#include "wrappers/recipe/open_data.h"

namespace energon::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBatchSize = 64;
constexpr int kManyShards = 10'000;
constexpr int kClaimingShards = 1'000;
constexpr int kDataSets = 200;
const std::map<std::string, double> kMostSeconds = {
    {"10,000 shards, prepared", 0.015},
    {"1,000 shards, samples claimed", 0.030},
    {"recipe of 200 datasets, first batch, 0 workers", 0.050}};

class NoProgress final : public ProgressSink {
 public:
  void on_progress(const PrepareProgress&) override {}
};

// Like make_data_set(), but prepares the folder again if it was prepared without a summary.
DataSet make_summarized(const std::string& folder, const DataSetSpec& spec) {
  DataSet data = make_data_set(folder, spec);
  if (!fs::exists(shard_record_path(data.path + "/.nv-meta"))) {
    NoProgress progress;
    prepare(data.path, {.existing = Existing::kOverwrite}, progress);
  }
  return data;
}

DataSetSpec many_shards_spec() {
  return {.name = "opening-tars",
          .samples = 2 * kManyShards,
          .shards = kManyShards,
          .parts = {{"txt", 300}}};
}

// The same tars without .nv-meta: hard links, so that they need no space.
std::string make_plain(const std::string& folder, const DataSet& data) {
  const std::string path = folder + "/opening-plain";
  if (!fs::exists(path)) {
    const std::string unfinished = path + "-unfinished";
    fs::remove_all(unfinished);
    fs::create_directory(unfinished);
    for (const auto& entry : fs::directory_iterator(data.path)) {
      if (entry.path().extension() == ".tar") {
        fs::create_hard_link(entry.path(), unfinished / entry.path().filename());
      }
    }
    fs::rename(unfinished, path);
  }
  return path;
}

// A recipe that blends 200 datasets of 10 tars with 100 samples each.
std::string make_recipe(const std::string& folder) {
  constexpr std::int64_t kSamples = 1'000;
  std::string yaml =
      "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n";
  for (int i = 0; i < kDataSets; ++i) {
    const DataSet data = make_summarized(folder, {.name = fmt::format("opening-part-{}", i),
                                                  .samples = kSamples,
                                                  .shards = 10,
                                                  .parts = {{"txt", 300}},
                                                  .first = i * kSamples});
    yaml += fmt::format("    - {{weight: {}, path: {}}}\n", 1 + i % 7,
                        fs::path(data.path).filename().string());
  }
  const std::string path = folder + "/opening-recipe.yaml";
  std::ofstream(path) << yaml;
  return path;
}

void write_claims(const std::string& meta, const DatasetInfo& info,
                  std::vector<ShardRecord> records) {
  const std::string uuid = "00000000-0000-4000-8000-000000000000";
  std::vector<std::string> names;
  for (const ShardRecord& shard : records) {
    names.push_back(shard.name);
  }
  const std::string info_text = to_info_json(info);
  const ShardRecords record(uuid, prepared_set_digest(info_text, uuid), std::move(records));
  const std::vector<SplitRatio> all = {{.part = "train", .weight = 1}};
  const auto write = [&](const std::string& name, const std::string& content) {
    write_file_atomically(meta + "/" + name, as_bytes(content));
  };
  write("index.uuid", uuid);
  write("shard_record.bin", record.encode());
  write("split.yaml", to_split_yaml(split_by_ratio(names, all)));
  write(".info.json", info_text);
}

// 1,000 sparse tars, and the files of a prepare that found `samples` headers of 512 bytes in them.
// They do not contain data, which opening does not notice.
std::string make_claiming(const std::string& folder, std::int64_t samples) {
  const std::string path = fmt::format("{}/opening-claims-{}", folder, samples);
  if (fs::exists(path + "/.nv-meta/.info.json")) {
    return path;
  }
  constexpr std::uint64_t kHeader = 512;
  fs::remove_all(path);
  fs::create_directories(path + "/.nv-meta");
  DatasetInfo info{.energon_version = std::string(writer_version()), .shards = {}};
  std::vector<ShardRecord> records;
  for (int shard = 0; shard < kClaimingShards; ++shard) {
    const std::string tar = fmt::format("{}/{:06}.tar", path, shard);
    const std::int64_t count = samples / kClaimingShards;
    std::vector<std::uint64_t> entries(static_cast<std::size_t>(count) + 1);
    std::generate(entries.begin(), entries.end(), [offset = std::uint64_t{0}]() mutable {
      return std::exchange(offset, offset + kHeader);
    });
    std::ofstream(tar).flush();
    fs::resize_file(tar, entries.back() + 2 * kHeader);
    write_tar_index(tar_index_path(tar), entries);
    const FileSource file(tar);
    const TarIndex index = TarIndex::from_entries(std::move(entries), file.size());
    info.shards.push_back({fs::path(tar).filename().string(), count});
    records.push_back({.name = info.shards.back().name,
                       .size_bytes = file.size(),
                       .mtime_ns = file.identity().mtime_ns,
                       .sample_count = count,
                       .end_offset = index.entries().back(),
                       .header_digest = header_digest(file, index),
                       .index_digest = index.digest()});
  }
  write_claims(path + "/.nv-meta", info, std::move(records));
  return path;
}

std::int64_t samples_in(const PipelineData& data) {
  std::int64_t samples = 0;
  for (const PipelineLeaf& leaf : data.leaves) {
    samples += leaf.dataset->sample_count();
  }
  return samples;
}

double time_opening(const std::string& path, std::int64_t samples,
                    CheckShards check_shards = CheckShards::kAtFirstRead) {
  const Clock::time_point begin = Clock::now();
  const std::string cache = fs::path(path).parent_path().string() + "/cache";
  const PipelineData data =
      open_data(path, {.open = {.cache_dir = cache}, .check_shards = check_shards});
  const double seconds = seconds_since(begin);
  if (samples_in(data) != samples) {
    throw Error(ErrorCode::kInternal,
                fmt::format("opened {} samples, expected {}", samples_in(data), samples));
  }
  return seconds;
}

double time_first_batch(const std::string& path, int workers) {
  const Clock::time_point begin = Clock::now();
  const auto loader = make_loader(open_data(path), {workers, kBatchSize, 0}, Length::kEndless);
  if (!loader->next()) {
    throw Error(ErrorCode::kInternal, "no first batch");
  }
  return seconds_since(begin);
}

void measure_opening(const CommonOptions& options, std::int64_t claimed, const std::string& only,
                     Report& report) {
  const DataSet many = make_summarized(options.data_folder, many_shards_spec());
  const std::string plain = make_plain(options.data_folder, many);
  const std::string recipe = make_recipe(options.data_folder);
  verify_epoch(open_data(many.path), many.spec, {.num_workers = 0, .batch_size = kBatchSize});
  const std::int64_t in_recipe = 1'000 * kDataSets;
  const std::string claims = make_claiming(options.data_folder, claimed);
  std::vector<Variant> variants = {
      {"10,000 shards, prepared", [&] { return time_opening(many.path, many.spec.samples); }},
      {"10,000 shards, prepared, first batch, 0 workers",
       [&] { return time_first_batch(many.path, 0); }},
      {"10,000 shards, prepared, each looked at",
       [&] { return time_opening(many.path, many.spec.samples, CheckShards::kAtOpening); }},
      {"1,000 shards, samples claimed", [&] { return time_opening(claims, claimed); }},
      {"1,000 shards, samples claimed, each looked at",
       [&] { return time_opening(claims, claimed, CheckShards::kAtOpening); }},
      {"10,000 plain tars", [&] { return time_opening(plain, many.spec.samples); }},
      {"recipe of 200 datasets", [&] { return time_opening(recipe, in_recipe); }},
      {"recipe of 200 datasets, first batch, 0 workers",
       [&] { return time_first_batch(recipe, 0); }},
      {"recipe of 200 datasets, first batch, 2 workers",
       [&] { return time_first_batch(recipe, 2); }},
  };
  std::erase_if(variants, [&](const Variant& variant) {
    return variant.name.find(only) == std::string::npos;
  });
  for (const Measurement& measurement : measure_in_turn(variants, options.repetitions)) {
    report.add({.name = measurement.name, .unit = "s", .measurement = measurement});
    if (const auto target = kMostSeconds.find(measurement.name); target != kMostSeconds.end()) {
      report.add({.name = measurement.name,
                  .unit = "s",
                  .value = measurement.median(),
                  .target = target->second,
                  .direction = Target::Direction::kAtMost});
    }
  }
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t claimed = 10'000'000;
  std::string only;
  return run_program(
      argc, argv, "opening", "How long does it take to open a dataset?",
      [&](CLI::App& app) {
        app.add_option("--claimed-samples", claimed, "Samples that the indexes of 1,000 tars list")
            ->capture_default_str()
            ->check(CLI::Range(1'000, 1'000'000'000));
        app.add_option("--only", only, "Only variants with this text in their name");
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("claimed_samples", claimed);
        report.setting("batch_size", kBatchSize);
        measure_opening(options, claimed / 1'000 * 1'000, only, report);
      });
}
