#include "io/store/file_store.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"
#include "io/index/media_table.h"
#include "io/index/part_place.h"
#include "io/index/tar_index.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_header.h"

namespace energon {

namespace fs = std::filesystem;

// --- Folders and JSONL files ---

namespace {

[[noreturn]] void fail(ErrorCode code, const std::string& problem, const FileStore& store,
                       std::string_view name) {
  throw Error(code, problem, {.path = store.path(), .sample_key = std::string(name)});
}

// The normalized path of a file.
fs::path name_in_folder(const FolderFileStore& store, std::string_view name) {
  fs::path relative = fs::path(name).lexically_normal();
  if (name.empty() || name.find('\0') != std::string_view::npos || relative.is_absolute() ||
      *relative.begin() == "..") {
    fail(ErrorCode::kInvalidArgument, "the name leads out of the folder", store, name);
  }
  return relative;
}

std::unique_ptr<MediaIndex> open_media_of_folder(const std::string& folder) {
  try {
    return std::make_unique<MediaIndex>(folder + "/.nv-meta/index.sqlite");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kUnsupported) {
      throw;
    }
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the folder has no media metadata; run: energon prepare-media {} "
                            "--media-metadata-by-extension",
                            printable(folder)));
  }
}

}  // namespace

std::optional<MediaMetadata> FileStore::get_media_metadata(std::string_view name) {
  fail(ErrorCode::kUnsupported,
       "only prepared datasets and folders of files have media metadata (energon prepare-media)",
       *this, name);
}

FolderFileStore::FolderFileStore(std::string path) : FileStore(std::move(path)) {}

FolderFileStore::~FolderFileStore() = default;

FileStoreItem FolderFileStore::get(std::string_view name) {
  const fs::path relative = name_in_folder(*this, name);
  try {
    const FileSource file((fs::path(path()) / relative).string());
    const ByteRange all{.offset = 0, .size = file.size()};
    return {.bytes = read_bytes(file, all),
            .source_path = file.path(),
            .shard = relative.string(),
            .sample_index = 0,
            .range = all};
  } catch (const Error& error) {
    fail(error.code(), fmt::format("cannot read a file of the folder: {}", error.message()), *this,
         name);
  }
}

std::optional<MediaMetadata> FolderFileStore::get_media_metadata(std::string_view name) {
  const std::string relative = name_in_folder(*this, name).string();
  try {
    if (!media_ || !media_->is_of_this_process()) {
      media_ = open_media_of_folder(path());
    }
    std::optional<MediaMetadata> metadata = media_->find(relative);
    if (!metadata && !path_exists(path() + "/" + relative)) {
      throw Error(ErrorCode::kNotFound, "the folder has no such file");
    }
    return metadata;
  } catch (const Error& error) {
    fail(error.code(), error.message(), *this, name);
  }
}

JsonlFileStore::JsonlFileStore(std::string path, std::optional<std::string> cache_dir)
    : FileStore(std::move(path)), cache_dir_(std::move(cache_dir)) {}

FileStoreItem JsonlFileStore::get(std::string_view name) {
  constexpr std::string_view kSuffix = ".json";
  const std::string_view digits =
      name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    fail(ErrorCode::kInvalidArgument,
         "a line of a JSONL file is looked up by its index: \"3\" or \"3.json\"", *this, name);
  }
  if (!index_) {
    const std::string index_path = ensure_jsonl_indexed(path(), cache_dir_);
    FileSource file(path());
    index_ = JsonlIndex::load(index_path, file.size());
    file_.emplace(std::move(file));
  }
  if (number >= static_cast<std::uint64_t>(index_->sample_count())) {
    fail(ErrorCode::kNotFound, fmt::format("the JSONL file has {} samples", index_->sample_count()),
         *this, name);
  }
  const auto i = static_cast<std::int64_t>(number);
  const ByteRange range = index_->range(i);
  const SharedBytes bytes = read_bytes(*file_, range);
  std::optional<char> before;
  if (range.offset > 0) {
    before = read_bytes(*file_, {.offset = range.offset - 1, .size = 1}).text().front();
  }
  try {
    whole_line(bytes.text(), before, range, file_->size());
  } catch (const Error& error) {
    fail(error.code(), error.message(), *this, name);
  }
  return {.bytes = bytes,
          .source_path = path(),
          .shard = fs::path(path()).filename().string(),
          .sample_index = i,
          .range = range};
}

std::unique_ptr<FileStore> make_file_store(const AuxReference& reference,
                                           const std::optional<std::string>& cache_dir) {
  switch (reference.kind) {
    case AuxReference::Kind::kWebdataset:
      return std::make_unique<WebdatasetFileStore>(reference.path, cache_dir);
    case AuxReference::Kind::kFolder:
      return std::make_unique<FolderFileStore>(reference.path);
    case AuxReference::Kind::kJsonl:
      return std::make_unique<JsonlFileStore>(reference.path, cache_dir);
  }
  throw Error(ErrorCode::kInternal, "unknown kind of auxiliary data", {.path = reference.path});
}

// --- Parts of a prepared dataset ---

namespace {

// When this many shards are open, all are closed. Reopening one costs little compared with looking
// up a part.
constexpr std::size_t kMaxOpenShards = 128;

DatasetInfo read_info(const std::string& path) {
  auto info = read_dataset_info(path + "/.nv-meta");
  if (!info || !path_exists(path + "/.nv-meta/index.sqlite")) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("files can only be looked up in prepared datasets; run: energon prepare "
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

// The new error has the store's path; the file of the old error goes into its message.
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
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format(
            "the part is in shard {}, but .info.json lists {} shards; prepare the dataset again",
            part.tar_file_id, info.shards.size()));
  }
  return info.shards[static_cast<std::size_t>(part.tar_file_id)].name;
}

// The uncompressed tar that contains the part, opened and checked against its record if necessary.
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

// --- Open stores for many threads ---

/// Takes a store out of the pool for one use. Returning it does not allocate, so it cannot fail.
class StorePool::Lease {
 public:
  Lease(StorePool& pool, const std::string& store_id, const StoreFactory& open_store)
      : pool_(pool) {
    take_idle(store_id);
    if (!store_.empty()) {
      return;
    }
    store_.push_back(open_store());
    if (store_.front() == nullptr) {
      throw Error(ErrorCode::kInvalidArgument, "the function that opens a file store returned null",
                  {.path = store_id});
    }
  }
  // Even after an error: a missing name does not harm a store.
  ~Lease() { give_back(); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  FileStore& store() { return *store_.front(); }

 private:
  void take_idle(const std::string& store_id) {
    const MutexLock lock(pool_.mutex_);
    idle_ = &pool_.idle_[store_id];
    if (!idle_->empty()) {
      store_.splice(store_.begin(), *idle_, idle_->begin());
    }
  }

  void give_back() {
    const MutexLock lock(pool_.mutex_);
    idle_->splice(idle_->begin(), store_);
  }

  StorePool& pool_;
  // Elements of a map have stable addresses.
  Stores* idle_ ENERGON_PT_GUARDED_BY(pool_.mutex_) = nullptr;
  Stores store_;  // one
};

FileStoreItem StorePool::get(const std::string& store_id, const StoreFactory& open_store,
                             std::string_view name) {
  Lease lease(*this, store_id, open_store);
  return lease.store().get(name);
}

}  // namespace energon
