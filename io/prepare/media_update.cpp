#include "io/prepare/media_update.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"

namespace energon {
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
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("media metadata is added to prepared datasets only; run: energon "
                            "prepare {}",
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

// What a prepare would change.
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
                "another process prepared the dataset meanwhile; nothing was changed, run it again",
                {.path = dataset_path_});
  }
  staging_.commit();
}

}  // namespace energon
