#include "io/index/media_index.h"

#include <utility>

#include "io/error.h"
#include "io/index/media_table.h"
#include "io/index/sqlite_handle.h"

namespace energon {
namespace {

SqlitePtr open_media_only(const std::string& path) {
  SqlitePtr db = open_sqlite_defensively(path);
  if (!has_table(db.get(), "media_metadata", path)) {
    throw Error(ErrorCode::kUnsupported, "index database: it has no media metadata",
                {.path = path});
  }
  return db;
}

}  // namespace

struct MediaIndex::Connection {
  explicit Connection(const std::string& path) : db(open_media_only(path)), rows(db.get(), path) {}

  SqlitePtr db;
  MediaTableReader rows;
};

MediaIndex::MediaIndex(std::string path)
    : path_(std::move(path)), connection_(std::make_unique<Connection>(path_)) {}

MediaIndex::~MediaIndex() {
  if (!owner_.is_current()) {
    keep_inherited(std::move(connection_));
  }
}

std::optional<MediaMetadata> MediaIndex::find(std::string_view entry_key) const {
  owner_.check("the index database of a folder");
  return connection_->rows.find(entry_key);
}

}  // namespace energon
