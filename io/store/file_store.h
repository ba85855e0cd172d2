// Files that are looked up by name: the auxiliary data of a dataset (`aux` in a metadataset).
//
// A store is created before workers are forked. It opens its files at the first get(), so each
// process opens its own: a database connection must not cross a fork. Stores are not thread-safe:
// use one object per thread.
//
// A StorePool keeps open stores for many threads.

#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/file.h"
#include "io/index/jsonl_index.h"
#include "io/index/media_metadata.h"
#include "io/index/sample_index.h"
#include "io/index/tar_index.h"
#include "io/recipe/metadataset.h"

namespace energon {

class MediaIndex;

/// The bytes of one file, and their source.
struct FileStoreItem {
  SharedBytes bytes;              ///< owned; may outlive the store
  std::string source_path;        ///< the file that was read
  std::string shard;              ///< shard name in the dataset; in a folder, the name looked up
  std::int64_t sample_index = 0;  ///< in the shard; 0 in a folder
  ByteRange range;                ///< in source_path
};

class FileStore {
 public:
  virtual ~FileStore() = default;

  /// The file `name`. Throws Error with the store as path and the name as sample:
  ///   kNotFound         the file does not exist
  ///   kInvalidArgument  the name is invalid for this store, or the store is not prepared
  ///   kCorruptData, kIo
  virtual FileStoreItem get(std::string_view name) = 0;

  /// The prepared metadata of the file `name` (energon prepare-media), without reading the file;
  /// nullopt if it is not an image, audio or video file, or was unreadable. In a folder, describes
  /// the file at that time: a file that was changed or removed since still has its row. Throws
  /// Error as get(), and kUnsupported if the store has no media metadata.
  virtual std::optional<MediaMetadata> get_media_metadata(std::string_view name);

  /// As passed to the constructor: a folder or a JSONL file.
  const std::string& path() const { return path_; }

 protected:
  explicit FileStore(std::string path) : path_(std::move(path)) {}

 private:
  const std::string path_;
};

/// Parts of a prepared dataset, in any of its splits, by "key.part". Each get() looks up the part
/// in index.sqlite and does one read, of the part and the header before it, which must belong to
/// this part. Excluded samples are also found.
class WebdatasetFileStore final : public FileStore {
 public:
  /// `cache_dir` is where compressed shards are expanded (io/index/index_cache.h); unset means
  /// default_cache_dir().
  explicit WebdatasetFileStore(std::string path,
                               std::optional<std::string> cache_dir = std::nullopt);
  ~WebdatasetFileStore() override;

  FileStoreItem get(std::string_view name) override;
  std::optional<MediaMetadata> get_media_metadata(std::string_view name) override;

 private:
  struct Opened;

  Opened& opened();
  FileStoreItem read(std::string_view name, const PartLocation& part);

  const std::optional<std::string> cache_dir_;
  std::unique_ptr<Opened> opened_;  // empty before the first get()
};

/// Files in a folder and its subfolders, by their path relative to it. Names cannot lead out of the
/// folder; symbolic links in it can.
class FolderFileStore final : public FileStore {
 public:
  explicit FolderFileStore(std::string path);
  ~FolderFileStore() override;

  FileStoreItem get(std::string_view name) override;
  std::optional<MediaMetadata> get_media_metadata(std::string_view name) override;

 private:
  std::unique_ptr<MediaIndex> media_;  // empty before the first get_media_metadata()
};

/// Lines of a JSONL file, by sample index: "3" or "3.json". The bytes are those of
/// JsonlIndex::range(), including the end of the line.
class JsonlFileStore final : public FileStore {
 public:
  /// `cache_dir` as for ensure_jsonl_indexed().
  explicit JsonlFileStore(std::string path, std::optional<std::string> cache_dir = std::nullopt);

  FileStoreItem get(std::string_view name) override;

 private:
  const std::optional<std::string> cache_dir_;
  std::optional<FileSource> file_;  // empty before the first get(), like index_
  std::optional<JsonlIndex> index_;
};

/// The store for `reference`; no file is opened yet.
std::unique_ptr<FileStore> make_file_store(
    const AuxReference& reference, const std::optional<std::string>& cache_dir = std::nullopt);

// --- Open stores for many threads ---

/// Opens a new store on each call. Called in any thread.
using StoreFactory = std::function<std::unique_ptr<FileStore>()>;

/// One thread at a time uses a store. Per `store_id`, the pool keeps as many stores as were ever in
/// use at once. Thread-safe.
class StorePool {
 public:
  /// Calls get(`name`) on a store `store_id`: an idle one, or else a new one. Throws what the store
  /// or the factory throws, and Error (kInvalidArgument) if the factory returns null.
  FileStoreItem get(const std::string& store_id, const StoreFactory& open_store,
                    std::string_view name);

 private:
  class Lease;
  using Stores = std::list<std::unique_ptr<FileStore>>;

  Mutex mutex_;
  std::unordered_map<std::string, Stores> idle_ ENERGON_GUARDED_BY(mutex_);
};

}  // namespace energon
