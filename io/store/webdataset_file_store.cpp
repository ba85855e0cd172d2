#include <utility>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/read_committed.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"
#include "io/index/part_place.h"
#include "io/index/tar_index.h"
#include "io/store/file_store.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_header.h"

namespace energon {
namespace {

// When so many shards are open, all are closed. Opening one again costs little compared with
// looking up a part.
constexpr std::size_t kMaxOpenShards = 128;

DatasetInfo read_info(const std::string& path) {
  auto info = read_dataset_info(path + "/.nv-meta");
  if (!info || !path_exists(path + "/.nv-meta/index.sqlite")) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("files are looked up in prepared datasets only; run: energon prepare "
                            "{}",
                            printable(path)),
                {.path = path});
  }
  return std::move(*info);
}

[[noreturn]] void fail_missing(std::string_view name) {
  throw Error(ErrorCode::kNotFound, split_member_name(name)
                                        ? "the dataset has no such part"
                                        : "the dataset has no such part; names are key.part, "
                                          "such as 000123.jpg");
}

// The path of the new error is the store's; the file of the old one goes into its message.
Error of_store(const Error& error, const FileStore& store, std::string_view name) {
  const auto& where = error.context();
  const bool is_elsewhere = where.path && *where.path != store.path();
  return Error(
      error.code(),
      is_elsewhere
          ? fmt::format("{} ({}{})", error.message(), printable(*where.path),
                        where.byte_offset ? fmt::format(", byte {}", *where.byte_offset) : "")
          : error.message(),
      {.path = store.path(), .sample_key = std::string(name)});
}

}  // namespace

struct WebdatasetFileStore::Opened {
  explicit Opened(const std::string& path)
      : info(read_info(path)),
        records(ShardRecords::load(path + "/.nv-meta", info)),
        index(path + "/.nv-meta/index.sqlite") {}

  const std::string& shard_of(const PartLocation& part) const;
  const FileSource& tar_of(const PartLocation& part, const std::string& folder,
                           const std::optional<std::string>& cache_dir);

  const OwnerProcess process;
  const DatasetInfo info;
  const std::optional<ShardRecords> records;
  const SampleIndex index;
  std::unordered_map<std::int64_t, FileSource> tars;  // by tar_file_id
};

// The name of the shard that has the part.
const std::string& WebdatasetFileStore::Opened::shard_of(const PartLocation& part) const {
  if (part.tar_file_id >= static_cast<std::int64_t>(info.shards.size())) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the part is in shard {}, but .info.json names {} shards; prepare the "
                            "dataset again",
                            part.tar_file_id, info.shards.size()));
  }
  return info.shards[static_cast<std::size_t>(part.tar_file_id)].name;
}

// The uncompressed tar that has the part. Opens it and checks it against its record if need be.
const FileSource& WebdatasetFileStore::Opened::tar_of(const PartLocation& part,
                                                      const std::string& folder,
                                                      const std::optional<std::string>& cache_dir) {
  if (const auto tar = tars.find(part.tar_file_id); tar != tars.end()) {
    return tar->second;
  }
  const std::string& shard = shard_of(part);
  check_shard_name(shard, folder);
  if (tars.size() == kMaxOpenShards) {
    tars.clear();
  }
  const std::string original = folder + "/" + shard;
  FileSource file(original);
  std::optional<FileSource> copy;
  if (const std::string tar_path = ensure_expanded(file, cache_dir); tar_path != original) {
    copy.emplace(tar_path);
  }
  if (const ShardRecord* const record = records ? records->find(shard) : nullptr) {
    check_recorded_once(*record, file, copy ? *copy : file, tar_index_path(original), cache_dir);
  }
  return tars.emplace(part.tar_file_id, copy ? std::move(*copy) : std::move(file)).first->second;
}

WebdatasetFileStore::WebdatasetFileStore(std::string path, std::optional<std::string> cache_dir)
    : FileStore(std::move(path)), cache_dir_(std::move(cache_dir)) {}

WebdatasetFileStore::~WebdatasetFileStore() = default;

WebdatasetFileStore::Opened& WebdatasetFileStore::opened() {
  if (!opened_ || !opened_->process.is_current()) {
    std::unique_ptr<Opened> now;
    read_committed(path(), [&] { now = std::make_unique<Opened>(path()); });
    opened_ = std::move(now);
  }
  return *opened_;
}

FileStoreItem WebdatasetFileStore::get(std::string_view name) {
  try {
    const auto part = opened().index.find_part(name);
    if (!part) {
      fail_missing(name);
    }
    return read(name, *part);
  } catch (const Error& error) {
    throw of_store(error, *this, name);
  }
}

std::optional<MediaMetadata> WebdatasetFileStore::get_media_metadata(std::string_view name) {
  try {
    const SampleIndex& index = opened().index;
    std::optional<MediaMetadata> metadata = index.media_metadata(name);
    if (!metadata && !index.find_part(name)) {
      fail_missing(name);
    }
    return metadata;
  } catch (const Error& error) {
    throw of_store(error, *this, name);
  }
}

FileStoreItem WebdatasetFileStore::read(std::string_view name, const PartLocation& part) {
  Opened& open = opened();
  const std::string& shard = open.shard_of(part);
  const FileSource& file = open.tar_of(part, path(), cache_dir_);
  check_part_range(part, file);
  const SharedBytes bytes = read_bytes(file, {.offset = part.content.offset - kTarBlockBytes,
                                              .size = part.content.size + kTarBlockBytes});
  check_part_place(TarBlock(bytes.view.first(kTarBlockBytes)), name, part, file, open.index);
  return {.bytes = {.view = bytes.view.subspan(kTarBlockBytes), .owner = bytes.owner},
          .source_path = file.path(),
          .shard = shard,
          .sample_index = part.sample_index,
          .range = part.content};
}

}  // namespace energon
