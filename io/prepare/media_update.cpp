#include "io/prepare/media_update.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/prepare/staging_folder.h"

namespace energon {

// --- Prepared datasets ---

namespace {

constexpr std::uint64_t kMostUuidBytes = 1024;

const std::string& prepared_before(const std::string& path) {
  const std::string meta = path + "/.nv-meta";
  if (!path_exists(path)) {
    throw Error(ErrorCode::kNotFound, "no such folder", {.path = path});
  }
  complete_commit(path);
  if (!path_exists(meta + "/index.sqlite") ||
      !(path_exists(meta + "/.info.json") || path_exists(meta + "/.info.yaml"))) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "media metadata can only be added to prepared datasets; run: energon prepare {}",
            printable(path)),
        {.path = path});
  }
  return path;
}

unsigned permissions_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw io_error("cannot stat", errno, {.path = path});
  }
  return status.st_mode & 0777U;
}

void copy_database(const std::string& from, const std::string& to, unsigned mode) {
  const WriteSignalsBlocked blocked;
  std::error_code error;
  std::filesystem::copy_file(from, to, error);
  if (!error) {
    std::filesystem::permissions(to, static_cast<std::filesystem::perms>(mode), error);
  }
  if (error) {
    throw io_error("cannot copy the index database", error.value(), {.path = to});
  }
}

}  // namespace

MediaUpdate::MediaUpdate(const std::string& dataset_path)
    : dataset_path_(prepared_before(dataset_path)),
      index_path_(dataset_path_ + "/.nv-meta/index.sqlite"),
      staging_(dataset_path_, permissions_of(dataset_path_) | 0700U),
      version_(version()),
      info_(read_dataset_info(dataset_path_ + "/.nv-meta").value_or(DatasetInfo{})),
      file_mode_((permissions_of(index_path_) | 0600U) & 0666U),
      copy_(staging_.meta_file("index.sqlite")) {
  const WriteSignalsBlocked blocked;
  copy_database(index_path_, copy_, file_mode_);
  writer_.emplace(copy_);
}

// The version of everything that a prepare changes.
std::string MediaUpdate::version() const {
  const std::string meta = dataset_path_ + "/.nv-meta";
  return fmt::format("{}|{}", read_info_text(meta).value_or(""),
                     read_if_there(meta + "/index.uuid", kMostUuidBytes).value_or(""));
}

void MediaUpdate::add(std::string_view name, const MediaMetadata& metadata) {
  const WriteSignalsBlocked blocked;
  writer_->add(name, to_string(metadata.kind), to_media_json(metadata));
}

void MediaUpdate::add_filter(std::string_view strategy, std::string_view patterns) {
  const WriteSignalsBlocked blocked;
  writer_->add_filter(strategy, patterns);
}

void MediaUpdate::commit() {
  const WriteSignalsBlocked blocked;
  writer_->finish();
  writer_.reset();
  const std::optional<std::string> text = read_info_text(dataset_path_ + "/.nv-meta");
  const std::string info = text ? *text : to_info_json(info_);
  staging_.write_meta_file(".info.json", as_bytes(info), file_mode_);
  if (version() != version_) {
    throw Error(ErrorCode::kInvalidArgument,
                "another process prepared the dataset meanwhile; nothing was changed, run the "
                "command again",
                {.path = dataset_path_});
  }
  staging_.commit();
}

// --- Folders of files ---

namespace {

unsigned mode_of_parent(const std::string& path) {
  struct stat status {};
  if (::stat(folder_of(path).c_str(), &status) != 0) {
    throw io_error("cannot stat", errno, {.path = folder_of(path)});
  }
  return status.st_mode & 0777U;
}

// Whether the old file had rows.
bool copy_rows(const std::string& from, const std::string& to) {
  try {
    return copy_media_tables(from, to);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData) {
      throw;
    }
    throw Error(
        error.code(),
        fmt::format("{}; remove this file, and prepare the media metadata of all files again",
                    error.message()),
        error.context());
  }
}

}  // namespace

FolderMediaUpdate::MetaFolder::MetaFolder(std::string path) : path_(std::move(path)) {
  is_made_ = ::mkdir(path_.c_str(), 0700) == 0;
  if (!is_made_ && errno != EEXIST) {
    throw io_error("cannot create folder", errno, {.path = path_});
  }
  if (is_made_) {
    ::chmod(path_.c_str(), mode_of_parent(path_) | 0700U);
  }
  remove_abandoned(path_, [](std::string_view target) { return target == "index.sqlite"; });
}

FolderMediaUpdate::MetaFolder::~MetaFolder() {
  if (is_made_) {
    ::rmdir(path_.c_str());  // fails if it now contains an index
  }
}

FolderMediaUpdate::FolderMediaUpdate(const std::string& folder)
    : lock_(lock_folder(folder, "folder")),
      meta_(folder + "/.nv-meta"),
      version_(identity_of(meta_.index())),
      file_(meta_.index()) {
  const WriteSignalsBlocked blocked;
  ::fchmod(file_.fd(), (mode_of_parent(folder + "/.nv-meta") & 0666U) | 0600U);
  if (version_ && copy_rows(meta_.index(), file_.temporary_path())) {
    index_path_ = meta_.index();
  }
  writer_.emplace(file_.temporary_path());
}

void FolderMediaUpdate::add(std::string_view name, const MediaMetadata& metadata) {
  const WriteSignalsBlocked blocked;
  writer_->add(name, to_string(metadata.kind), to_media_json(metadata));
}

void FolderMediaUpdate::add_filter(std::string_view strategy, std::string_view patterns) {
  const WriteSignalsBlocked blocked;
  writer_->add_filter(strategy, patterns);
}

void FolderMediaUpdate::commit() {
  const WriteSignalsBlocked blocked;
  writer_->finish();
  writer_.reset();
  if (identity_of(meta_.index()) != version_) {
    throw Error(ErrorCode::kInvalidArgument,
                "another process stored media metadata of the folder meanwhile; nothing was "
                "changed, run the command again",
                {.path = folder_of(folder_of(meta_.index()))});
  }
  file_.replace();
  sync_folder(folder_of(folder_of(meta_.index())));
}

}  // namespace energon
