#include "io/store/file_store.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/media_table.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(ErrorCode code, const std::string& problem, const FileStore& store,
                       std::string_view name) {
  throw Error(code, problem, {.path = store.path(), .sample_key = std::string(name)});
}

// The normal form of the path of a file.
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
         "a line of a JSONL file is looked up by its number: \"3\" or \"3.json\"", *this, name);
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

}  // namespace energon
