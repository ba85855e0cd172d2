#include "io/prepare/folder_media_update.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/prepare/folder_lock.h"

namespace energon {
namespace {

unsigned mode_of_parent(const std::string& path) {
  struct stat status {};
  if (::stat(folder_of(path).c_str(), &status) != 0) {
    throw io_error("cannot stat", errno, {.path = folder_of(path)});
  }
  return status.st_mode & 0777U;
}

// Whether there were rows.
bool copy_rows(const std::string& from, const std::string& to) {
  try {
    return copy_media_tables(from, to);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData) {
      throw;
    }
    throw Error(error.code(),
                fmt::format("{}; remove this file, and store the media metadata of all files again",
                            error.message()),
                error.context());
  }
}

}  // namespace

FolderMediaUpdate::MetaFolder::MetaFolder(std::string path) : path_(std::move(path)) {
  is_made_ = ::mkdir(path_.c_str(), 0700) == 0;
  if (!is_made_ && errno != EEXIST) {
    throw io_error("cannot make folder", errno, {.path = path_});
  }
  if (is_made_) {
    ::chmod(path_.c_str(), mode_of_parent(path_) | 0700U);
  }
  remove_abandoned(path_, [](std::string_view target) { return target == "index.sqlite"; });
}

FolderMediaUpdate::MetaFolder::~MetaFolder() {
  if (is_made_) {
    ::rmdir(path_.c_str());  // fails if there is an index now
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
                "changed, run it again",
                {.path = folder_of(folder_of(meta_.index()))});
  }
  file_.replace();
  sync_folder(folder_of(folder_of(meta_.index())));
}

}  // namespace energon
