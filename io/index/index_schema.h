// The tables and indices of `index.sqlite`. Private to io.

#pragma once

#include <cstdint>
#include <string>

#include "io/index/sqlite_handle.h"

namespace energon {

/// The first page of each tree in the file.
struct IndexRoots {
  std::uint32_t samples = 0;
  std::uint32_t samples_by_key = 0;
  std::uint32_t samples_by_place = 0;
  std::uint32_t parts = 0;
  std::uint32_t parts_by_place = 0;
  std::uint32_t parts_by_name = 0;
};

/// Creates `path`, which must not exist, with the tables and indices, without rows. Throws Error
/// (kIo).
IndexRoots create_index_schema(const std::string& path);

/// Throws Error (kCorruptData) unless the file has exactly the tables and indices that
/// create_index_schema() makes, and no page that is not in use; the tables of media metadata
/// (io/index/media_table.h) may be there, with what their changes leave.
IndexRoots read_index_roots(sqlite3* db, const std::string& path);

}  // namespace energon
